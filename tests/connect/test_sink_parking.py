"""An idle sink says what it has read to: records that came in its last moment are news."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition

from odradek.connect.common_options import SinkOptions
from odradek.connect.connectors.files_sink import FilesSink, FilesSinkConfig
from odradek.connect.conversion import Conversion
from odradek.connect.tasks.sink_task import SinkRun
from odradek.connect.tasks.spec import Ending, TaskSpec
from odradek.connect.tasks.tolerance import Tolerance
from odradek.connect.transformation import Transforms
from streams.broker import Topics
from support.waiting import wait_until

PLACE = ("parking", 0)


class Leashed:
    stop_for: str | None = None

    def check(self) -> None:
        pass

    def report(self, _: Mapping[str, object]) -> None:
        pass


class LastMoment(Consumer):
    """Once the first record was read, another one arrives just after a poll has returned nothing."""

    def __init__(self, config: Mapping[str, object], topics: Topics) -> None:
        super().__init__(config)
        self._topics = topics
        self._is_sent = False

    def poll(self, timeout: float) -> object:
        if self._end() < 1 or self._is_sent or self.position([TopicPartition(*PLACE)])[0].offset < 1:
            return super().poll(timeout)
        self._topics.send(PLACE[0], {"n": 2})
        self._is_sent = True
        wait_until(lambda: self._end() == 2)
        return None

    def _end(self) -> int:
        return self.get_watermark_offsets(TopicPartition(*PLACE), cached=True)[1]


def test_record_that_arrives_after_the_last_poll_is_not_taken_for_read(broker, tmp_path):
    topics = Topics(broker.bootstrap_servers)
    topics.send(PLACE[0], {"n": 1})
    spec = TaskSpec(
        run="run-1",
        connector="parking",
        task=0,
        given={},
        bootstrap=broker.bootstrap_servers,
        clients={},
        offsets_topic="offsets",
        driver=("", 0),
        token="",
        linger_s=0.0,
        topics=(PLACE,),
    )
    group = {"group.id": "connect-parking", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = LastMoment({"bootstrap.servers": broker.bootstrap_servers, **group}, topics)
    run = SinkRun(
        spec=spec,
        sink=FilesSink(FilesSinkConfig(path=str(tmp_path))),
        conversion=Conversion.of({}),
        transforms=Transforms({}),
        tolerance=Tolerance(SinkOptions(name="parking", connector_class="files-sink")),
        consumer=consumer,
        letters=None,
        leash=Leashed(),
    )
    outcome = run.run()
    while not consumer._is_sent:  # the first polls were too early for the first record
        outcome = run.run()
    consumer.close()
    assert outcome.ending is Ending.IDLE
    assert (tmp_path / "parking-0.jsonl").read_text() == '{"n":1}\n'
    assert outcome.seen[PLACE] < 2, "the second record would be no news"
