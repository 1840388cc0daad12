"""The tabs of partitions and of consumers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from odradek.base.errors import ErrorCode
from odradek.client.wire import NoAnswer
from odradek.console.collecting.figures import EARLIEST, LATEST
from odradek.console.collecting.snapshot import NO_LEADER, Group, Partition, Topic
from odradek.console.listing import Listing
from odradek.console.messages.reading import CannotRead
from odradek.console.pages.topic.layout import TopicPages
from odradek.protocol.messages.p35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

# A partition with more than this share of the even one is called skewed.
SKEW_WARN = 2.0
PARTITION_TONES = {"in sync": "good", "under-replicated": "warn", "refuses acks=all": "bad", "offline": "bad"}
STATES = tuple(PARTITION_TONES)
TONES = {"OK": "good", "WARN": "warn", "ERR": "bad"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    partition: Partition
    start: int | None
    end: int | None
    size: int | None  # of the leader's replica
    share: float | None  # of the largest partition, in records
    refuses_writes: bool = False

    @property
    def records(self) -> int | None:
        return None if self.start is None or self.end is None else self.end - self.start

    @property
    def state(self) -> str:
        if self.partition.leader == NO_LEADER:
            return "offline"
        if self.refuses_writes:
            return "refuses acks=all"
        return "under-replicated" if self.partition.missing else "in sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRow:
    group: Group
    lag: int


class Overview:
    def __init__(self, pages: TopicPages) -> None:
        self._pages = pages

    def partitions(self, request: Request) -> Response:
        topic = self._pages.topic(request)
        problem = ""
        starts: Mapping[int, int] = {}
        ends: Mapping[int, int] = {}
        try:
            source = self._pages.source(topic)
            known = source.chosen(())
            starts, ends = source.offsets(known, EARLIEST), source.offsets(known, LATEST)
        except CannotRead as silent:
            problem = str(silent)
        sizes = self._sizes(topic)
        records = {index: ends[index] - starts[index] for index in ends if index in starts}
        largest = max(records.values(), default=0)
        rows = [
            PartitionRow(
                partition=each,
                start=starts.get(each.number),
                end=ends.get(each.number),
                size=sizes.get((each.number, each.leader)),
                share=records[each.number] / largest if largest and each.number in records else None,
                refuses_writes=self._pages.console.snapshot.refuses_writes(topic.name, each),
            )
            for each in topic.partitions
        ]
        found = Listing(
            request,
            rows,
            columns={
                "partition": lambda row: row.partition.number,
                "state": lambda row: STATES.index(row.state),
                "leader": lambda row: row.partition.leader,
                "start": lambda row: row.start,
                "end": lambda row: row.end,
                "records": lambda row: row.records,
                "size": lambda row: row.size,
            },
            down=("state", "records", "size"),
            found_in=lambda row: f"{row.partition.number} {row.state}",
            rows_per_page=100,
        )
        return self._pages.tab(
            request,
            topic,
            "partitions",
            "topic_partitions.html",
            list=found,
            tones=PARTITION_TONES,
            refusing=sum(row.refuses_writes for row in rows),
            problem=problem,
            skew=_skew(list(records.values())),
            leaders=len({each.leader for each in topic.partitions if each.leader != NO_LEADER}),
        )

    def _sizes(self, topic: Topic) -> dict[tuple[int, int], int]:
        """By partition and broker. Brokers that do not answer are left out."""
        cluster = self._pages.console.cluster
        brokers = {replica for partition in topic.partitions for replica in partition.replicas}
        asked = DescribableLogDirTopic(topic=topic.name, partitions=[each.number for each in topic.partitions])
        answers = cluster.each(
            brokers, lambda each: cluster.at(each, DescribeLogDirsRequest(topics=[asked]), DescribeLogDirsResponse)
        )
        return {
            (partition.partition_index, broker): partition.partition_size
            for broker, answer in answers.items()
            if not isinstance(answer, NoAnswer)
            for result in answer.results
            if result.error_code == ErrorCode.NONE
            for found in result.topics
            for partition in found.partitions
            if not partition.is_future_key
        }

    def consumers(self, request: Request) -> Response:
        topic = self._pages.topic(request)
        snapshot = self._pages.console.snapshot
        rows = [
            ConsumerRow(group=group, lag=group.lag.lag_by_topic[topic.name])
            for group in snapshot.groups.values()
            if group.lag is not None and topic.name in group.lag.lag_by_topic
        ]
        found = Listing(
            request,
            rows,
            columns={
                "group": lambda row: row.group.name,
                "lag": lambda row: row.lag,
                "seconds": lambda row: None if row.group.lag is None else row.group.lag.age.seconds,
                "state": lambda row: row.group.state,
            },
            down=("lag", "seconds"),
            sort="lag",
            found_in=lambda row: row.group.name,
        )
        return self._pages.tab(request, topic, "consumers", "topic_consumers.html", list=found, tones=TONES)


def _skew(records: list[int]) -> float | None:
    """How much larger the largest partition is than the average one; None if that is no problem."""
    if len(records) < 2 or not sum(records):
        return None
    skew = max(records) / (sum(records) / len(records))
    return skew if skew >= SKEW_WARN else None
