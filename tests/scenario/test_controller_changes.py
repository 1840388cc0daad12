"""Another node becomes the active controller while brokers wait for the old one; and the last node stops."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode
from odradek.cli.asking import answer, ask
from odradek.node.config import NodeConfig
from odradek.protocol.messages.p19_create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.p60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.server.controller.forwarding import TIMEOUT_MS
from odradek.testing import Embedded
from support.onlooker import controller, eventually
from support.waiting import wait_until

WITHIN_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Embedded]:
    with Embedded(brokers=3, data=tmp_path, log=tmp_path / "node.log") as cluster:
        yield cluster
        cluster.kill()


def leader(cluster: Embedded) -> int:
    return eventually(lambda: controller(cluster), "the metadata log has no leader")


def within(seconds: float, holds: Callable[[], object], what: str) -> None:
    wait_until(holds, what, within_s=seconds, every_s=0.05)


def test_a_request_forwarded_to_a_paused_controller_is_decided_by_the_next_controller(cluster: Embedded) -> None:
    """The old one neither answers nor closes the connection: a broker that waited for it would time out."""
    old = leader(cluster)
    asked = next(node_id for node_id in (1, 2, 3) if node_id != old)
    wanted = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    cluster.nodes[old].pause()
    began = time.monotonic()
    # Not through a client library, which may know other brokers.
    created = answer(f"127.0.0.1:{cluster.nodes[asked].port}", wanted, 5, CreateTopicsResponse)
    assert [topic.error_code for topic in created.topics] == [ErrorCode.NONE]
    assert time.monotonic() - began < TIMEOUT_MS / 1000


def test_the_last_node_to_stop_does_not_wait_for_a_controller(cluster: Embedded, tmp_path: Path) -> None:
    """With most voters gone no node can take over its partitions: it knows this as soon as connections are refused."""
    last = leader(cluster)
    others = [node_id for node_id in (1, 2, 3) if node_id != last]
    for node_id in others:
        cluster.nodes[node_id].stop()
    cluster.nodes[last].stop()
    said = (tmp_path / f"node-{last}.log").read_text()
    assert "most voters are gone: leaving without handing over" in said
    assert "no controller answers" not in said


def test_controllers_know_each_other(cluster: Embedded, tmp_path: Path) -> None:
    """For tools that are given controllers instead of brokers: each controller returns all addresses and the leader."""
    places = {
        node_id: NodeConfig.from_properties((tmp_path / f"{node_id}.properties").read_text()).controller_listener
        for node_id in (1, 2, 3)
    }
    expected = {node_id: place.bind.port for node_id, place in places.items() if place is not None}
    asked = DescribeClusterRequest(endpoint_type=2)

    def described(node_id: int) -> DescribeClusterResponse:
        return ask(f"127.0.0.1:{expected[node_id]}", asked, 2, DescribeClusterResponse)

    for node_id in (1, 2, 3):
        within(
            WITHIN_S,
            lambda node_id=node_id: {each.broker_id: each.port for each in described(node_id).brokers} == expected,
            "a controller is missing",
        )
        within(
            WITHIN_S,
            lambda node_id=node_id: described(node_id).controller_id == leader(cluster),
            "a controller names another leader",
        )
    brokers = ask(f"127.0.0.1:{expected[1]}", DescribeClusterRequest(endpoint_type=1), 2, DescribeClusterResponse)
    assert brokers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
