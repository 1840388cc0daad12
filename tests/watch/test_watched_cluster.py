"""A watched cluster changes: what is new is found before the next refresh of all topics."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.monitor.lag.settings import LagSettings
from odradek.testing import Embedded
from odradek.watch import cluster_client, watched_cluster
from odradek.watch.watched_cluster import ClusterSettings, WatchedCluster, now_ms
from support.waiting import wait_until

NEVER_S = 24 * 3600


@pytest.fixture
def watched(odradek: Embedded) -> Iterator[WatchedCluster]:
    settings = ClusterSettings(
        name="new", servers=odradek.bootstrap_servers, offset_refresh_s=1, topic_refresh_s=NEVER_S
    )
    cluster = WatchedCluster(settings, LagSettings(), commits_every_s=0.1)
    assert cluster.is_starting
    cluster.start()
    try:
        wait_until(lambda: cluster.is_ready, "it is ready")
        yield cluster
    finally:
        cluster.stop()


def test_the_first_group_of_a_cluster_and_groups_of_new_topics_are_found_soon(odradek, watched):
    """The first group creates `__consumer_offsets`."""
    assert not watched.is_starting
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap_servers, "log_level": 0})

    def is_found(topic: str) -> bool:
        """Commits again: those of a topic that is not known yet are dropped."""
        place = TopicPartition(topic, 0, 0)
        admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(topic, [place])])[topic].result(60)
        return topic in watched.groups()

    for topic in ("first", "second"):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
        wait_until(lambda topic=topic: is_found(topic), f"the group of {topic}", every_s=0.2)


def test_cluster_whose_groups_commit_all_the_time_becomes_ready(odradek):
    """librdkafka never reports the end of a partition whose every fetch returns records."""
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic("busy", 1, 1)])["busy"].result(60)
    place = ConsumerGroupTopicPartitions("busy", [TopicPartition("busy", 0, 0)])
    stopping, committed = threading.Event(), threading.Event()

    def commit() -> None:
        while not stopping.is_set():
            admin.alter_consumer_group_offsets([place])["busy"].result(60)
            committed.set()

    committing = threading.Thread(target=commit)
    committing.start()
    cluster = WatchedCluster(ClusterSettings(name="busy", servers=odradek.bootstrap_servers), LagSettings())
    try:
        assert committed.wait(60)
        cluster.start()
        wait_until(lambda: cluster.is_ready, "it is ready")
        assert cluster.groups() == ["busy"]
    finally:
        stopping.set()
        committing.join()
        cluster.stop()


def test_an_error_of_the_monitor_itself_is_reported_and_does_not_end_the_watch(odradek, monkeypatch, caplog):
    monkeypatch.setattr(watched_cluster, "RETRY_S", 0.05)
    failures = iter([True] * 3)

    def apply(*arguments):
        if next(failures, False):
            raise OverflowError("a number is too large")
        return real(*arguments)

    real = watched_cluster.apply
    monkeypatch.setattr(watched_cluster, "apply", apply)
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic("broken", 1, 1)])["broken"].result(60)
    settings = ClusterSettings(name="broken", servers=odradek.bootstrap_servers, offset_refresh_s=1)
    cluster = WatchedCluster(settings, LagSettings(), commits_every_s=0.1)
    cluster.start()
    try:
        place = ConsumerGroupTopicPartitions("broken", [TopicPartition("broken", 0, 0)])

        def is_found() -> bool:
            admin.alter_consumer_group_offsets([place])["broken"].result(60)
            return "broken" in cluster.groups()

        wait_until(is_found, "the group", every_s=0.2)
        wait_until(lambda: cluster.problem is None, "it is well again")
        assert "a number is too large" in caplog.text
    finally:
        cluster.stop()


def test_a_cluster_that_cannot_be_reached_stays_unreachable(monkeypatch, caplog):
    monkeypatch.setattr(cluster_client, "REQUEST_TIMEOUT_S", 0.1)
    monkeypatch.setattr(watched_cluster, "RETRY_S", 0.05)
    failures = []
    fail = WatchedCluster._failed
    monkeypatch.setattr(WatchedCluster, "_failed", lambda self, why: (failures.append(why), fail(self, why)))
    settings = ClusterSettings(name="far", servers="127.0.0.1:1", topic_refresh_s=NEVER_S)
    cluster = WatchedCluster(settings, LagSettings(), commits_every_s=0.01)
    cluster.start()
    try:
        wait_until(lambda: len(failures) >= 3, "it failed three times")
    finally:
        cluster.stop()
    assert cluster.problem is not None
    assert "answers again" not in caplog.text


def await_a_later_time() -> None:
    """Records and commits that follow each other have different times, in milliseconds."""
    at_ms = now_ms()
    wait_until(lambda: now_ms() > at_ms + 20, "a later time", every_s=0.01)


def test_a_group_that_falls_behind_is_found_at_the_start(odradek):
    """Its old commits are compared with the log ends of their times: with today's, its lag would have shrunk."""
    quiet = {"bootstrap.servers": odradek.bootstrap_servers, "log_level": 0}
    admin, producer = AdminClient(quiet), Producer(quiet)
    admin.create_topics([NewTopic("flood", 1, 1)])["flood"].result(60)
    for offset in (5, 8, 9):
        for _ in range(10):
            producer.produce("flood", b"x")
        producer.flush()
        await_a_later_time()
        place = ConsumerGroupTopicPartitions("slow", [TopicPartition("flood", 0, offset)])
        admin.alter_consumer_group_offsets([place])["slow"].result(60)
        await_a_later_time()
    cluster = WatchedCluster(ClusterSettings(name="busy", servers=odradek.bootstrap_servers), LagSettings())
    cluster.start()
    try:
        wait_until(lambda: cluster.is_ready, "it is ready")
        found = cluster.evaluate("slow")
        assert [commit.lag for commit in found.partitions[0].commits] == [5, 12, 21]
    finally:
        cluster.stop()
