"""The HTTP API answers as Burrow does. The expected answers are those of LinkedIn's Burrow for the same commits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.monitor.lag.settings import LagSettings
from odradek.testing import Embedded
from odradek.watch.burrow_api import BurrowApi
from odradek.watch.burrow_json import short_float
from odradek.watch.settings import MonitorSettings
from odradek.watch.watched_cluster import ClusterSettings, WatchedCluster
from odradek.web.application import application
from odradek.web.server import HttpServer
from support.monitor_process import fetched, wait_until

PARTITIONS, RECORDS = 3, 100


class Served:
    def __init__(self, url: str, cluster: WatchedCluster, bootstrap: str) -> None:
        self.url, self.cluster, self.bootstrap = url, cluster, bootstrap

    def get(self, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, Any]:
        status, text = fetched(self.url + path, method, body)
        return status, json.loads(text)


def commit(bootstrap: str, group: str, offsets: dict[int, int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    places = [TopicPartition("t", partition, offset) for partition, offset in offsets.items()]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])[group].result()


def prepare(bootstrap: str) -> Consumer:
    """The groups `g`, without members, and `joined`, with one. Returns the member."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result()
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for at in range(PARTITIONS * RECORDS):
        producer.produce("t", b"x", partition=at % PARTITIONS)
    producer.flush()
    for at in range(4):
        commit(bootstrap, "g", {0: at * 10, 1: at * 10})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "joined",
            "client.id": "me",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["t"])
    record = wait_until(lambda: consumer.poll(0.1), "a record")
    consumer.commit(offsets=[TopicPartition("t", record.partition(), 1)], asynchronous=False)
    return consumer


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Embedded() as broker:
        consumer = prepare(broker.bootstrap_servers)
        settings = ClusterSettings(name="local", servers=broker.bootstrap_servers, offset_refresh_s=1)
        cluster = WatchedCluster(settings, LagSettings(), commits_every_s=0.1)
        api = BurrowApi(MonitorSettings(clusters=(settings,), access_control_allow_origin="example.com"), [cluster])
        routes = api.routes()
        with HttpServer(application([*routes, api.fallback(routes)])) as server:
            assert fetched(f"{server.url}/burrow/admin/ready") == (503, "STARTING")
            cluster.start()
            try:
                wait_until(lambda: cluster.is_ready, "the commits")
                yield Served(server.url, cluster, broker.bootstrap_servers)
            finally:
                cluster.stop()
        consumer.close()


def about(path: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"url": path, "host": answer["request"]["host"]}


def any_times(answer: Any) -> Any:
    """Times are those of the test."""
    return json.loads(re.sub(r'("timestamp"|"observedAt"): \d+', r"\1: 0", json.dumps(answer)))


def window(*offsets: int) -> list[dict[str, int]]:
    return [{"offset": each, "timestamp": 0, "observedAt": 0, "lag": RECORDS - each} for each in offsets]


def partition(index: int, status: str, offsets: tuple[int, ...], complete: float, owner: str = "") -> dict[str, Any]:
    commits = window(*offsets) or [None]
    return {
        "topic": "t",
        "partition": index,
        "owner": owner,
        "client_id": "me" if owner else "",
        "status": status,
        "start": commits[0],
        "end": commits[-1],
        "current_lag": RECORDS - offsets[-1] if offsets else 0,
        "complete": complete,
    }


def test_health(served: Served) -> None:
    assert fetched(f"{served.url}/burrow/admin") == (200, "GOOD")
    assert fetched(f"{served.url}/burrow/admin/ready") == (200, "READY")


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("/v3/kafka", 200, {"error": False, "message": "cluster list returned", "clusters": ["local"]}),
        ("/v3/kafka/nope", 404, {"error": True, "message": "cluster module not found"}),
        (
            "/v3/kafka/local/topic",
            200,
            {"error": False, "message": "topic list returned", "topics": ["__consumer_offsets", "t"]},
        ),
        ("/v3/kafka/nope/topic", 404, {"error": True, "message": "cluster not found"}),
        (
            "/v3/kafka/local/topic/t",
            200,
            {"error": False, "message": "topic offsets returned", "offsets": [RECORDS] * PARTITIONS},
        ),
        ("/v3/kafka/local/topic/nope", 404, {"error": True, "message": "cluster or topic not found"}),
        (
            "/v3/kafka/local/topic/t/consumers",
            200,
            {"error": False, "message": "consumers of topic returned", "consumers": ["g", "joined"]},
        ),
        (
            "/v3/kafka/local/topic/nope/consumers",
            200,
            {"error": False, "message": "consumers of topic returned", "consumers": []},
        ),
        ("/v3/kafka/nope/topic/t/consumers", 404, {"error": True, "message": "cluster not found"}),
        (
            "/v3/kafka/local/consumer",
            200,
            {"error": False, "message": "consumer list returned", "consumers": ["g", "joined"]},
        ),
        ("/v3/kafka/nope/consumer", 404, {"error": True, "message": "cluster not found"}),
        ("/v3/kafka/local/consumer/nope", 404, {"error": True, "message": "cluster or consumer not found"}),
        *(
            (
                f"/v3/config/{kind}",
                200,
                {"error": False, "message": "module list returned", "coordinator": kind, "modules": modules},
            )
            for kind, modules in {
                "storage": ["default"],
                "evaluator": ["default"],
                "cluster": ["local"],
                "consumer": ["local"],
                "notifier": [],
            }.items()
        ),
        *(
            (f"/v3/config/{kind}/nope", 404, {"error": True, "message": f"{kind} module not found"})
            for kind in ("storage", "evaluator", "cluster", "consumer", "notifier")
        ),
        (
            "/v3/config/storage/default",
            200,
            {
                "error": False,
                "message": "storage module detail returned",
                "module": {
                    "class-name": "inmemory",
                    "intervals": 10,
                    "min-distance": 0,
                    "group-allowlist": "",
                    "expire-group": 604800,
                },
            },
        ),
        (
            "/v3/config/evaluator/default",
            200,
            {
                "error": False,
                "message": "evaluator module detail returned",
                "module": {"class-name": "caching", "expire-cache": 0},
            },
        ),
    ],
)
def test_lists_and_errors(served: Served, path: str, status: int, expected: dict[str, Any]) -> None:
    found, answer = served.get(path)
    assert (found, answer) == (status, expected | {"request": about(path, answer)})


@pytest.mark.parametrize("path", ["/v3/kafka/local", "/v3/config/cluster/local"])
def test_a_cluster(served: Served, path: str) -> None:
    _, answer = served.get(path)
    assert answer["module"] == {
        "class-name": "kafka",
        "servers": [served.bootstrap],
        "client-profile": {
            "name": "",
            "client-id": "odradek-monitor",
            "kafka-version": "",
            "tls": None,
            "sasl": None,
        },
        "topic-refresh": 60,
        "offset-refresh": 1,
    }


def test_the_modules_of_the_configuration_have_burrows_keys(served: Served) -> None:
    _, consumer = served.get("/v3/config/consumer/local")
    assert list(consumer["module"]) == [
        "class-name",
        "cluster",
        "servers",
        "group-allowlist",
        "zookeeper-path",
        "zookeeper-timeout",
        "client-profile",
        "offsets-topic",
        "start-latest",
    ]
    _, main = served.get("/v3/config")
    assert set(main) == {"error", "message", "request", "general", "logging", "zookeeper", "httpserver"}


def test_the_windows_of_a_group(served: Served) -> None:
    path = "/v3/kafka/local/consumer/g"
    status, answer = served.get(path)
    committed = {"offsets": [None] * 6 + window(0, 10, 20, 30), "owner": "", "client_id": "", "current-lag": 70}
    never = {"offsets": [], "owner": "", "client_id": "", "current-lag": 0}
    assert (status, any_times(answer)) == (
        200,
        {
            "error": False,
            "message": "consumer detail returned",
            "topics": {"t": [committed, committed, never]},
            "request": about(path, answer),
        },
    )


def test_the_status_of_a_group_without_members(served: Served) -> None:
    bad = [partition(index, "STOP", (0, 30), 0.4) for index in (0, 1)]
    wait_until(lambda: served.get("/v3/kafka/local/consumer/g/lag")[1]["status"]["status"] == "ERR", "STOP")
    for kind, shown in (("status", bad), ("lag", [*bad, partition(2, "OK", (), 0)])):
        path = f"/v3/kafka/local/consumer/g/{kind}"
        status, answer = served.get(path)
        assert (status, any_times(answer)) == (
            200,
            {
                "error": False,
                "message": "consumer status returned",
                "status": {
                    "cluster": "local",
                    "group": "g",
                    "status": "ERR",
                    "complete": 0,
                    "partitions": shown,
                    "partition_count": 3,
                    "maxlag": bad[0],
                    "totallag": 140,
                },
                "request": about(path, answer),
            },
        )


def test_the_owners_of_partitions(served: Served) -> None:
    _, answer = served.get("/v3/kafka/local/consumer/joined/lag")
    shown = any_times(answer)["status"]["partitions"]
    assert {each["owner"] for each in shown} == {"/127.0.0.1"}
    [committed] = [each for each in shown if each["start"]]
    others = [each for each in shown if not each["start"]]
    assert committed == partition(committed["partition"], committed["status"], (1,), 0.1, "/127.0.0.1")
    assert others == [partition(each["partition"], "OK", (), 0.1, "/127.0.0.1") for each in others]


def test_an_unknown_group_is_not_found_without_an_error(served: Served) -> None:
    for path in ("/v3/kafka/local/consumer/nope/status", "/v3/kafka/nope/consumer/nope/lag"):
        status, answer = served.get(path)
        assert (status, answer["error"]) == (404, False)
        assert answer["status"] == {
            "cluster": path.split("/")[3],
            "group": "nope",
            "status": "NOTFOUND",
            "complete": 1,
            "partitions": [],
            "partition_count": 0,
            "maxlag": None,
            "totallag": 0,
        }


def test_groups_can_be_forgotten(served: Served) -> None:
    commit(served.bootstrap, "gone", {0: 1})
    wait_until(lambda: "gone" in served.cluster.groups(), "the group")
    path = "/v3/kafka/local/consumer/gone/topic/t"
    assert served.get(path, "DELETE") == (
        200,
        {
            "error": False,
            "message": "consumer group removed",
            "request": about(path, served.get(path, "DELETE")[1]),
        },
    )
    assert "gone" not in served.cluster.groups()
    assert served.get("/v3/kafka/nope/consumer/nope", "DELETE")[0] == 200


def test_a_deleted_group_disappears(served: Served) -> None:
    commit(served.bootstrap, "deleted", {0: 1})
    wait_until(lambda: "deleted" in served.cluster.groups(), "the group")
    admin = AdminClient({"bootstrap.servers": served.bootstrap, "log_level": 0})
    admin.delete_consumer_groups(["deleted"])["deleted"].result()
    wait_until(lambda: "deleted" not in served.cluster.groups(), "the deletion")


def test_the_log_level(served: Served, restored_log_level: None) -> None:
    path = "/v3/admin/loglevel"
    for body, status, message in (
        (b'{"level": "Error"}', 200, "set log level"),
        (b'{"level": "loud"}', 404, "unknown log level"),
        (b"nonsense", 400, "could not decode message body"),
        (b"[]", 400, "could not decode message body"),
    ):
        found, answer = served.get(path, "POST", body)
        assert (found, answer["message"], answer["error"]) == (status, message, status != 200)
    assert served.get(path)[1]["level"] == "error"


@pytest.fixture
def restored_log_level() -> Iterator[None]:
    import logging

    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


def test_unknown_paths_and_methods(served: Served) -> None:
    nothing = '{"error":true,"message":"invalid request type","result":{}}\n'
    assert fetched(f"{served.url}/nope") == (404, nothing)
    assert fetched(f"{served.url}/v3/kafka/local/") == (404, nothing)
    assert fetched(f"{served.url}/v3/kafka", "POST", b"") == (405, "Method Not Allowed\n")
    assert fetched(f"{served.url}/v3/kafka/")[0] == 200, "a redirect"


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0, "0"), (1.0, "1"), (0.4, "0.4"), (1 / 3, "0.33333334"), (2 / 3, "0.6666667")]
)
def test_shares_are_written_as_go_writes_them(value: float, expected: str) -> None:
    assert json.dumps(short_float(value)) == expected
