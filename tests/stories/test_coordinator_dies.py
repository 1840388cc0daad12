"""The coordinator of a group is killed: the members continue at their positions, and no offset is lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, TopicPartition

from odradek.testing import Embedded
from support.onlooker import WITHIN_S, coordinator, create, eventually
from support.other_traffic import AioKafkaReader
from support.traffic import GroupReader, Writer, nothing_is_lost

pytestmark = pytest.mark.stories

PARTITIONS = 4
GROUP, OTHER = "of-confluent-kafka", "of-aiokafka"


def committed(cluster: Embedded, group: str) -> dict[int, int]:
    asker = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "log_level": 0})
    try:
        answer = asker.committed([TopicPartition("t", partition) for partition in range(PARTITIONS)], WITHIN_S)
        return {each.partition: each.offset for each in answer}
    finally:
        asker.close()


def test_members_continue_and_offsets_are_intact_when_the_coordinator_dies(tell: Callable[[str], None]) -> None:
    with Embedded(brokers=3) as cluster, ExitStack() as members:
        create(cluster, "t", PARTITIONS, {"min.insync.replicas": "2"})
        quick = {"auto.commit.interval.ms": 100}
        pair = [
            members.enter_context(GroupReader(cluster.bootstrap_servers, "t", GROUP, quick))
            for _ in range(PARTITIONS // 2)
        ]
        other = members.enter_context(AioKafkaReader(cluster.bootstrap_servers, "t", OTHER, commit_ms=100))
        eventually(lambda: [len(each.assigned) for each in pair] == [2, 2], "the members do not share the partitions")
        with Writer(cluster.bootstrap_servers, "t", PARTITIONS) as writer:
            eventually(lambda: min(committed(cluster, GROUP).values()) > 0, "nothing is committed")
            eventually(lambda: min(committed(cluster, OTHER).values()) > 0, "nothing is committed")
            owned, rebalances = [each.assigned for each in pair], [each.rebalances for each in pair]
            before = {group: committed(cluster, group) for group in (GROUP, OTHER)}
            killed = coordinator(cluster, GROUP)
            assert coordinator(cluster, OTHER) == killed

            killed_at = time.monotonic()
            cluster.nodes[killed].kill()

            intact = {group: committed(cluster, group) for group in (GROUP, OTHER)}
            assert all(intact[group][each] >= offset for group in before for each, offset in before[group].items())
            tell(f"killed a coordinator: {time.monotonic() - killed_at:.2f} s until the next one returned the offsets")
            eventually(lambda: coordinator(cluster, GROUP) != killed, "the killed coordinator is still named")
            writer.await_more()
            for group, offsets in intact.items():
                eventually(
                    lambda group=group, offsets=offsets: all(
                        committed(cluster, group)[each] > offset for each, offset in offsets.items()
                    ),
                    f"{group} does not commit any more",
                )
        for group, readers in ((GROUP, pair), (OTHER, [other])):
            eventually(
                lambda readers=readers: (
                    len({each for reader in readers for each in list(reader.seen)}) >= len(writer.acknowledged)
                ),
                f"{group} does not read on",
            )
            seen = Counter(each for reader in readers for each in reader.seen)
            assert dict(seen) == dict.fromkeys(writer.acknowledged.items(), 1), f"{group} skipped or repeated something"
            assert [reader.errors for reader in readers] == [[] for _ in readers]
        assert ([each.assigned for each in pair], [each.rebalances for each in pair]) == (owned, rebalances)
        nothing_is_lost(writer, cluster.bootstrap_servers)
