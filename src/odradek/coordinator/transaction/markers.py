"""The markers of decided transactions that partition leaders have not confirmed.

One request at a time goes to each leader, with all markers that have gathered for it. A marker whose leader is unknown,
did not answer, or refused it for now, waits for the next change of the metadata or the next retry.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from odradek.base import limits
from odradek.base.errors import ErrorCode, error_code
from odradek.base.ids import NO_BROKER, BrokerId, TopicPartition
from odradek.coordinator.transaction import safeguards
from odradek.coordinator.transaction.transaction import Transaction
from odradek.metadata.image import ClusterImage
from odradek.protocol.messages.p27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

log = logging.getLogger(__name__)

# The transaction has ended in this partition: it has this marker already, or a newer producer writes to it.
_ENDED = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)


@dataclass(slots=True)
class Unconfirmed:
    transaction: Transaction
    partitions: dict[TopicPartition, None]


@dataclass(slots=True)
class _Leader:
    """The markers for one broker, by transactional id."""

    queued: dict[str, dict[TopicPartition, None]] = field(default_factory=dict)
    # Sent and not answered.
    sent: dict[str, list[TopicPartition]] = field(default_factory=dict)


class Markers:
    __slots__ = ("_coordinator_epoch", "_ended", "_leaders", "_retried", "_unconfirmed")

    def __init__(self, coordinator_epoch: int) -> None:
        self._coordinator_epoch = coordinator_epoch
        # Every partition in it is queued, sent, or to be retried. No entries without partitions.
        self._unconfirmed: dict[str, Unconfirmed] = {}
        # Confirmed by all partitions since `take_ended` was called.
        self._ended: list[str] = []
        self._leaders: dict[BrokerId, _Leader] = {}
        self._retried: dict[tuple[str, TopicPartition], None] = {}

    @property
    def are_retried(self) -> bool:
        return bool(self._retried)

    @property
    def retried_count(self) -> int:
        return len(self._retried)

    def __len__(self) -> int:
        """The number of transactions that have not ended in all their partitions."""
        return len(self._unconfirmed)

    def add(self, transaction: Transaction, image: ClusterImage) -> None:
        transactional_id = transaction.transactional_id
        self._unconfirmed[transactional_id] = Unconfirmed(transaction, dict.fromkeys(transaction.partitions))
        for partition in transaction.partitions:
            self._queue(transactional_id, partition, image)
        if not transaction.partitions:
            self._confirmed(transactional_id, None)

    def take_ended(self) -> list[str]:
        ended, self._ended = self._ended, []
        return ended

    def retry(self, image: ClusterImage) -> None:
        """Queues again what could not be sent, for the leaders of now."""
        retried, self._retried = self._retried, {}
        for transactional_id, partition in retried:
            self._queue(transactional_id, partition, image)

    def leaders_changed(self, image: ClusterImage) -> None:
        for leader in self._leaders.values():
            queued, leader.queued = leader.queued, {}
            for transactional_id, partitions in queued.items():
                self._retried.update(((transactional_id, partition), None) for partition in partitions)
        self.retry(image)

    def requests(self) -> Iterator[tuple[BrokerId, WriteTxnMarkersRequest]]:
        """For leaders that have answered the last one."""
        for broker_id, leader in self._leaders.items():
            if leader.queued and not leader.sent:
                yield broker_id, self._request(leader)

    def answered(self, broker_id: BrokerId, answer: WriteTxnMarkersResponse | None) -> None:
        """None: no answer came. The leader may have written the markers all the same."""
        leader = self._leaders[broker_id]
        sent, leader.sent = leader.sent, {}
        codes = _codes(answer)
        for transactional_id, partitions in sent.items():
            unconfirmed = self._unconfirmed.get(transactional_id)
            if unconfirmed is None:
                continue
            for partition in partitions:
                code = codes.get((unconfirmed.transaction.producer_id, partition), ErrorCode.REQUEST_TIMED_OUT)
                if code in _ENDED:
                    self._confirmed(transactional_id, partition)
                else:
                    log.info(
                        "%s: no marker yet in %s on broker %d: %s", transactional_id, partition, broker_id, code.name
                    )
                    self._retried[transactional_id, partition] = None

    def _queue(self, transactional_id: str, partition: TopicPartition, image: ClusterImage) -> None:
        topic = image.topics.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            # The topic was deleted, and its records with it.
            self._confirmed(transactional_id, partition)
            return
        broker_id = topic.partitions[partition.partition].leader
        if broker_id == NO_BROKER:
            self._retried[transactional_id, partition] = None
            return
        leader = self._leaders.setdefault(broker_id, _Leader())
        leader.queued.setdefault(transactional_id, {})[partition] = None

    def _confirmed(self, transactional_id: str, partition: TopicPartition | None) -> None:
        unconfirmed = self._unconfirmed.get(transactional_id)
        if unconfirmed is None:
            return
        if partition is not None:
            unconfirmed.partitions.pop(partition, None)
        if safeguards.has_ended(len(unconfirmed.partitions)):
            del self._unconfirmed[transactional_id]
            self._ended.append(transactional_id)

    def _request(self, leader: _Leader) -> WriteTxnMarkersRequest:
        markers = []
        room = limits.marker_partitions_per_request_max
        while leader.queued and room > 0:
            transactional_id, partitions = next(iter(leader.queued.items()))
            chosen = list(partitions)[:room]
            room -= len(chosen)
            for partition in chosen:
                del partitions[partition]
            if not partitions:
                del leader.queued[transactional_id]
            unconfirmed = self._unconfirmed.get(transactional_id)
            if unconfirmed is not None:
                leader.sent[transactional_id] = chosen
                markers.append(self._marker(unconfirmed.transaction, chosen))
        return WriteTxnMarkersRequest(markers=markers)

    def _marker(self, transaction: Transaction, partitions: list[TopicPartition]) -> WritableTxnMarker:
        topics: dict[str, WritableTxnMarkerTopic] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, WritableTxnMarkerTopic(name=topic)).partition_indexes.append(partition)
        return WritableTxnMarker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            transaction_result=transaction.commits,
            topics=list(topics.values()),
            coordinator_epoch=self._coordinator_epoch,
            transaction_version=transaction.client_version,
        )


def _codes(answer: WriteTxnMarkersResponse | None) -> dict[tuple[int, TopicPartition], ErrorCode]:
    if answer is None:
        return {}
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): error_code(partition.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
