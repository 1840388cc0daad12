"""Sources write records and offsets in one transaction (KIP-618): a run that died or was replaced repeats nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from odradek.client import Consumer
from odradek.connect.storage.offsets import offset_entries
from odradek.testing import Embedded
from support.connect_service import connect_service, eventually


def lines(broker: Embedded, topic: str, isolation: str = "read_committed") -> list[int]:
    level = {"isolation.level": isolation}
    with Consumer(topic, bootstrap=broker.bootstrap_servers, stop_at_end=True, **level) as consumer:
        return [json.loads(record.value) for record in consumer]


def test_a_run_that_dies_between_write_and_commit_is_aborted_and_fenced(broker: Embedded, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("1\n2\n")
    with connect_service(broker.bootstrap_servers, group="once") as service:
        service.create(
            "lines", connector_class="files-source", path=file, topic="lines", exactly_once_support="required"
        )
        eventually(lambda: service.http.get("/connectors/lines/topics").json()["lines"]["topics"])
        eventually(lambda: lines(broker, "lines") == [1, 2])
        (offset,) = service.http.get("/connectors/lines/offsets").json()["offsets"]

    # A run that has written its batch and its offset, and stops before the commit: killed, or paused.
    dying = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "once-lines-0"})
    dying.init_transactions(30)
    dying.begin_transaction()
    dying.produce("lines", b"3")
    later = {key: value + 2 if isinstance(value, int) else value for key, value in offset["offset"].items()}
    for key, value in offset_entries("lines", [(offset["partition"], later)]):
        dying.produce("connect-offsets", value, key)
    assert dying.flush(60) == 0

    file.write_text("1\n2\n3\n4\n")
    with connect_service(broker.bootstrap_servers, group="once") as service:
        eventually(lambda: lines(broker, "lines") == [1, 2, 3, 4], lambda: lines(broker, "lines"))
        with pytest.raises(KafkaException, match=r"fenced|epoch"):
            dying.commit_transaction(30)
        assert lines(broker, "lines") == [1, 2, 3, 4]
        assert lines(broker, "lines", "read_uncommitted") == [1, 2, 3, 3, 4]
        service.http.delete("/connectors/lines")


def test_without_transactions_a_source_writes_at_least_once(broker: Embedded, tmp_path: Path) -> None:
    file = tmp_path / "b.jsonl"
    file.write_text("1\n2\n")
    with connect_service(broker.bootstrap_servers, group="plain", exactly_once_sources=False) as service:
        service.create("plain", connector_class="files-source", path=file, topic="plain")
        eventually(lambda: service.http.get("/connectors/plain/topics").json()["plain"]["topics"])
        eventually(lambda: lines(broker, "plain") == [1, 2])
        service.http.delete("/connectors/plain")
