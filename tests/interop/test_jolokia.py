"""Apache Kafka with Jolokia's agent beside Odradek: the same work, the same requests, the same answers and counters.

Numbers of requests differ where Kafka does other work for the same result. Kafka answers CreateTopics before its broker
leads the partitions, so the first Produce may fail with NOT_LEADER_OR_FOLLOWER and is sent again. It forwards
CreateTopics and DeleteTopics to its controller by TCP, which counts them a second time, and creates internal topics
in the same way. Here the controller of the same process is called directly. Kafka updates NumGroups once a minute.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.monitor.jolokia.mbeans import Selection
from odradek.monitor.jolokia.object_name import parsed
from odradek.monitor.left_out import LEFT_OUT, LeftOut
from support.broker_process import BrokerProcess, free_port
from support.foreign_programs import node_folder
from support.kafka_process import CLUSTER_ID, KafkaProcess, with_jolokia
from support.prometheus_process import wait_for

DOMAINS = ("kafka", "kafka.*", "org.apache.kafka.*")
# Their MBeans appear with the first event of an API, version or error.
AFTER_AN_EVENT = ("name=RequestsPerSec", "name=ErrorsPerSec")
POLICY = """<restrict><commands>
<command>read</command><command>list</command><command>version</command><command>search</command>
</commands></restrict>"""
AFTER_AN_EVENT_VARYING = ("error", "version", "request")
VARYING = ("clientSoftwareName", "clientSoftwareVersion", "logDirectory")
RECORDS = 20
# Kafka updates its gauges of groups once a minute.
GAUGE_WITHIN_S = 90
LEADERS = "kafka.server:type=ReplicaManager,name=LeaderCount"
MESSAGES = "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"
MBeans = dict[str, dict[str, Any]]


class Agent:
    """One of the two, after the work."""

    def __init__(self, url: str, bootstrap: str) -> None:
        self.url = url
        self.bootstrap = bootstrap

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=60)

    def post(self, document: Any) -> httpx.Response:
        return httpx.post(self.url, json=document, timeout=60)

    def mbeans(self) -> MBeans:
        """All attributes of all MBeans of Kafka, by canonical name."""
        requests = [{"type": "read", "mbean": f"{domain}:*", "config": {"ignoreErrors": True}} for domain in DOMAINS]
        found: MBeans = {}
        for answer in self.post(requests).json():
            found |= {parsed(name).canonical: value for name, value in answer.get("value", {}).items()}
        return found

    def work(self) -> None:
        # Stays connected.
        self.client = AdminClient({"bootstrap.servers": self.bootstrap})
        admin = self.client
        for done in admin.create_topics([NewTopic(name, 2, 1) for name in ("orders", "paid", "gone")]).values():
            done.result()
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "batch.num.messages": 1})
        for number in range(RECORDS):
            producer.produce("orders", bytes(100), partition=number % 2)
            producer.flush()
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        seen = 0
        while seen < RECORDS:
            seen += len(consumer.consume(RECORDS, timeout=1.0))
        consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
        consumer.close()
        for done in admin.delete_topics(["gone"]).values():
            done.result()
        writer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "writer"})
        writer.init_transactions()
        writer.begin_transaction()
        writer.produce("paid", bytes(100), partition=0)
        writer.commit_transaction()


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Agent, Agent]]:
    directory = tmp_path_factory.mktemp("jolokia")
    policy = directory / "policy.xml"
    policy.write_text(POLICY)
    with ExitStack() as running:
        kafka, ours = _kafka(directory, policy, running), _odradek(directory, running)
        for agent in (kafka, ours):
            agent.work()
        yield kafka, ours


def _kafka(directory: Path, policy: Path, running: ExitStack) -> Agent:
    port = free_port()
    # One network thread, as the event loop here: some MBeans exist for each of them.
    config = {"num.network.threads": "1"}
    kafka = running.enter_context(KafkaProcess(directory / "kafka", config=config, jvm=[with_jolokia(port, policy)]))
    return Agent(f"http://127.0.0.1:{port}/jolokia", kafka.bootstrap)


def _odradek(directory: Path, running: ExitStack) -> Agent:
    port = free_port()
    config = {
        "http.listener": f"127.0.0.1:{port}",
        "metrics.partitions.enable": "true",
        "transaction.state.log.num.partitions": "1",
    }
    broker = BrokerProcess(directory / "odradek", **config)
    controller = f"127.0.0.1:{free_port()}"
    broker.config |= {
        "listeners": f"PLAINTEXT://{broker.bootstrap},CONTROLLER://{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": controller,
    }
    _format(directory, broker)
    running.enter_context(broker)
    return Agent(f"http://127.0.0.1:{port}/jolokia", broker.bootstrap)


def _format(directory: Path, broker: BrokerProcess) -> None:
    """A node with a listener for controllers, as Kafka has it, begins with a formatted directory."""
    properties = directory / "node.properties"
    config = {**broker.config, "node.id": "1", "process.roles": "broker,controller", "log.dirs": str(broker.data)}
    properties.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    command = [sys.executable, "-m", "odradek.cli", "node", "format", "--config", str(properties), "--standalone"]
    subprocess.run([*command, "--cluster-id", CLUSTER_ID], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    "path",
    [
        f"/read/{LEADERS}",
        f"/read/{LEADERS}/Value",
        f"/read/{MESSAGES}/Count,EventType,RateUnit",
        f"/read/{MESSAGES}/Count",
        "/read/kafka.server:type=ReplicaManager,name=L*",
        "/read/kafka.server:type=ReplicaManager,name=L*/Value?canonicalNaming=true",
        "/read/kafka.server:type=ReplicaManager,name=L*/Value?includeRequest=false",
        "/read/kafka.log:type=Log,name=LogEndOffset,topic=orders,partition=*/Value",
        "/read/kafka.server:type=Nope/Value",
        "/read/kafka.server:type=Nope,*/Value",
        f"/read/{LEADERS}/Nope",
        "/read/kafka.server:type=ReplicaManager,name=*/Nope",
        f"/read/{LEADERS}/Value/a/b",
        "/read/a!/b!!c:d=e/x!/y",
        "/read/bad",
        "/read/bad:x",
        "/read/a:b=c,",
        "/read/a:b=c,b=d",
        "/read/a:b=c,*,*",
        "/read",
        "/nope/x",
        "/search/kafka.server:type=ReplicaManager,name=L*",
        "/search/kafka.server:type=Nope",
        "/search/bad",
        "/list/kafka.server/x=y",
        "/list/nope",
        "/list/kafka.server/bad",
        "/list/a/b=c/d/e",
        "/list/kafka.server?maxDepth=1",
        f"/exec/{LEADERS}/nope",
        f"/write/{LEADERS}/Value/5",
        "/exec",
        f"/write/{LEADERS}",
    ],
)
def test_the_same_get_request_has_the_same_answer(agents, path):
    expected, found = (agent.get(path) for agent in agents)
    _assert_same(expected, found)


@pytest.mark.parametrize(
    "document",
    [
        {"type": "read", "mbean": LEADERS, "attribute": ["Value", "Nope"]},
        {"type": "read", "mbean": LEADERS, "attribute": ["Value", "Nope"], "config": {"ignoreErrors": True}},
        {"type": "read", "mbean": "kafka.server:type=ReplicaManager,name=L*", "path": "*/Value"},
        {"type": "read", "mbean": LEADERS, "path": "Value"},
        [{"type": "search", "mbean": "a:*"}, {"type": "READ", "mbean": "a:type=None"}],
        [{"type": "version"}, {"type": "read", "mbean": "bad"}],
        {"type": "exec", "mbean": LEADERS, "operation": "x", "arguments": [1, "a"]},
        {"type": "write", "mbean": LEADERS, "attribute": "Value", "value": 5},
        {"type": "read"},
        {"type": "nope"},
        {"mbean": "a:b=c"},
        [],
        5,
    ],
    ids=str,
)
def test_the_same_post_request_has_the_same_answer(agents, document):
    expected, found = (agent.post(document) for agent in agents)
    _assert_same(expected, found)


def _assert_same(expected: httpx.Response, found: httpx.Response) -> None:
    assert (found.status_code, found.headers["content-type"]) == (
        expected.status_code,
        expected.headers["content-type"],
    )
    if expected.status_code != httpx.codes.OK:
        assert found.text.strip() == expected.text.strip()
        return
    assert _without_time(found.json()) == _without_time(expected.json())


def _without_time(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_without_time(each) for each in answer]
    return {key: value for key, value in answer.items() if key != "timestamp"}


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("kafka.server:name=MessagesInPerSec,topic=orders,type=BrokerTopicMetrics", "Count"),
        ("kafka.server:name=BytesInPerSec,topic=orders,type=BrokerTopicMetrics", "Count"),
        ("kafka.server:name=BytesOutPerSec,topic=orders,type=BrokerTopicMetrics", "Count"),
        ("kafka.server:name=MessagesInPerSec,topic=orders,type=BrokerTopicMetrics", "EventType"),
        # A record and the marker of its transaction.
        ("kafka.server:name=MessagesInPerSec,topic=paid,type=BrokerTopicMetrics", "Count"),
        ("kafka.server:name=BytesInPerSec,topic=paid,type=BrokerTopicMetrics", "Count"),
        ("kafka.network:name=TotalTimeMs,request=OffsetCommit,type=RequestMetrics", "Count"),
        ("kafka.log:name=LogEndOffset,partition=0,topic=orders,type=Log", "Value"),
        ("kafka.log:name=Size,partition=0,topic=orders,type=Log", "Value"),
        ("kafka.cluster:name=InSyncReplicasCount,partition=0,topic=orders,type=Partition", "Value"),
        ("kafka.server:name=PartitionCount,type=ReplicaManager", "Value"),
        ("kafka.controller:name=GlobalTopicCount,type=KafkaController", "Value"),
        ("kafka.controller:name=GlobalPartitionCount,type=KafkaController", "Value"),
    ],
)
def test_counters_have_the_same_values_after_the_same_work(agents, name, attribute):
    kafka, ours = (agent.mbeans() for agent in agents)
    assert ours[name][attribute] == kafka[name][attribute]


def test_groups_are_counted_the_same_once_kafka_has_updated_its_gauge(agents):
    name = "kafka.coordinator.group:name=NumGroups,type=GroupMetadataManager"
    kafka, ours = agents
    wait_for("Kafka updates NumGroups", lambda: kafka.mbeans()[name]["Value"], GAUGE_WITHIN_S)
    assert ours.mbeans()[name]["Value"] == kafka.mbeans()[name]["Value"] == 1


def test_every_request_of_kafka_beyond_ours_is_a_retry_or_goes_to_the_controller(agents):
    kafka, ours = (_counts(agent.mbeans()) for agent in agents)
    assert ours["Produce", ""] == kafka["Produce", ""] - kafka.get(("Produce", "NOT_LEADER_OR_FOLLOWER"), 0)
    assert kafka["DeleteTopics", ""] == 2 * ours["DeleteTopics", ""]
    # Forwarded by the client's CreateTopics, and for each of the two internal topics at least once.
    assert kafka["CreateTopics", ""] >= 2 * ours["CreateTopics", ""] + 2


def _counts(mbeans: MBeans) -> Counter[tuple[str, str]]:
    """Requests by API, and errors by API and code."""
    found: Counter[tuple[str, str]] = Counter()
    for name, attributes in mbeans.items():
        properties = dict(parsed(name).properties)
        if properties.get("name") == "RequestsPerSec":
            found[properties["request"], ""] += attributes["Count"]
        elif properties.get("name") == "ErrorsPerSec":
            found[properties["request"], properties["error"]] += attributes["Count"]
    return found


def test_every_mbean_and_attribute_of_kafka_exists_or_is_listed_as_left_out(agents):
    kafka, ours = (_comparable(agent.mbeans()) for agent in agents)
    missing = {each for each in kafka - ours if not any(_covers(left_out, *each) for left_out in LEFT_OUT)}
    assert not missing, "\n".join(sorted(map(" ".join, missing)))


@pytest.mark.parametrize("left_out", LEFT_OUT, ids=lambda each: f"{each.mbean} {' '.join(each.attributes)}")
def test_what_is_listed_as_left_out_exists_in_kafka_and_not_here(agents, left_out):
    kafka, ours = (_comparable(agent.mbeans()) for agent in agents)
    assert any(_covers(left_out, *each) for each in kafka)
    assert not [each for each in ours if _covers(left_out, *each)]


def _comparable(mbeans: MBeans) -> set[tuple[str, str]]:
    """Names and attributes, without what depends on the client, the directory, or the requests that happened."""
    found = set()
    for name, attributes in mbeans.items():
        varying = VARYING + AFTER_AN_EVENT_VARYING if any(each in name for each in AFTER_AN_EVENT) else VARYING
        if "clientSoftwareName" in name:
            # Kafka connects to its own controller, too.
            varying += ("listener",)
        shown = re.sub(rf'({"|".join(varying)})=("[^"]*"|[^,]*)', r"\1=x", name)
        found |= {(shown, attribute) for attribute in attributes}
    return found


def _covers(left_out: LeftOut, name: str, attribute: str) -> bool:
    if left_out.attributes and not any(fnmatchcase(attribute, each) for each in left_out.attributes):
        return False
    found, selection = parsed(name), Selection(parsed(left_out.mbean))
    properties = dict(found.properties)
    return selection.may_include(found.domain, properties, ()) and selection.includes((), properties)


def test_jolokia_js_reads_searches_and_lists_the_same_as_with_kafka(agents):
    script = node_folder("jolokiajs") / "script.mjs"
    expected, found = (_ran(["node", str(script), agent.url]) for agent in agents)
    assert found["version"]
    assert {"attr", "class", "desc"} <= set(found["list"]) & set(expected["list"])
    for each in ("read", "readByGet", "readSeveral", "readPattern", "search", "missing", "bulk"):
        assert found[each] == expected[each], each


def _ran(command: list[str]) -> dict[str, Any]:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)
