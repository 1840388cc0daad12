"""`odradek group lag`: lag with Burrow's status, from the commits that are still in `__consumer_offsets`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Embedded
from odradek.watch import recent_lag
from odradek.watch.cluster_client import ClusterClient
from odradek.watch.recent_lag import RecentLag
from support.command_line import odradek_command
from support.waiting import wait_until

RECORDS = 100
# Older than the ten samples of the log end: a consumer that was at one of them counts as caught up.
WRITTEN_MS = int(time.time() * 1000) - 600_000


class Groups:
    def __init__(self, bootstrap: str) -> None:
        quiet = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin, self._producer = AdminClient(quiet), Producer(quiet)

    def topic(self, name: str) -> None:
        self._admin.create_topics([NewTopic(name, 1, 1)])[name].result()
        for _ in range(RECORDS):
            self._producer.produce(name, b"x", timestamp=WRITTEN_MS)
        self._producer.flush()

    def commit(self, group: str, *offsets: int) -> None:
        for offset in offsets:
            wanted = ConsumerGroupTopicPartitions(group, [TopicPartition("orders", 0, offset)])
            self._admin.alter_consumer_group_offsets([wanted])[group].result()


@pytest.fixture(scope="module")
def broker() -> Iterator[Embedded]:
    with Embedded() as broker:
        groups = Groups(broker.bootstrap_servers)
        groups.topic("orders")
        groups.commit("done", 50, RECORDS)
        groups.commit("stopped", 10, 20)
        # A group has stopped when more time has passed since its last commit than between its commits.
        wait_until(lambda: lag(broker, "stopped")[0] == 2, "the group counts as stopped")
        yield broker


def lag(broker: Embedded, *arguments: str) -> tuple[int, list[dict[str, object]]]:
    shown = odradek_command(broker, "group", "lag", *arguments, "-o", "json")
    return shown.exit_code, json.loads(shown.stdout)


def test_a_group_without_lag_is_ok(broker: Embedded) -> None:
    code, [row] = lag(broker, "done")
    assert code == 0
    assert row == {
        "group": "done",
        "topic": "orders",
        "partitions": 1,
        "lag": 0,
        "seconds": 0.0,
        "status": "OK",
        "trend": "caught up",
        "catch_up_seconds": 0.0,
    }


def test_a_group_that_stopped_long_ago_exits_with_2(broker: Embedded) -> None:
    code, [row] = lag(broker, "stopped", "--partitions")
    assert code == 2
    assert (row["partition"], row["lag"], row["status"], row["catch_up_seconds"]) == (0, 80, "STOP", None)


def test_seconds_of_lag_are_the_age_of_the_first_record_that_was_not_read(broker: Embedded) -> None:
    """Also of a group that has read nothing. Before those records the log was empty for as long as one looks back."""
    Groups(broker.bootstrap_servers).commit("nothing-read", 0)
    for group in ("stopped", "nothing-read"):
        asked_s = time.time()
        _, [row] = lag(broker, group)
        age_s = float(str(row["seconds"]))
        assert 0.98 * (asked_s - WRITTEN_MS / 1000) < age_s < 1.02 * (time.time() - WRITTEN_MS / 1000)


def test_the_exit_code_is_that_of_the_worst_group(broker: Embedded) -> None:
    code, rows = lag(broker, "done", "stopped")
    assert code == 2
    assert [(row["group"], row["status"]) for row in rows] == [("done", "OK"), ("stopped", "STOP")]


def test_watching_shows_new_commits_and_ends_with_the_last_status(broker: Embedded) -> None:
    groups = Groups(broker.bootstrap_servers)
    groups.commit("watched", 5)
    command = [sys.executable, "-m", "odradek.cli", "group", "lag", "watched", "-w", "0.1", "-o", "jsonl"]
    with subprocess.Popen(
        [*command, "-b", broker.bootstrap_servers], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["lag"] == RECORDS - 5
        groups.commit("watched", RECORDS)
        while json.loads(watching.stdout.readline())["lag"] != 0:
            pass
        watching.stdout.readline()  # now the status of the line before counts
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=60)
    assert watching.returncode == 0


def test_a_group_whose_commits_were_compacted_has_no_status(broker: Embedded) -> None:
    """Only the snapshot of committed offsets is left when all records of a group are beyond what is read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent_lag, "RECORDS_MAX", 0)
        shown = odradek_command(broker, "group", "lag", "stopped", "-o", "json")
    [row] = json.loads(shown.stdout)
    assert (shown.exit_code, row["lag"], row["status"]) == (0, 80, None)
    assert "one snapshot gives no status and no trend" in shown.stderr


def test_lag_of_groups_that_commit_all_the_time_does_not_wait_for_a_pause(
    broker: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_lag, "READ_TIMEOUT_S", 600.0)
    groups, stopping, refreshes = Groups(broker.bootstrap_servers), threading.Event(), []

    def commit() -> None:
        while not stopping.is_set():
            groups.commit("busy", *range(RECORDS))

    def refresh() -> None:
        client = ClusterClient(broker.bootstrap_servers, {}, fetch_wait_ms=20)
        try:
            recent = RecentLag(client, range)
            for _ in range(3):
                recent.refresh({("orders", 0)})
                refreshes.append(recent.evaluate("busy"))
        finally:
            client.close()

    groups.commit("busy", 0)
    threads = [threading.Thread(target=task) for task in (commit, refresh)]
    try:
        for thread in threads:
            thread.start()
        wait_until(lambda: len(refreshes) == 3, lambda: f"{len(refreshes)} refreshes")
        assert all(refreshes)
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def test_partitions_of_members_are_shown_without_a_commit(broker: Embedded) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("halves", 2, 1)])["halves"].result()
    reader = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers", "enable.auto.commit": False}
    )
    try:
        reader.subscribe(["halves"])
        wait_until(lambda: reader.poll(0.1) is None and len(reader.assignment()) == 2, "both partitions are assigned")
        reader.commit(offsets=[TopicPartition("halves", 0, 0)], asynchronous=False)
        _, rows = lag(broker, "readers", "--partitions")
        sums = odradek_command(broker, "group", "lag", "readers", "-o", "json")
    finally:
        reader.close()
    assert [(row["partition"], row["committed"], row["lag"]) for row in rows] == [(0, 0, 0), (1, None, None)]
    [row] = json.loads(sums.stdout)
    assert (row["partitions"], row["lag"]) == (2, 0)
    assert "readers: no committed offset, so no lag, in partitions of its members: halves-1" in sums.stderr
