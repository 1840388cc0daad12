"""Any N-1 of the N replicas of a partition may die at once: acknowledged records stay, and new ones are accepted.

This needs a live majority of the metadata voters: separate controllers, or three of five nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from odradek.testing import Embedded
from support.onlooker import create, eventually, odradek, partitions
from support.traffic import Writer, nothing_is_lost

pytestmark = pytest.mark.stories

# After 1 and 2 are killed, each partition has one replica: all on broker 3, or one each on nodes 3, 4 and 5.
WORLDS = {
    "three controllers and three brokers": ({"brokers": 3, "controllers": 3}, [[1, 2, 3], [2, 3, 1], [3, 1, 2]]),
    "five nodes that are both": ({"brokers": 5}, [[1, 2, 3], [2, 1, 4], [5, 1, 2]]),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_last_replica_accepts_writes_when_the_other_two_die(world: str, tell: Callable[[str], None]) -> None:
    nodes, replicas = WORLDS[world]
    with Embedded(**nodes) as cluster:
        create(cluster, "t", replicas, {"min.insync.replicas": "1"})
        survivors = [(set(each) - {1, 2}).pop() for each in replicas]
        with Writer(cluster.bootstrap_servers, "t", len(replicas), at_once=20) as writer:
            writer.await_more()

            # The survivors are a moment behind when the others die.
            for node_id in dict.fromkeys(survivors):
                cluster.nodes[node_id].pause()
            writer.await_more_sent(1000)
            killed_at = time.monotonic()
            for node_id in (1, 2):
                cluster.nodes[node_id].kill()
            for node_id in dict.fromkeys(survivors):
                cluster.nodes[node_id].resume()

            eventually(
                lambda: [seen.in_sync for seen in partitions(cluster, "t").values()] == [(n,) for n in survivors],
                "the dead stay in sync",
            )
            writer.await_more()
        tell(f"killed two of three replicas, {world}: no acknowledgement for {writer.longest_gap_s(killed_at):.2f} s")
        nothing_is_lost(writer, cluster.bootstrap_servers)
        assert "1 of 3, without 1, 2" in odradek(cluster, "cluster", "health").output
