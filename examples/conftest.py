"""Runs the application of an example in two ways: live, with records sent in pieces, and on all records at once."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.client.admin import Admin
from odradek.streams.api.loading import load_app, pickle_by_value
from odradek.testing import Embedded

Written = dict[str, list[dict[str, Any]]]


@pytest.fixture
def beside() -> Callable[[str, str], ModuleType]:
    """Loads a module from the directory of a test file."""

    def load(test: str, name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, Path(test).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def written(odradek_spark: Any, tmp_path: Path) -> Callable[..., Written]:
    """Runs an application on records, and returns its output by topic."""

    def run(app_file: Path, records: Sequence[Any], topics: Sequence[str], *, live: bool) -> Written:
        app = load_app(str(app_file))
        pickle_by_value(app)
        state = tmp_path / ("live" if live else "replayed")
        with Embedded() as broker:
            where = {"bootstrap": broker.bootstrap_servers, "session": odradek_spark, "state_dir": str(state)}
            for topic in {record.topic for record in records}:
                # retention must not delete the records, which have old timestamps
                Admin(broker.bootstrap_servers).create_topic(topic, 1 if live else 3, {"retention.ms": "-1"})
            if live:
                with app.start(**where) as running:
                    # one topic at a time, because the sources do not look at all topics in the same moment
                    for _, piece in itertools.groupby(records, lambda record: record.topic):
                        send(broker.bootstrap_servers, list(piece))
                        running.await_all_processed(timeout_s=120)
            else:
                send(broker.bootstrap_servers, records)
                app.start(**where, trigger_available_now=True).stop()
            return {topic: values(broker.bootstrap_servers, topic) for topic in topics}

    return run


def send(bootstrap: str, records: Sequence[Any]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for record in records:
        value = None if record.value is None else json.dumps(record.value)
        producer.produce(record.topic, value, record.key, timestamp=int(record.arrived.timestamp() * 1000))
    assert producer.flush(30) == 0


def values(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    ours = {"group.id": "tests", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **ours})
    found: list[dict[str, Any]] = []
    for partition, end in Admin(bootstrap).end_offsets(topic).items():
        consumer.assign([TopicPartition(topic, partition, 0)])
        position = 0
        while position < end:
            record = consumer.poll(30)
            assert record is not None
            if record.error() is None:
                found.append(json.loads(record.value()))
            # the end of the partition, or of what is committed so far
            position = record.offset() + (record.error() is None)
    consumer.close()
    return found
