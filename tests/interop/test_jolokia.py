"""Apache Kafka with Jolokia's agent beside Odradek: the same work, the same requests, the same answers and counters.

Not compared, as the values differed when this was written: requests and partitions of Produce (20 here, 21 in Kafka),
CreateTopics (1 and 3), DeleteTopics (1 and 2), and NumGroups (1 and 0). Why is not examined.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.monitor.jolokia.object_name import parsed
from support.broker_process import BrokerProcess, free_port
from support.kafka_process import KafkaProcess, with_jolokia

DOMAINS = ("kafka.server", "kafka.network", "kafka.log", "kafka.cluster", "kafka.controller", "kafka.coordinator.*")
POLICY = """<restrict><commands>
<command>read</command><command>list</command><command>version</command><command>search</command>
</commands></restrict>"""
RECORDS = 20
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
        """All attributes of all MBeans of the compared domains, by canonical name."""
        requests = [{"type": "read", "mbean": f"{domain}:*", "config": {"ignoreErrors": True}} for domain in DOMAINS]
        found: MBeans = {}
        for answer in self.post(requests).json():
            found |= {parsed(name).canonical: value for name, value in answer.get("value", {}).items()}
        return found

    def work(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for done in admin.create_topics([NewTopic("orders", 2, 1), NewTopic("gone", 1, 1)]).values():
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
    kafka = running.enter_context(KafkaProcess(directory / "kafka", jvm=[with_jolokia(port, policy)]))
    return Agent(f"http://127.0.0.1:{port}/jolokia", kafka.bootstrap)


def _odradek(directory: Path, running: ExitStack) -> Agent:
    port = free_port()
    config = {"http.listener": f"127.0.0.1:{port}", "metrics.partitions.enable": "true"}
    broker = running.enter_context(BrokerProcess(directory / "odradek", **config))
    return Agent(f"http://127.0.0.1:{port}/jolokia", broker.bootstrap)


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
