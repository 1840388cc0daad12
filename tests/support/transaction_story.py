"""Drives the transactions of one partition step by step: a log in memory, virtual time, scripted brokers.

`fail_over` loads the same log into a new coordinator, as another broker would.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.coordinator.effects import Ask, Effects
from odradek.coordinator.engine import Engine
from odradek.coordinator.timers import Timers
from odradek.coordinator.transaction.config import TransactionConfig
from odradek.coordinator.transaction.ending import Ending
from odradek.coordinator.transaction.shard import Initialization, Joining, TransactionShard
from odradek.coordinator.transaction.transaction import ProducerIdentity, Transaction
from odradek.metadata.image import ClusterImage, ImageDelta, PartitionImage, TopicImage
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdResponse
from odradek.protocol.messages.p27_write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from support.memory_partition import MemoryPartition
from support.virtual_time import VirtualTime

ID = "copier"
HERE = 1
A, B, C = (TopicPartition(topic, 0) for topic in ("orders", "payments", "shipments"))


@dataclass
class Answered:
    """Where a turn leaves its answer."""

    given: list[Any] = field(default_factory=list)

    @property
    def value(self):
        assert len(self.given) == 1, self.given
        return self.given[0]

    @property
    def code(self) -> ErrorCode:
        return self.value.code if isinstance(self.value, KafkaError) else ErrorCode.NONE


def image_of(leaders: dict[TopicPartition, int], transaction_version: int) -> ClusterImage:
    topics = {}
    for topic, index in leaders:
        leader = leaders[topic, index]
        partition = PartitionImage(
            index=index, replicas=(leader,), isr=(leader,), leader=leader, leader_epoch=0, partition_epoch=0
        )
        topics[topic] = TopicImage(topic_id=topic.encode().ljust(16), name=topic, partitions=(partition,))
    return ClusterImage(cluster_id="c", features={"transaction.version": transaction_version}, topics=topics)


class TransactionStory(VirtualTime):
    def __init__(self, *, transaction_version: int = 2, **config) -> None:
        super().__init__()
        self.config = TransactionConfig(**config)
        self.transaction_version = transaction_version
        self.leaders = {A: 1, B: 2, C: 3}
        self.partition = MemoryPartition(leader_epoch=5)
        self.next_producer_id = 1000
        # Asked and not answered, by broker. Markers are answered at once unless held.
        self.asked: list[Ask] = []
        self.holds_markers = False
        # What leaders answer to a marker; NONE otherwise.
        self.marker_codes: dict[TopicPartition, ErrorCode] = {}
        # (partition, producer id, epoch, committed), in the order in which they were written.
        self.written: list[tuple[TopicPartition, int, int, bool]] = []
        self._start()

    def _start(self) -> None:
        self.timers = Timers()
        self.shard = TransactionShard(self.config, HERE, self.partition.leader_epoch)
        self.engine = Engine(self.shard, self.partition, commit_timeout_ms=5000)
        if self.partition.end:
            list(self.engine.load(bytes(self.partition.batches)))
        self.perform(self.engine.finish_loading(self.now, self.image))

    @property
    def image(self) -> ClusterImage:
        return image_of(self.leaders, self.transaction_version)

    @property
    def transaction(self) -> Transaction:
        return self.shard.transactions.newest[ID]

    @property
    def state(self) -> str:
        return self.transaction.state.value

    def fail_over(self) -> None:
        self.perform(self.engine.unload(self.now))
        self.partition = self.partition.led_in(self.partition.leader_epoch + 1)
        self.asked = []
        self._start()

    def perform(self, effects: Effects) -> None:
        for to, response in effects.replies:
            to.given.append(response)
        self.set_timers(effects)
        if effects.append is not None:
            append = effects.append
            self.engine.write(append, self.now, lambda error: self.perform(append.then(error, self.now)))
        for question in effects.questions:
            self._ask(question)

    def _ask(self, question: Ask) -> None:
        self.asked.append(question)
        if not (self.holds_markers and isinstance(question.request, WriteTxnMarkersRequest)):
            self.answer(question)

    def answer(self, question: Ask) -> None:
        """As a broker would."""
        self.asked.remove(question)
        if not isinstance(question.request, WriteTxnMarkersRequest):
            self.next_producer_id += 1
            answer: Any = InitProducerIdResponse(producer_id=self.next_producer_id, producer_epoch=0)
        else:
            answer = self._write_markers(question.request)
        self.perform(question.then(answer, self.now))

    def answer_all(self) -> None:
        self.holds_markers = False
        while self.asked:
            self.answer(self.asked[0])

    def lose(self, question: Ask) -> None:
        """No answer came."""
        self.asked.remove(question)
        self.perform(question.then(None, self.now))

    def _write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        results = []
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                partitions = []
                for index in topic.partition_indexes:
                    partition = TopicPartition(topic.name, index)
                    code = self.marker_codes.get(partition, ErrorCode.NONE)
                    if not code:
                        written = (partition, marker.producer_id, marker.producer_epoch, marker.transaction_result)
                        self.written.append(written)
                    partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
                topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
            results.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=results)

    def pass_time(self, ms: int) -> None:
        super().pass_time(ms)
        self.engine.give_up_waiting(self.now)

    def move(self, leaders: dict[TopicPartition, int | None]) -> None:
        """None: the topic is deleted."""
        for partition, leader in leaders.items():
            if leader is None:
                del self.leaders[partition]
            else:
                self.leaders[partition] = leader
        image = self.image
        changed = tuple(image.topics.values())
        self.perform(self.shard.metadata_changed(self.now, image, ImageDelta(created=changed)))

    # Requests

    def init(self, *, expected=None, timeout_ms: int = 60_000, transactional_id: str = ID) -> Answered:
        answered = Answered()
        request = Initialization(
            transactional_id=transactional_id,
            timeout_ms=timeout_ms,
            expected=None if expected is None else ProducerIdentity(*expected),
        )
        self.perform(self.shard.initialize(request, answered, self.now))
        return answered

    def join(
        self,
        producer,
        *partitions: TopicPartition,
        version: int = 2,
        waits: bool = False,
        transactional_id: str = ID,
    ) -> Answered:
        answered = Answered()
        request = Joining(
            transactional_id=transactional_id,
            producer=ProducerIdentity(*producer),
            partitions=partitions,
            client_version=version,
            waits=waits,
        )
        self.perform(self.shard.join(request, answered, self.now))
        return answered

    def verify(self, producer, *partitions: TopicPartition) -> Answered:
        answered = Answered()
        self.perform(self.shard.verify(ID, ProducerIdentity(*producer), partitions, answered, self.now))
        return answered

    def end(self, producer, *, commits: bool = True, version: int = 2) -> Answered:
        answered = Answered()
        request = Ending(
            transactional_id=ID, producer=ProducerIdentity(*producer), commits=commits, client_version=version
        )
        self.perform(self.shard.end(request, answered, self.now))
        return answered

    def begun(self, *partitions: TopicPartition, version: int = 2) -> ProducerIdentity:
        """A producer with an open transaction."""
        producer = self.init().value
        assert self.join(producer, *(partitions or (A, B)), version=version).code is ErrorCode.NONE
        return producer
