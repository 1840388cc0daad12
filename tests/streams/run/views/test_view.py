"""A view against a real broker: following, restarting, and topics that are not what they were."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import Producer

from odradek.client.admin import Admin
from odradek.streams.run.views import NotCaughtUp, View
from odradek.testing import Embedded
from support.waiting import wait_until

COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture
def cluster(odradek):
    return Admin(odradek.bootstrap_servers)


def write(broker: Embedded, topic: str, rows: dict[str, str | None], partition: int = -1) -> dict[int, int]:
    """Where a reader must be to have seen them."""
    seen: dict[int, int] = {}

    def delivered(error, message):
        assert error is None, error
        seen[message.partition()] = max(seen.get(message.partition(), 0), message.offset() + 1)

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    where = {} if partition < 0 else {"partition": partition}
    for key, value in rows.items():
        producer.produce(topic, key=key, value=value, on_delivery=delivered, **where)
        producer.poll(0)
    assert producer.flush(60) == 0
    return seen


def view_of(broker: Embedded, topic: str, path) -> View:
    return View(broker.bootstrap_servers, topic, path / f"{topic}.db")


def rows_of(view: View) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in view.scan()}


def test_it_follows_updates_and_deletions_and_reads_its_partition(odradek, cluster, tmp_path):
    cluster.create_topic("drivers", 3, COMPACTED)
    write(odradek, "drivers", {f"d{number}": "old" for number in range(50)})
    with view_of(odradek, "drivers", tmp_path) as view:
        view.wait_caught_up()
        assert rows_of(view) == {f"d{number}": "old" for number in range(50)}
        for turn in range(20):
            view.wait_for(write(odradek, "drivers", {"d1": str(turn), "d2": None if turn % 2 else str(turn)}))
            assert view.get("d1") == str(turn).encode()
            assert view.get("d2") == (None if turn % 2 else str(turn).encode())
        assert view.caught_up()
        assert view.status().rows == view.count() == 49
        assert [key for key, _ in view.scan("d4", limit=3)] == [b"d4", b"d40", b"d41"]
        assert [key for key, _ in view.scan("d4", after="d40", limit=2)] == [b"d41", b"d42"]


def test_a_restart_goes_on_from_the_stored_positions(odradek, cluster, tmp_path):
    cluster.create_topic("t", 2, COMPACTED)
    with view_of(odradek, "t", tmp_path) as view:
        write(odradek, "t", {"a": "1", "b": "2"})
        view.wait_caught_up()
        before = view.positions()
    write(odradek, "t", {"b": None, "c": "3"})
    view = view_of(odradek, "t", tmp_path)
    view.start()
    assert all(view.positions()[partition] >= offset for partition, offset in before.items())
    view.wait_caught_up()
    assert rows_of(view) == {"a": "1", "c": "3"}
    view.stop()
    view.stop()


def test_it_reads_nothing_twice_after_a_restart(odradek, cluster, tmp_path):
    """The row was changed behind its back: if old records were read again, it would come back."""
    cluster.create_topic("t", 1, COMPACTED)
    write(odradek, "t", {"a": "1", "b": "2"})
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
        view._store.apply({b"a": b"edited"}, {})
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
        assert view.get("a") == b"edited"


def test_a_topic_that_comes_later_is_waited_for_and_not_created(odradek, cluster, tmp_path):
    with view_of(odradek, "later", tmp_path) as view:
        assert not view.caught_up()
        with pytest.raises(NotCaughtUp, match="waiting for its topic"):
            view.wait_caught_up(timeout_s=0.2)
        assert cluster.topics() == []
        cluster.create_topic("later", 1, COMPACTED)
        write(odradek, "later", {"a": "1"})
        view.wait_caught_up()
        assert view.get("a") == b"1"


def test_a_cluster_that_answers_late_is_asked_again(odradek, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("odradek.streams.run.views.view.REQUEST_TIMEOUT_S", 0.5)
    cluster.create_topic("t", 1, COMPACTED)
    write(odradek, "t", {"a": "1"})
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
        odradek.delay("ListOffsets", 1_500)
        view.wait_caught_up()
        assert len(odradek.requests("ListOffsets")) > 2


def test_rows_of_materialised_tables_by_key_of_one_or_more_columns(odradek, cluster, tmp_path):
    cluster.create_topic("t", 1, COMPACTED)
    write(odradek, "t", {"ann": '{"n":1}', '{"who":"Zoë","day":3}': '{"n":2}'})
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
        assert view.row("ann") == {"n": 1}
        assert view.row({"who": "Zoë", "day": 3}) == {"n": 2}
        assert view.row({"day": 3, "who": "Zoë"}) == {"n": 2}, "a dict in any order"
        assert view.row(("Zoë", 3)) == {"n": 2}, "a tuple in the order of the key"
        assert view.row(("Zoë", 4)) is None
        with pytest.raises(ValueError, match="the key is who, day"):
            view.row(("Zoë",))
        with pytest.raises(ValueError, match="the key is who, day"):
            view.row({"who": "Zoë"})
        assert view.row("bob") is None
        assert list(view.rows()) == [{"n": 1}, {"n": 2}]


def test_what_its_topic_does_not_keep_a_view_does_not_keep_either(odradek, cluster, tmp_path):
    cluster.create_topic("t", 1, {"cleanup.policy": "compact,delete", "retention.ms": "3600000"})
    producer = Producer({"bootstrap.servers": odradek.bootstrap_servers})
    now_ms = time.time_ns() // 1_000_000
    producer.produce("t", key="old", value="1", timestamp=now_ms - 7_200_000)
    producer.produce("t", key="new", value="1", timestamp=now_ms)
    producer.flush()
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
        assert rows_of(view) == {"new": "1"}
        view._store.apply({b"new": b"1"}, {}, {b"new": now_ms - 7_200_000})
        wait_until(lambda: not rows_of(view))


@pytest.mark.parametrize(("kept_ms", "survives"), [(0, False), (86_400_000, True)])
def test_who_was_away_for_longer_than_deletions_are_kept_begins_again(odradek, cluster, tmp_path, kept_ms, survives):
    cluster.create_topic("t", 1, COMPACTED | {"delete.retention.ms": str(kept_ms)})
    write(odradek, "t", {"a": "1"})
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
        view._store.apply({b"deleted meanwhile": b"1"}, {})
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
        assert (view.get("deleted meanwhile") is not None) == survives
        assert view.get("a") == b"1"


@pytest.mark.parametrize("while_running", [True, False])
def test_a_topic_that_was_created_again_is_another_table(odradek, cluster, tmp_path, while_running):
    cluster.create_topic("t", 1, COMPACTED)
    write(odradek, "t", {"old": "1", "both": "1"})
    view = view_of(odradek, "t", tmp_path)
    view.start()
    view.wait_caught_up()
    if not while_running:
        view.stop()
    cluster.delete_topics(["t"])
    cluster.create_topic("t", 1, COMPACTED)
    # As many records as before: the offsets alone would not tell.
    write(odradek, "t", {"both": "2", "new": "2"})
    if not while_running:
        view.start()
    view.wait_caught_up()
    assert rows_of(view) == {"both": "2", "new": "2"}
    view.stop()


def test_records_that_were_deleted_unseen_take_their_rows_along(odradek, cluster, tmp_path):
    from confluent_kafka import TopicPartition

    cluster.create_topic("t", 1, {"cleanup.policy": "compact,delete"})
    write(odradek, "t", {"a": "1"})
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
    write(odradek, "t", {"a": None, "b": "2"})
    write(odradek, "t", {"c": "3"})
    cluster._admin.delete_records([TopicPartition("t", 0, 3)])[TopicPartition("t", 0)].result()
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
        assert rows_of(view) == {"c": "3"}  # the deletion of a was never seen, so a is not trusted


def test_a_topic_that_grows_is_followed_into_its_new_partitions(odradek, cluster, tmp_path):
    from confluent_kafka.admin import NewPartitions

    cluster.create_topic("t", 1, COMPACTED)
    write(odradek, "t", {"a": "1"})
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
        cluster._admin.create_partitions([NewPartitions("t", 2)])["t"].result()
        view.wait_for(write(odradek, "t", {"b": "2"}, partition=1))
        assert rows_of(view) == {"a": "1", "b": "2"}


def test_a_broker_that_comes_back_is_followed_again(tmp_path):
    data = tmp_path / "broker"
    broker = Embedded(data=data)
    broker.start()
    port = broker.port
    Admin(broker.bootstrap_servers).create_topic("t", 1, COMPACTED)
    write(broker, "t", {"a": "1"})
    with view_of(broker, "t", tmp_path) as view:
        view.wait_caught_up()
        broker.stop()
        assert view.get("a") == b"1"
        with Embedded(data=data, port=port) as again:
            view.wait_for(write(again, "t", {"a": "2"}))
            assert view.get("a") == b"2"


def test_full_disk_is_reported_and_survived(odradek, cluster, tmp_path):
    cluster.create_topic("t", 1, COMPACTED)
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
        view._store._writer.execute("PRAGMA max_page_count=10")
        seen = write(odradek, "t", {str(number): "x" * 1000 for number in range(100)})
        while view.status().problem is None:
            with pytest.raises(NotCaughtUp):
                view.wait_for(seen, timeout_s=0.05)
        with pytest.raises(NotCaughtUp, match="disk is full"):
            view.wait_for(seen, timeout_s=0)
        view._store._writer.execute("PRAGMA max_page_count=100000")
        view.wait_for(seen)
        assert view.count() == 100


def test_records_without_a_key_are_no_rows(odradek, cluster, tmp_path):
    cluster.create_topic("t", 1)
    producer = Producer({"bootstrap.servers": odradek.bootstrap_servers})
    producer.produce("t", value=b"keyless")
    producer.produce("t", key=b"k", value=b"v")
    assert producer.flush(60) == 0
    with view_of(odradek, "t", tmp_path) as view:
        view.wait_caught_up()
        assert list(view.scan()) == [(b"k", b"v")]


def test_a_stopped_view_says_so(odradek, tmp_path):
    with pytest.raises(RuntimeError, match="not running"):
        view_of(odradek, "t", tmp_path).get("a")


def test_fifty_thousand_keys_across_a_restart_read_while_they_load(odradek, cluster, tmp_path):
    cluster.create_topic("many", 4, COMPACTED)
    rows = {f"key-{number:06}": f"value-{number}" for number in range(50_000)}
    write(odradek, "many", rows)
    seen: list[int] = []
    done = threading.Event()

    def read_meanwhile(view):
        while not done.is_set():
            value = view.get("key-049999")
            assert value in (None, b"value-49999")
            seen.append(value is not None)

    with view_of(odradek, "many", tmp_path) as view:
        reader = threading.Thread(target=read_meanwhile, args=[view])
        reader.start()
        view.wait_caught_up()
        done.set()
        reader.join()
        assert rows_of(view) == rows
        assert sorted(seen) == seen, "a row that was there does not vanish"
    write(odradek, "many", {"key-000007": None, "key-000008": "new"})
    with view_of(odradek, "many", tmp_path) as view:
        view.wait_caught_up()
        assert view.count() == 49_999
        assert (view.get("key-000007"), view.get("key-000008")) == (None, b"new")
