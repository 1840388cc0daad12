"""`odradek cluster voter` on real processes: the steps of docs/cluster.md for a voter whose disk is lost."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.cli.main import main
from odradek.node.config import NodeConfig
from odradek.testing import Embedded
from support.onlooker import WITHIN_S, eventually


def run(cluster: Embedded, *arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"ODRADEK_BOOTSTRAP": cluster.bootstrap_servers})


def succeed(cluster: Embedded, *arguments: str) -> str:
    done = run(cluster, *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def quorum(cluster: Embedded) -> str:
    """Empty while the metadata log has no leader."""
    done = run(cluster, "cluster", "quorum", "-o", "json")
    return done.stdout if done.exit_code == 0 else ""


def members(cluster: Embedded) -> dict[int, dict[str, object]]:
    rows = json.loads(eventually(lambda: quorum(cluster), "the metadata log has no leader"))
    return {row["node"]: row for row in rows if row["role"] != "observer"}


def leader(cluster: Embedded) -> int:
    return next(node_id for node_id, row in members(cluster).items() if row["role"] == "leader")


def follows(cluster: Embedded, node_id: int) -> bool:
    silent_ms = members(cluster)[node_id]["silent_ms"]
    return silent_ms is not None and int(str(silent_ms)) < 2_000


def controller_address(data: Path, node_id: int) -> str:
    listener = NodeConfig.from_properties((data / f"{node_id}.properties").read_text()).controller_listener
    assert listener is not None
    return str(listener.bind)


def lose_disk(cluster: Embedded, data: Path, node_id: int) -> None:
    cluster.nodes[node_id].kill()
    shutil.rmtree(data / str(node_id))


def format_again(cluster: Embedded, data: Path, node_id: int) -> None:
    cluster_id = succeed(cluster, "cluster", "info").split()[1].strip(",")
    config = str(data / f"{node_id}.properties")
    succeed(cluster, "node", "format", "--config", config, "-t", cluster_id, "--no-initial-controllers")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "cluster"


@pytest.fixture
def cluster(data: Path) -> Iterator[Embedded]:
    with Embedded(brokers=3, data=data, config={"default.replication.factor": 3}) as cluster:
        yield cluster
        cluster.kill()


class Load:
    """Produces until `stop` is called, and collects the acknowledged records."""

    def __init__(self, cluster: Embedded) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go)
        self.acknowledged: list[tuple[int, int, bytes]] = []
        self.failures: list[object] = []
        self._thread.start()

    def _go(self) -> None:
        number = 0
        while not self._over.is_set():
            self._producer.produce("t", str(number), on_delivery=self._told)
            self._producer.poll(0.005)
            number += 1
        assert self._producer.flush(WITHIN_S) == 0

    def _told(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged.append((message.partition(), message.offset(), message.value()))
        else:
            self.failures.append(error)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def stored(cluster: Embedded, partitions: int) -> set[tuple[int, int, bytes]]:
    reader = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0})
    found = set()
    for partition in range(partitions):
        where = TopicPartition("t", partition, 0)
        _, end = reader.get_watermark_offsets(where, timeout=WITHIN_S)
        reader.assign([where])
        while end and (not found or max((o for p, o, _ in found if p == partition), default=-1) < end - 1):
            for message in reader.consume(500, 1.0):
                assert message.error() is None
                found.add((message.partition(), message.offset(), message.value()))
    reader.close()
    return found


def test_a_voter_with_a_lost_disk_is_replaced_under_load(cluster: Embedded, data: Path) -> None:
    """Replaces the leader of the metadata log, the worst voter to lose. Three voters before and after."""
    succeed(cluster, "topic", "create", "t", "-p", "3", "-r", "3", "-c", "min.insync.replicas=2")
    load = Load(cluster)
    try:
        lost = leader(cluster)
        before = members(cluster)[lost]["directory"]
        eventually(lambda: len(load.acknowledged) > 100, "nothing is acknowledged")
        lose_disk(cluster, data, lost)
        eventually(lambda: leader(cluster) != lost, "no other leads")

        said = succeed(cluster, "cluster", "voter", "remove", str(lost), "--yes")
        assert said == f"removed voter {lost} with directory {before}\n"
        format_again(cluster, data, lost)
        cluster.nodes[lost].start()
        said = succeed(cluster, "cluster", "voter", "add", f"{lost}@{controller_address(data, lost)}")

        after = members(cluster)
        assert said == f"added voter {lost} with directory {after[lost]['directory']}\n"
        assert sorted(after) == [1, 2, 3]
        assert after[lost]["directory"] != before
        eventually(lambda: run(cluster, "cluster", "health").exit_code == 0, "it is not healthy again")
        # The new voter counts: with it, one of the others may fail.
        other = next(node_id for node_id in (1, 2, 3) if node_id not in (lost, leader(cluster)))
        cluster.nodes[other].kill()
        succeed(cluster, "topic", "create", "decided-with-the-new-voter", "-r", "1")
        cluster.nodes[other].start()
    finally:
        load.stop()
    assert load.failures == []
    assert stored(cluster, 3) >= set(load.acknowledged)


def test_a_controller_joins_the_voters_automatically(data: Path) -> None:
    """With `controller.quorum.auto.join.enable`, a lost disk only needs formatting and a start."""
    with Embedded(brokers=3, data=data, config={"controller.quorum.auto.join.enable": True}) as cluster:
        lost = next(node_id for node_id in (1, 2, 3) if node_id != leader(cluster))
        before = members(cluster)[lost]["directory"]
        lose_disk(cluster, data, lost)
        format_again(cluster, data, lost)
        cluster.nodes[lost].start()
        eventually(lambda: members(cluster).get(lost, {}).get("directory", before) != before, "it does not join")
        eventually(lambda: follows(cluster, lost), "it does not follow")
        assert sorted(members(cluster)) == [1, 2, 3]
        cluster.kill()


def test_the_active_controller_itself_can_be_removed(cluster: Embedded, data: Path) -> None:
    """KAFKA-17608: it leads until its removal is committed, then follows. No node stops, and it may vote again."""
    old = leader(cluster)
    succeed(cluster, "cluster", "voter", "remove", str(old), "--yes")
    eventually(lambda: leader(cluster) != old, "no other leads")
    assert old not in members(cluster)
    assert all(node.is_running for node in cluster.nodes.values())
    succeed(cluster, "cluster", "voter", "add", f"{old}@{controller_address(data, old)}")
    assert sorted(members(cluster)) == [1, 2, 3]


def test_refused_voter_changes_report_the_reason(cluster: Embedded, data: Path) -> None:
    led_by = leader(cluster)
    one, other = (node_id for node_id in (1, 2, 3) if node_id != led_by)

    done = run(cluster, "cluster", "voter", "remove", "7")
    assert done.exit_code == 3
    assert "node 7 is not a voter" in done.stderr
    assert f"{one}:{members(cluster)[one]['directory']}" in done.stderr

    assert succeed(cluster, "cluster", "voter", "add", f"{one}@127.0.0.1:1") == f"node {one} is a voter already\n"
    done = run(cluster, "cluster", "voter", "add", f"{one}@127.0.0.1:1:AAAAAAAAAAAAAAAAAAAAAQ")
    assert done.exit_code == 1
    assert f"Node {one} is already a voter, with directory" in done.stderr
    assert "remove the voter first with: odradek cluster voter remove" in done.stderr

    done = run(cluster, "cluster", "voter", "add", "7@127.0.0.1:1", "--timeout", "0")
    assert done.exit_code == 3
    assert "node 7 does not follow the metadata log" in done.stderr
    done = run(cluster, "cluster", "voter", "add", "7@127.0.0.1:1:AAAAAAAAAAAAAAAAAAAAAQ", "--timeout", "0")
    assert done.exit_code == 4
    assert "No controller answers at 127.0.0.1:1" in done.stderr
    elsewhere = controller_address(data, one)
    done = run(cluster, "cluster", "voter", "add", f"7@{elsewhere}:AAAAAAAAAAAAAAAAAAAAAQ", "--timeout", "0")
    assert done.exit_code == 1
    assert f"The server at {elsewhere} is not node 7 of this cluster" in done.stderr

    cluster.nodes[one].kill()
    eventually(lambda: not follows(cluster, one), "the dead node seems to follow")
    done = run(cluster, "cluster", "voter", "remove", str(other), "--timeout", "0", "--yes")
    assert done.exit_code == 4
    assert f"Without node {other} no majority would be left: 1 of the 2 other voters follow" in done.stderr

    for nonsense in ("3@here", "three@here:1", "3@here:0", "3@here:1:short"):
        assert run(cluster, "cluster", "voter", "add", nonsense).exit_code == 2
    assert run(cluster, "cluster", "voter", "remove", "three").exit_code == 2
