"""The active controller is killed, again and again, under load. `make stories TIMES=10` kills it ten times in a row.

With separate controllers no producer should notice: leaders stay leaders, and a decision waits for the next controller.
Where the controller is a broker, too, its partitions wait until the new controller has fenced it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from odradek.testing import Embedded
from support.onlooker import await_whole, controller, create, eventually, odradek
from support.traffic import Writer, nothing_is_lost

pytestmark = pytest.mark.stories

TIMES = int(os.environ.get("TIMES", "2"))
PARTITIONS = 3
# As Kafka has them.
TIMEOUTS = {
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.election.backoff.max.ms": 1000,
    "controller.quorum.fetch.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 2000,
    "broker.session.timeout.ms": 9000,
}
# Drawn between one and two timeouts.
ELECTION_S = 2.0
# librdkafka's longest pause before it tries again.
RETRY_S = 1.0
# How long the new controller waits for a heartbeat of a broker that it cannot reach.
SUSPICION_S = 1.0
# Allowed extra seconds for each second between two acknowledgements while no node is killed.
SLACK = 10
WORLDS = {
    "a controller of its own": ({"brokers": 3, "controllers": 3}, RETRY_S),
    "a controller that is a broker, too": ({"brokers": 3}, ELECTION_S + SUSPICION_S + RETRY_S),
}


@pytest.mark.parametrize("world", WORLDS)
def test_failover_gap_is_at_most_one_election_plus_one_client_retry(world: str, tell: Callable[[str], None]) -> None:
    nodes, longest_s = WORLDS[world]
    with Embedded(**nodes, config=TIMEOUTS) as cluster:
        create(cluster, "t", PARTITIONS, {"min.insync.replicas": "2"})
        with Writer(cluster.bootstrap_servers, "t", PARTITIONS) as writer:
            for time_of in range(TIMES):
                calm_at = time.monotonic()
                writer.await_more()
                # On a busy machine everything is slow.
                slack_s = SLACK * writer.longest_gap_s(calm_at)
                killed = eventually(lambda: controller(cluster), "there is no controller")
                at = time.monotonic()

                cluster.nodes[killed].kill()

                decided = odradek(cluster, "topic", "create", f"after-{time_of}")
                decided_s = time.monotonic() - at
                assert decided.exit_code == 0, decided.output
                writer.await_more()
                gap_s = writer.longest_gap_s(at)
                tell(f"killed {world}: no acknowledgement for {gap_s:.2f} s, a decision in {decided_s:.2f} s")
                assert gap_s < longest_s + slack_s
                assert decided_s < ELECTION_S + RETRY_S + slack_s
                cluster.nodes[killed].start()
                await_whole(cluster, "t")
        nothing_is_lost(writer, cluster.bootstrap_servers)
