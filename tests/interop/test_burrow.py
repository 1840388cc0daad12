"""LinkedIn's Burrow and `odradek monitor` watch the same cluster and must say the same about its groups.

Needs the path of a Burrow binary in ODRADEK_BURROW.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Embedded
from support.monitor_process import MonitorProcess, fetched, wait_until

BURROW = os.environ.get("ODRADEK_BURROW", "")
pytestmark = pytest.mark.skipif(not BURROW, reason="needs the path of a Burrow binary in ODRADEK_BURROW")

STEPS = 14
STEP_S = 1.0
BACKLOG = 1_000

# Group: the status that Burrow gave it when this was written.
EXPECTED = {
    "steady": "OK",
    "falls-behind": "WARN",
    "catches-up": "OK",
    "stalled": "ERR",
    "stopped": "ERR",
    "stopped-at-the-end": "OK",
    "rewound": "ERR",
    "rewound-and-back": "OK",
    "new": "ERR",
    "new-without-lag": "OK",
    "one-of-three": "WARN",
    "deleted": "NOTFOUND",
    "joined": "ERR",
}

PRODUCED = ("steady", "falls-behind", "stalled", "stopped", "rewound-and-back", "one-of-three")


class Groups:
    """One topic for each group, and commits without members."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer({"bootstrap.servers": bootstrap})
        topics = [NewTopic(group, 3 if group == "one-of-three" else 1, 1) for group in EXPECTED]
        for created in self._admin.create_topics(topics).values():
            created.result()
        self._ends = dict.fromkeys(EXPECTED, 0)
        for group in EXPECTED:
            self.produce(group, BACKLOG)

    def produce(self, topic: str, count: int) -> None:
        for _ in range(count):
            self._producer.produce(topic, b"x", partition=0)
        self._producer.flush()
        self._ends[topic] += count

    def commit(self, group: str, offset: int) -> None:
        place = TopicPartition(group, 0, offset)
        self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [place])])[group].result()

    def delete(self, group: str) -> None:
        self._admin.delete_consumer_groups([group])[group].result()

    def continue_topics(self) -> None:
        for group in PRODUCED:
            self.produce(group, 20)

    @property
    def ends(self) -> dict[str, int]:
        """The log end of each topic that gets records at each step."""
        return {topic: self._ends[topic] for topic in PRODUCED}

    def commit_step(self, at: int) -> None:
        self.commit("steady", self._ends["steady"])
        self.commit("falls-behind", 100 + 5 * at)
        self.commit("one-of-three", 100 + 5 * at)
        self.commit("catches-up", 50 * at)
        self.commit("stalled", 500)
        self.commit("rewound", 600 + at if at < STEPS // 2 else at)
        self.commit("rewound-and-back", 40 * at if at != STEPS // 2 else 0)
        if at < STEPS // 3:
            self.commit("stopped", 10 * at)
            self.commit("stopped-at-the-end", BACKLOG)
            self.commit("deleted", at)
        if at == STEPS // 2:
            self.commit("new", 1)
            self.commit("new-without-lag", BACKLOG)
            self.delete("deleted")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], ...]]:
    """For each path, what Burrow and the monitor answer at the end."""
    directory = tmp_path_factory.mktemp("burrow")
    with Embedded() as broker:
        groups = Groups(broker.bootstrap_servers)
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "joined",
                "client.id": "a-client",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["joined"])
        first = wait_until(lambda: consumer.poll(0.1), "a record")
        with Burrow(directory, broker.bootstrap_servers) as burrow, _monitor(directory, broker) as monitor:
            consumer.commit(first, asynchronous=False)
            urls = (burrow.url, monitor.url)
            for at in range(STEPS):
                groups.continue_topics()
                # With an old log end, a commit would seem to have less lag than the one before.
                _wait_for_ends(urls, groups.ends)
                groups.commit_step(at)
                time.sleep(STEP_S)
            _wait_for_the_same_ends(urls)
            paths = ["/v3/kafka", "/v3/kafka/local/topic", "/v3/kafka/local/consumer"]
            for group in EXPECTED:
                paths += [f"/v3/kafka/local/consumer/{group}{kind}" for kind in ("", "/status", "/lag")]
                paths.append(f"/v3/kafka/local/topic/{group}/consumers")
            found = {path: tuple(json.loads(fetched(url + path)[1]) for url in urls) for path in paths}
        consumer.close()
    return found


def _wait_for_the_same_ends(urls: tuple[str, str]) -> None:
    for topic in EXPECTED:
        path = f"/v3/kafka/local/topic/{topic}"
        wait_until(lambda path=path: len({fetched(url + path)[1] for url in urls}) == 1, f"the same ends of {topic}")


def _wait_for_ends(urls: tuple[str, str], ends: dict[str, int]) -> None:
    def are_known() -> bool:
        answers = [(fetched(f"{url}/v3/kafka/local/topic/{topic}"), end) for url in urls for topic, end in ends.items()]
        return all(status == 200 and json.loads(body)["offsets"][0] == end for (status, body), end in answers)

    wait_until(are_known, "both know the new ends")


def _monitor(directory: Path, broker: Embedded) -> MonitorProcess:
    toml = f'[cluster.local]\nservers = ["{broker.bootstrap_servers}"]\noffset-refresh = 1\ntopic-refresh = 1\n'
    monitor = MonitorProcess(directory, toml)
    monitor.wait_until_ready()
    return monitor


class Burrow:
    def __init__(self, directory: Path, bootstrap: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        (directory / "burrow.toml").write_text(
            f"""
[client-profile.test]
client-id = "burrow"
kafka-version = "2.0.0"
[cluster.local]
class-name = "kafka"
servers = ["{bootstrap}"]
client-profile = "test"
topic-refresh = 1
offset-refresh = 1
[consumer.local]
class-name = "kafka"
cluster = "local"
servers = ["{bootstrap}"]
client-profile = "test"
[storage.default]
class-name = "inmemory"
[evaluator.default]
class-name = "caching"
expire-cache = 1
[httpserver.default]
address = "{self.url.removeprefix("http://")}"
"""
        )
        self._directory = directory

    def __enter__(self) -> Self:
        command = [BURROW, "--config-dir", str(self._directory)]
        with (self._directory / "burrow.log").open("w") as log:
            self._process = subprocess.Popen(command, cwd=self._directory, stdout=log, stderr=log)
        wait_until(self._is_ready, "Burrow to be ready")
        return self

    def _is_ready(self) -> bool:
        try:
            return fetched(f"{self.url}/burrow/admin/ready")[0] == 200
        except OSError:
            return False

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def _comparable(answer: Any) -> Any:
    """Without what depends on the moment: when a commit was read, and which log end was known then."""
    if isinstance(answer, dict):
        left_out = {"observedAt", "lag", "host"} if "offset" in answer else {"observedAt"}
        return {key: _comparable(value) for key, value in answer.items() if key not in left_out}
    if isinstance(answer, list):
        return [_comparable(each) for each in answer]
    return answer


@pytest.mark.parametrize("group", EXPECTED)
@pytest.mark.parametrize("kind", ["", "/status", "/lag"])
def test_both_say_the_same_about_a_group(answers: dict[str, tuple[dict[str, Any], ...]], group: str, kind: str) -> None:
    theirs, ours = answers[f"/v3/kafka/local/consumer/{group}{kind}"]
    assert _comparable(ours) == _comparable(theirs)
    if kind:
        assert ours["status"]["status"] == EXPECTED[group]


def test_both_list_the_same(answers: dict[str, tuple[dict[str, Any], ...]]) -> None:
    compared = set()
    for path, (theirs, ours) in answers.items():
        for kind in ("clusters", "topics", "consumers"):
            if isinstance(theirs.get(kind), list):
                compared.add(kind)
                # Burrow also lists itself as a group.
                listed = sorted(each for each in theirs[kind] if not re.fullmatch("burrow-local", each))
                assert sorted(ours[kind]) == listed, path
    assert compared == {"clusters", "topics", "consumers"}
