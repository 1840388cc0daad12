"""A consumer sends its rack, and reads from the replica in that rack (KIP-392), as long as there is one."""

from __future__ import annotations

import json

import pytest

from odradek.metadata.configs.broker import RACK_AWARE_SELECTOR
from odradek.testing import Embedded
from support.onlooker import create, eventually, partitions
from support.traffic import GroupReader, Writer

pytestmark = pytest.mark.stories

LEADER, NEARBY = 1, 2


class Fetches:
    """Counts the client's fetches to each broker, from its statistics."""

    def __init__(self) -> None:
        self.config = {"client.rack": "b", "statistics.interval.ms": 100, "stats_cb": self._told}
        self.sent_to: dict[int, int] = {}
        # The broker that it fetches from now.
        self.source = -1

    def _told(self, statistics: str) -> None:
        told = json.loads(statistics)
        self.sent_to = {each["nodeid"]: each["req"].get("Fetch", 0) for each in told["brokers"].values()}
        self.source = told["topics"].get("t", {}).get("partitions", {}).get("0", {}).get("broker", -1)


def test_a_consumer_reads_from_the_follower_in_its_rack_and_goes_on_when_it_dies() -> None:
    settings = {"replica.selector.class": RACK_AWARE_SELECTOR}
    with Embedded(brokers=3, racks=("a", "b", "c"), config=settings) as cluster:
        create(cluster, "t", [[LEADER, NEARBY, 3]])
        fetches = Fetches()
        with GroupReader(cluster.bootstrap_servers, "t", "g", fetches.config) as reader:
            with Writer(cluster.bootstrap_servers, "t", 1) as writer:
                eventually(lambda: fetches.source == NEARBY, "it does not read from the follower")
                assert partitions(cluster, "t")[0].leader == LEADER
                read, asked = len(reader.seen), fetches.sent_to
                eventually(lambda: len(reader.seen) > read + 200, "the follower gives it nothing")
                eventually(lambda: fetches.sent_to[NEARBY] > asked[NEARBY], "the follower is not asked")
                assert fetches.sent_to[LEADER] == asked[LEADER], "the leader is asked, too"

                cluster.nodes[NEARBY].kill()
                writer.await_more()
                eventually(lambda: fetches.source == LEADER, "it waits for the dead follower")
            eventually(lambda: len(reader.seen) >= len(writer.acknowledged), "it does not read on")
        assert dict(reader.seen) == writer.acknowledged
        assert [value for _, value in reader.seen] == sorted(writer.acknowledged.values())
        assert (reader.errors, writer.errors) == ([], [])
