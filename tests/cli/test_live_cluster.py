"""`odradek cluster` and `odradek topic describe` on three brokers, while some of them are away."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from odradek.cli.main import main
from odradek.cli.remote import REQUEST_TIMEOUT_S
from odradek.testing import Embedded
from support.onlooker import await_whole
from support.waiting import wait_until

WITHIN_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Embedded]:
    with Embedded(brokers=3) as cluster:
        yield cluster


def run(cluster: Embedded, *arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"ODRADEK_BOOTSTRAP": cluster.bootstrap_servers})


def succeed(cluster: Embedded, *arguments: str) -> str:
    done = run(cluster, *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def rows(cluster: Embedded, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(succeed(cluster, *arguments, "-o", "json"))
    return found


def eventually(cluster: Embedded, holds: Callable[[Result], bool], *arguments: str) -> Result:
    return wait_until(
        lambda: done if holds(done := run(cluster, *arguments)) else None,
        lambda: run(cluster, *arguments).output,
        within_s=WITHIN_S,
        every_s=0.1,
    )


def first_has(what: str, wanted: object) -> Callable[[Result], bool]:
    """Checks a topic's first partition. The broker that describes it may not have the latest metadata yet."""
    return lambda done: done.exit_code == 0 and json.loads(done.stdout)[0][what] == wanted


def is_healthy(done: Result) -> bool:
    return done.exit_code == 0 and done.output.startswith("healthy: 3 of 3 brokers alive, 3 of 3 voters following")


@pytest.fixture
def topic(cluster: Embedded, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic that all brokers know, as any may answer. Its name is unique, as some may still know the one before."""
    name = request.node.name
    succeed(cluster, "topic", "create", name, "-p", "3", "-c", "min.insync.replicas=2")
    await_whole(cluster, name)
    eventually(cluster, is_healthy, "cluster", "health")
    yield name
    succeed(cluster, "topic", "delete", name, "-y")


def test_cluster_info_lists_the_brokers(cluster: Embedded, topic: str) -> None:
    brokers = rows(cluster, "cluster", "info")
    assert [broker["broker"] for broker in brokers] == [1, 2, 3]
    assert {broker["state"] for broker in brokers} == {"alive"}
    assert sum(int(str(broker["leads"])) for broker in brokers) >= 3
    assert "3 voting" in succeed(cluster, "cluster", "info")


def test_cluster_quorum_lists_the_voters(cluster: Embedded) -> None:
    members = rows(cluster, "cluster", "quorum")
    assert [member["node"] for member in members] == [1, 2, 3]
    assert sorted(str(member["role"]) for member in members) == ["leader", "voter", "voter"]


def test_each_partition_has_a_leader_and_replicas_in_sync(cluster: Embedded, topic: str) -> None:
    described = rows(cluster, "topic", "describe", topic)
    assert described
    for partition in described:
        assert sorted(partition["replicas"]) == sorted(partition["in_sync"]) == [1, 2, 3]
        assert partition["leader"] in (1, 2, 3)


def test_commands_report_one_and_two_dead_nodes(cluster: Embedded, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = next(member["node"] for member in rows(cluster, "cluster", "quorum") if member["role"] == "leader")
    others = [node_id for node_id in (1, 2, 3) if node_id != leader]
    cluster.nodes[others[0]].kill()
    done = eventually(cluster, lambda done: "3 partitions have replicas" in done.output, "cluster", "health")
    assert done.exit_code == 1
    assert f"2 of 3, without {others[0]}" in done.output
    cluster.nodes[others[1]].kill()
    done = eventually(cluster, lambda done: "no metadata majority (1 of 3)" in done.output, "cluster", "health")
    assert done.exit_code == 1
    assert f"nodes {others[0]} and {others[1]} cannot be reached" in done.output
    check_the_survivor(cluster, topic, int(str(leader)), others)
    with monkeypatch.context() as impatient:
        for module in ("asking", "diagnosis"):
            impatient.setattr(f"odradek.cli.{module}.PATIENCE_S", 0.1)
        check_what_is_refused(cluster)
    for node_id in others:
        cluster.nodes[node_id].begin()
    for node_id in others:
        cluster.nodes[node_id].await_ready()
    eventually(cluster, is_healthy, "cluster", "health")


def check_the_survivor(cluster: Embedded, topic: str, survivor: int, dead: list[int]) -> None:
    """Commands report the state of the surviving node correctly."""
    header, _, *brokers = succeed(cluster, "cluster", "info").splitlines()
    assert header.endswith("no metadata leader, 1 of 3 voters can be reached")
    states = {int(line.split()[0]): "no answer" not in line and "alive" in line for line in brokers}
    assert states == {survivor: True, **dict.fromkeys(dead, False)}
    described = rows(cluster, "topic", "describe", topic)
    assert [row["end"] for row in described] == [0 if row["leader"] == survivor else None for row in described]
    for row in described:
        if row["leader"] == survivor:
            succeed(cluster, "consume", topic, "-p", str(row["partition"]), "-o", ":")
    doctor = run(cluster, "doctor")
    assert (doctor.exit_code, "✗ metadata quorum: no metadata majority (1 of 3)" in doctor.output) == (1, True)


def check_what_is_refused(cluster: Embedded) -> None:
    """Without a majority these commands fail, long before a request would have timed out."""
    for refused in (["topic", "create", "later"], ["cluster", "elect"]):
        began = time.monotonic()
        done = run(cluster, *refused)
        assert (done.exit_code, "no metadata majority (1 of 3)" in done.stderr) == (4, True), done.output
        assert time.monotonic() - began < REQUEST_TIMEOUT_S


def test_a_partition_moves_and_its_leadership_returns(cluster: Embedded, topic: str) -> None:
    (first, *_) = rows(cluster, "topic", "describe", topic)
    kept = [replica for replica in first["replicas"] if replica != first["leader"]]
    moved = succeed(cluster, "cluster", "reassign", f"{topic}:0={','.join(map(str, kept))}")
    assert moved == f"{topic}-0 moves to {kept[0]},{kept[1]}\n"
    eventually(cluster, lambda done: "nothing is moving" in done.output, "cluster", "reassign")
    eventually(cluster, first_has("replicas", kept), "topic", "describe", topic, "-o", "json")
    succeed(cluster, "cluster", "elect")
    eventually(cluster, first_has("leader", kept[0]), "topic", "describe", topic, "-o", "json")
