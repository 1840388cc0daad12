"""What an application wrote does not depend on how its input was cut, nor on stops and kills in between."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable

import pytest
from confluent_kafka import Producer
from pyspark import cloudpickle

from odradek.testing import TestDriver
from streams import every_verb as verbs
from streams.broker import Topics
from streams.every_verb import FINAL, PARTITIONS, PARTS, UPDATING, Record, Sent, arrivals, closing, every_verb
from streams.feeding import until

pytestmark = [pytest.mark.spark, pytest.mark.replay, pytest.mark.timeout(600)]
cloudpickle.register_pickle_by_value(sys.modules[verbs.__name__])  # as what a user's script defines

Written = dict[str, list[Record]]


class Replay:
    """The application under a name of its own, so that it begins with empty topics and without state."""

    def __init__(self, name, spark, topics: Topics, folder) -> None:
        self.name, self._spark, self._topics = name, spark, topics
        self.folder = folder / name
        self.folder.mkdir()
        self._app = every_verb(name, self.folder)
        for topic, partitions in PARTITIONS.items():
            # what is sent is months old: retention would delete it while the test runs
            topics.cluster.create_topic(f"{name}-{topic}", partitions, {"retention.ms": "-1"})

    @property
    def _held(self):
        return [self.folder / f"held-{part}" for part in PARTS]

    def send(self, rows: Iterable[Sent]) -> None:
        producer = Producer({"bootstrap.servers": self._topics.bootstrap})
        for row in rows:
            value = None if row.value is None else json.dumps(row.value)
            topic = f"{self.name}-{row.topic}"
            producer.produce(topic, value, row.key, row.partition, timestamp=row.timestamp_ms)
        assert producer.flush(60) == 0

    def start(self, *, available_now: bool):
        return self._app.start(
            session=self._spark,
            bootstrap=self._topics.bootstrap,
            state_dir=str(self.folder / "state"),
            trigger_available_now=available_now,
        )

    def process(self) -> None:
        """All that is there in one micro-batch, after one that was interrupted."""
        self.start(available_now=True).stop()

    def kill_in_the_middle(self) -> None:
        """Begins a micro-batch and stops before its end, with state and a part of the results written."""
        (self.folder / "hold").touch()
        running = self.start(available_now=False)
        try:
            until(lambda: any(held.exists() for held in self._held) or not running.active, "a held micro-batch", 200)
            running.check()
        finally:
            running.stop()
            (self.folder / "hold").unlink()

    def written(self) -> Written:
        found = {topic: self._topics.keyed(f"{self.name}-{topic}") for topic in (*FINAL, *UPDATING)}
        return {topic: [(verbs.key_text(key), value) for key, value in records] for topic, records in found.items()}


@pytest.fixture
def replay(spark, topics, tmp_path):
    return lambda name: Replay(name, spark, topics, tmp_path)


def check_same(expected: Written, found: Written, *, repeated: bool = False) -> None:
    wrong = {topic: verbs.differences(expected[topic], found[topic], repeated=repeated) for topic in FINAL}
    assert {topic: told for topic, told in wrong.items() if told} == {}
    for topic in UPDATING:
        assert verbs.last_by_key(found[topic]) == verbs.last_by_key(expected[topic]), topic


def in_one(replay, name: str, rows: list[Sent]) -> Written:
    whole = replay(name)
    whole.send(rows)
    whole.process()
    return whole.written()


def test_cuts_restarts_and_a_kill_do_not_change_what_is_written(replay):
    rows = arrivals(seed=7, count=120)
    end = closing(rows)
    expected = in_one(replay, "whole", [*rows, *end])
    assert [topic for topic, records in expected.items() if not records] == [], "each verb gives something"
    pieces = replay("pieces")
    first, second = sorted(random.Random(3).sample(range(20, len(rows) - 20), 2))
    pieces.send(rows[:first])
    pieces.process()
    pieces.send(rows[first:second])
    pieces.kill_in_the_middle()
    pieces.send([*rows[second:], *end])
    pieces.process()
    check_same(expected, pieces.written(), repeated=True)


def test_row_by_row_under_a_test_driver_is_as_all_at_once(replay, odradek_spark, tmp_path):
    rows = arrivals(seed=11, count=8)
    end = closing(rows)
    expected = in_one(replay, "small", [*rows, *end])
    with TestDriver(every_verb("driven", tmp_path), session=odradek_spark) as driver:
        for number, row in enumerate([*rows, *end]):
            driver.input(f"driven-{row.topic}").send(row.value, key=row.key, at=row.arrived)
            driver.settle()
            if number == len(rows) // 2:
                driver.restart()
        found = {topic: driver.output(f"driven-{topic}").read_keyed() for topic in expected}
    found = {topic: [(verbs.key_text(key), value) for key, value in records] for topic, records in found.items()}
    check_same(expected, found)
    for topic in UPDATING:
        fine = verbs.changes_by_key(found[topic])
        for key, coarse in verbs.changes_by_key(expected[topic]).items():
            assert verbs.is_part_of(coarse, fine[key]), f"the changes of {key} in {topic} come in one order"
