"""A topic of the cluster as a source of messages: its partitions, their leaders and their offsets now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from odradek.base.errors import ErrorCode
from odradek.client.addresses import Address
from odradek.client.wire import NoAnswer
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.figures import EARLIEST, LATEST, UNKNOWN
from odradek.console.collecting.snapshot import NO_LEADER, Snapshot, Topic
from odradek.console.messages.query import BadQuery, Prepared
from odradek.console.messages.reading import CannotRead, Reader
from odradek.console.messages.searching import Range
from odradek.protocol.messages.p02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

CONSUMER_REPLICA = -1
NEWEST_LIST_OFFSETS = 7


class Source:
    """One topic. Asks the leaders; the snapshot may be seconds old."""

    def __init__(self, cluster: Cluster, snapshot: Snapshot, topic: Topic) -> None:
        self._cluster = cluster
        self._topic = topic
        self.leaders: dict[int, Address] = {}
        self._leader_ids: dict[int, int] = {}
        addresses = {broker.broker_id: Address(broker.host, broker.port) for broker in snapshot.brokers}
        for partition in topic.partitions:
            if partition.leader != NO_LEADER and partition.leader in addresses:
                self.leaders[partition.number] = addresses[partition.leader]
                self._leader_ids[partition.number] = partition.leader

    @property
    def name(self) -> str:
        return self._topic.name

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @contextmanager
    def reader(self, check: Callable[[], None], *, uncommitted: bool = False) -> Iterator[Reader]:
        with Reader(
            self._cluster.bootstrap, self.name, dict(self.leaders), check, read_committed=not uncommitted
        ) as reader:
            yield reader

    def chosen(self, wanted: Sequence[int]) -> list[int]:
        """The partitions to read. Raises BadQuery for one that does not exist, CannotRead without a leader."""
        known = [partition.number for partition in self._topic.partitions]
        for index in wanted:
            if index not in known:
                raise BadQuery("partition", f"there is no partition {index}; {self.name} has {len(known)}")
        found = list(wanted or known)
        without = [index for index in found if index not in self.leaders]
        if without and len(without) == len(found):
            raise CannotRead(f"no partition of {self.name} has a leader that is known")
        return [index for index in found if index in self.leaders]

    def ranges(self, prepared: Prepared) -> list[Range]:
        """What a search reads, of each partition. Raises BadQuery, CannotRead."""
        query = prepared.query
        partitions = self.chosen(query.partitions)
        if query.left:
            return [each for each in query.left if each.partition in partitions]
        starts, ends = self.offsets(partitions, EARLIEST), self.offsets(partitions, LATEST)
        first = self._first(prepared, partitions, starts, ends)
        return [Range(each, max(first[each], starts[each]), ends[each]) for each in first if each in ends]

    def unread(self, wanted: Sequence[int], ranges: Sequence[Range]) -> list[int]:
        """The partitions that a search leaves out: they have no leader, or it does not answer."""
        known = {each.partition for each in ranges}
        return [
            index for index in wanted or sorted(each.number for each in self._topic.partitions) if index not in known
        ]

    def _first(
        self, prepared: Prepared, partitions: Sequence[int], starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> dict[int, int]:
        if prepared.time_ms is not None:
            found = self.offsets(partitions, prepared.time_ms)
            # UNKNOWN: no record is that new, and there is nothing to read. Without an answer, `unread` names it.
            return {
                each: ends[each] if offset == UNKNOWN else offset
                for each, offset in found.items()
                if each in starts and each in ends
            }
        if prepared.offset is None:
            return dict(starts)
        if prepared.offset < 0:
            return {each: max(starts[each], end + prepared.offset) for each, end in ends.items() if each in starts}
        return dict.fromkeys(starts, prepared.offset)

    def offsets(self, partitions: Sequence[int], at: int) -> dict[int, int]:
        """The first offset at a time, or EARLIEST or LATEST. Partitions without an answer are left out.

        At a time the answer may be UNKNOWN: the partition has no record that new.
        """
        by_leader: dict[int, list[int]] = {}
        for index in partitions:
            by_leader.setdefault(self._leader_ids[index], []).append(index)
        answers = self._cluster.each(by_leader, lambda leader: self._listed(leader, by_leader[leader], at))
        failures = [answer for answer in answers.values() if isinstance(answer, NoAnswer)]
        if failures and len(failures) == len(answers):
            raise CannotRead(f"the leaders of {self.name} do not answer: {failures[0]}")
        return {
            index: offset
            for answer in answers.values()
            if not isinstance(answer, NoAnswer)
            for index, offset in answer.items()
        }

    def _listed(self, leader: int, partitions: Sequence[int], at: int) -> dict[int, int]:
        asked = [ListOffsetsPartition(partition_index=index, timestamp=at) for index in partitions]
        request = ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA, topics=[ListOffsetsTopic(name=self.name, partitions=asked)]
        )
        answer = self._cluster.at(leader, request, ListOffsetsResponse, newest=NEWEST_LIST_OFFSETS)
        return {
            partition.partition_index: partition.offset
            for topic in answer.topics
            for partition in topic.partitions
            if partition.error_code == ErrorCode.NONE and (at >= 0 or partition.offset != UNKNOWN)
        }
