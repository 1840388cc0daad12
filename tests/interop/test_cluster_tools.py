"""Kafka's cluster tools on three Odradek nodes: leaders, ISRs, reassignments, elections, the quorum."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.testing import Embedded
from support.kafka_tools import KafkaTools, Printed

PARTITIONS = 6
WITHIN_S = 60
# Frequent snapshots of the metadata log, so that there are snapshots to read.
SETTINGS = {"min.insync.replicas": 2, "metadata.log.max.record.bytes.between.snapshots": 3000}


class Cluster:
    """Three nodes, and Kafka's tools with their address."""

    def __init__(self, nodes: Embedded, tools: KafkaTools, folder: Path) -> None:
        self.embedded = nodes
        self.nodes = nodes.nodes
        self._tools = tools
        self._folder = folder
        self._server = ("--bootstrap-server", nodes.bootstrap_servers)

    def try_(self, command: str) -> Printed:
        tool, *arguments = command.split()
        return self._tools.run(tool, *self._server, *arguments)

    def run(self, command: str) -> str:
        printed = self.try_(command)
        assert printed.status == 0, f"{command}: {printed.text}"
        return printed.text

    def until(self, command: str, holds: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + WITHIN_S
        while not holds(text := self.run(command)):
            assert time.monotonic() < deadline, text
        return text

    def partitions(self) -> dict[int, tuple[int, list[int], list[int]]]:
        """Partition -> its leader, its replicas, its ISR."""
        return partitions(self.run("kafka-topics --describe --topic orders"))

    def file(self, name: str, content: object) -> Path:
        path = self._folder / name
        path.write_text(json.dumps(content))
        return path


def partitions(text: str) -> dict[int, tuple[int, list[int], list[int]]]:
    rows = re.findall(r"Partition: (\d+)\tLeader: (-?\d+)\tReplicas: ([\d,]+)\tIsr: ([\d,]*)", text)
    return {int(index): (int(leader), _ids(replicas), _ids(isr)) for index, leader, replicas, isr in rows}


def _ids(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def tools() -> Iterator[KafkaTools]:
    with KafkaTools() as tools:
        yield tools


@pytest.fixture(scope="module")
def cluster(data: Path, tools: KafkaTools) -> Iterator[Cluster]:
    with Embedded(brokers=3, data=data, config=SETTINGS) as nodes:
        cluster = Cluster(nodes, tools, data)
        cluster.run(f"kafka-topics --create --topic orders --partitions {PARTITIONS} --replication-factor 3")
        cluster.until("kafka-topics --describe --topic orders", lambda text: len(partitions(text)) == PARTITIONS)
        yield cluster


def test_metadata_quorum_tool_describes_voters_and_leader(cluster: Cluster) -> None:
    status = dict(re.findall(r"^(\w+): +(.*)$", cluster.run("kafka-metadata-quorum describe --status"), re.MULTILINE))
    voters = json.loads(status["CurrentVoters"])
    assert sorted(voter["id"] for voter in voters) == [1, 2, 3]
    assert all(voter["endpoints"][0].startswith("CONTROLLER://127.0.0.1:") for voter in voters)
    assert int(status["LeaderId"]) in (1, 2, 3)
    assert int(status["HighWatermark"]) > 10
    assert status["CurrentObservers"] == "[]"
    rows = re.findall(
        r"^(\d)\s+\S+\s+(\d+)\s+(\d+)\s.*\s(Leader|Follower)",
        cluster.run("kafka-metadata-quorum describe --replication"),
        re.MULTILINE,
    )
    assert sorted(node for node, *_ in rows) == ["1", "2", "3"]
    assert [node for node, *_, role in rows if role == "Leader"] == [status["LeaderId"]]
    assert all(int(end) >= int(status["HighWatermark"]) - int(lag) - 1 for _, end, lag, _ in rows)


def test_topics_tool_shows_leaders_and_all_replicas_in_sync(cluster: Cluster) -> None:
    for leader, replicas, isr in cluster.partitions().values():
        assert sorted(replicas) == sorted(isr) == [1, 2, 3]
        assert leader == replicas[0]
    assert cluster.run("kafka-topics --describe --under-replicated-partitions") == ""
    described = json.loads(cluster.run("kafka-log-dirs --describe --topic-list orders").splitlines()[-1])
    for broker in described["brokers"]:
        (folder,) = broker["logDirs"]
        assert folder["error"] is None
        assert len(folder["partitions"]) == PARTITIONS
    endpoints = cluster.run("kafka-broker-api-versions")
    assert endpoints.count("isFenced: false") == 3


def test_stopped_broker_leaves_the_isr_and_leads_again_after_preferred_election(cluster: Cluster) -> None:
    """While it is stopped, its partitions are under-replicated and others lead. It leads again after an election."""
    cluster.nodes[2].stop()
    short = cluster.until(
        "kafka-topics --describe --under-replicated-partitions",
        lambda text: all(2 not in isr for _, _, isr in partitions(text).values()) and "Partition: 5" in text,
    )
    assert all(leader in (1, 3) and sorted(isr) == [1, 3] for leader, _, isr in partitions(short).values())
    assert cluster.run("kafka-topics --describe --unavailable-partitions") == ""
    assert cluster.run("kafka-topics --describe --under-min-isr-partitions") == ""
    assert "Partition: 0" in cluster.run("kafka-topics --describe --at-min-isr-partitions")
    cluster.nodes[2].start()
    cluster.until("kafka-topics --describe --under-replicated-partitions", lambda text: text == "")
    elected = cluster.run("kafka-leader-election --election-type preferred --all-topic-partitions")
    assert "Error" not in elected
    assert all(leader == replicas[0] for leader, replicas, _ in cluster.partitions().values())


def test_reassignment_moves_partitions(cluster: Cluster) -> None:
    before = cluster.partitions()
    moves = [
        {"topic": "orders", "partition": index, "replicas": replicas[::-1][:2], "log_dirs": ["any", "any"]}
        for index, (_, replicas, _) in before.items()
    ]
    file = cluster.file("moves.json", {"version": 1, "partitions": moves})
    started = cluster.run(f"kafka-reassign-partitions --reassignment-json-file {file} --execute")
    assert "Successfully started partition reassignments" in started
    done = cluster.until(
        f"kafka-reassign-partitions --reassignment-json-file {file} --verify",
        lambda text: text.count("is completed") == PARTITIONS,
    )
    assert "still in progress" not in done
    for move in moves:
        _, replicas, isr = cluster.partitions()[move["partition"]]
        assert replicas == move["replicas"]
        assert sorted(isr) == sorted(replicas)
    assert "No partition reassignments found" in cluster.run("kafka-reassign-partitions --list")
    assert json.loads(started.splitlines()[2])["partitions"][0]["replicas"] == before[0][1]


def test_reassignment_may_name_log_directories(cluster: Cluster) -> None:
    text = cluster.run("kafka-log-dirs --describe --topic-list orders")
    described = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
    here = {broker["broker"]: broker["logDirs"][0]["logDir"] for broker in described["brokers"]}

    _, replicas, _ = cluster.partitions()[0]

    def file(name: str, directories: list[str]) -> Path:
        move = {"topic": "orders", "partition": 0, "replicas": replicas, "log_dirs": directories}
        return cluster.file(name, {"version": 1, "partitions": [move]})

    stay = file("stay.json", [here[broker] for broker in replicas])
    started = cluster.run(f"kafka-reassign-partitions --reassignment-json-file {stay} --execute")
    for broker in replicas:
        assert f"started moving log directory to {here[broker]} for replica orders-0 with broker {broker}" in started
    verified = cluster.run(f"kafka-reassign-partitions --reassignment-json-file {stay} --verify")
    assert verified.count("completed successfully") == len(replicas), verified
    gone = file("gone.json", ["/nowhere"] * len(replicas))
    refused = cluster.try_(f"kafka-reassign-partitions --reassignment-json-file {gone} --execute --timeout 3000")
    assert refused.status == 1
    assert "LogDirNotFoundException" in refused.text, refused.text


def test_reassignment_throttle_is_refused_by_name(cluster: Cluster) -> None:
    move = {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
    file = cluster.file("throttled.json", {"version": 1, "partitions": [move]})
    refused = cluster.try_(f"kafka-reassign-partitions --reassignment-json-file {file} --execute --throttle 1000")
    assert refused.status == 1
    assert re.search(r"InvalidConfigurationException: .*replication\.throttled", refused.text), refused.text
    assert "No partition reassignments found" in cluster.run("kafka-reassign-partitions --list")


def test_generated_reassignment_plan_uses_the_given_brokers(cluster: Cluster) -> None:
    file = cluster.file("topics.json", {"version": 1, "topics": [{"topic": "orders"}]})
    text = cluster.run(f"kafka-reassign-partitions --topics-to-move-json-file {file} --broker-list 1,2 --generate")
    plan = json.loads(text.splitlines()[-1])
    assert len(plan["partitions"]) == PARTITIONS
    assert {node for move in plan["partitions"] for node in move["replicas"]} == {1, 2}


def test_cancelled_reassignment_keeps_the_old_replicas(cluster: Cluster) -> None:
    """A network partition between the leader and the new replica delays the reassignment until it is cancelled."""
    quorum = int(re.findall(r"LeaderId: +(\d)", cluster.run("kafka-metadata-quorum describe --status"))[0])
    leader, other = (node for node in (1, 2, 3) if node != quorum)
    cluster.run(f"kafka-topics --create --topic moving --replica-assignment {leader}:{quorum}")
    moved = {"topic": "moving", "partition": 0, "replicas": [other, leader], "log_dirs": ["any", "any"]}
    file = cluster.file("away.json", {"version": 1, "partitions": [moved]})
    cluster.embedded.partition(leader, other)
    cluster.run(f"kafka-reassign-partitions --reassignment-json-file {file} --execute")
    under_way = cluster.until("kafka-reassign-partitions --list", lambda text: "moving-0" in text)
    assert f"adding: {other}" in under_way
    assert f"removing: {quorum}" in under_way
    cancelled = cluster.run(f"kafka-reassign-partitions --reassignment-json-file {file} --cancel")
    assert "Successfully cancelled partition reassignment for: moving-0" in cancelled
    cluster.embedded.heal()
    cluster.until("kafka-topics --describe --topic moving", lambda text: partitions(text)[0][1] == [leader, quorum])


def test_feature_level_is_upgraded_through_any_broker(cluster: Cluster) -> None:
    for level in (26, 27, 28):
        raised = cluster.run(f"kafka-features upgrade --feature metadata.version={level}")
        assert f"metadata.version was upgraded to {level}" in raised
    cluster.until("kafka-features describe", lambda text: "FinalizedVersionLevel: 4.2-IV0" in text)


def test_dump_log_reads_the_metadata_of_every_node(cluster: Cluster, data: Path, tools: KafkaTools) -> None:
    for number in range(20):
        cluster.run(f"kafka-topics --create --topic many-{number}")
    cluster.until("kafka-topics --list", lambda text: "many-19" in text)
    for node in cluster.nodes.values():
        node.stop()
    for node_id in (1, 2, 3):
        folder = data / str(node_id) / "__cluster_metadata-0"
        snapshots = sorted(folder.glob("*-*.checkpoint"))
        files = [*snapshots, *sorted(folder.glob("*.log"))]
        printed = tools.run("kafka-dump-log", "--cluster-metadata-decoder", "--files", ",".join(map(str, files)))
        assert printed.status == 0
        assert not re.search(r"rror|xception|ismatch|nvalid|orrupt", printed.text), printed.text[-3000:]
        for word in ("LeaderChange", "TOPIC_RECORD", "PARTITION_CHANGE_RECORD", "FEATURE_LEVEL_RECORD"):
            assert word in printed.text
        assert '"name":"many-19"' in printed.text
        assert any(path.name > "0" * 20 + "-0000000000.checkpoint" for path in snapshots), "no snapshot was written"
        assert "SnapshotHeader" in printed.text
        assert "SnapshotFooter" in printed.text
        assert "KRaftVoters" in printed.text
