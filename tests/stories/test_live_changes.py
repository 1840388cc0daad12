"""A topic under constant load gets partitions, is reassigned and reconfigured, while other topics come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.testing import Embedded
from support.onlooker import create, eventually, odradek, partitions
from support.traffic import Writer, nothing_is_lost

pytestmark = pytest.mark.stories

BEFORE = [[1, 2], [2, 3], [3, 1]]
AFTER = [[3, 1], [1, 2], [2, 3], [1, 3], [2, 1], [3, 2]]


def operate(cluster: Embedded, *arguments: str) -> None:
    done = odradek(cluster, *arguments)
    assert done.exit_code == 0, done.output


def replicas(cluster: Embedded, topic: str) -> list[list[int]]:
    return [list(seen.replicas) for _, seen in sorted(partitions(cluster, topic).items())]


def segments(directory: Path, partition: int) -> int:
    return len(list(directory.glob(f"*/t-{partition}/*.log")))


def test_nothing_is_lost_while_a_topic_changes_under_load(tmp_path: Path) -> None:
    settings = {"auto.create.topics.enable": False}
    with Embedded(brokers=3, data=tmp_path, config=settings) as cluster:
        create(cluster, "t", BEFORE)
        with Writer(cluster.bootstrap_servers, "t", len(BEFORE)) as writer:
            operate(cluster, "topic", "add-partitions", "t", "-p", str(len(AFTER)))
            writer.grow(len(AFTER))
            writer.await_more()

            moves = [f"t:{index}={','.join(map(str, replicas))}" for index, replicas in enumerate(AFTER)]
            operate(cluster, "cluster", "reassign", *moves)
            eventually(lambda: "nothing is moving" in odradek(cluster, "cluster", "reassign").output, "it still moves")
            # The broker that answers may be behind the controller.
            eventually(lambda: replicas(cluster, "t") == AFTER, "they are not where they were moved to")
            writer.await_more()

            had = segments(tmp_path, 0)
            operate(cluster, "config", "set", "topic", "t", "segment.bytes=1048576", "segment.ms=1000")
            eventually(lambda: segments(tmp_path, 0) > had, "the new config changes nothing")

            gone_and_back(cluster)
            writer.await_more()
        nothing_is_lost(writer, cluster.bootstrap_servers)
        cluster.kill()


def gone_and_back(cluster: Embedded) -> None:
    """Another topic is deleted while it is written to: the next topic of its name has none of its records."""
    create(cluster, "other", 2)
    with Writer(cluster.bootstrap_servers, "other", 2, config={"message.timeout.ms": 1000}) as unlucky:
        unlucky.await_more()
        operate(cluster, "topic", "delete", "other", "-y")
        eventually(lambda: unlucky.errors, "a topic that is gone still takes records")
    create(cluster, "other", 2)
    with Writer(cluster.bootstrap_servers, "other", 2) as writer:
        writer.await_more()
    nothing_is_lost(writer, cluster.bootstrap_servers)
    assert min(writer.acknowledged) == (0, 0)
