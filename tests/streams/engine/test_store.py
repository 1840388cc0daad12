"""The state of a shard when its disk is full: the micro-batch fails, and runs again from the state before it."""

from __future__ import annotations

import sqlite3
import sys

import pytest

from odradek.streams.engine.store import ONE_RUN, Run, ShardStore, read_figures


def test_a_micro_batch_that_fills_the_disk_leaves_the_state_as_it_was(tmp_path):
    store = ShardStore(tmp_path / "shard-0.db")
    store.begin(0)
    store.cells(1).put(b"key", "before")
    store.commit()
    pages = store._sql.execute("pragma page_count").fetchone()[0]
    store._sql.execute(f"pragma max_page_count={pages + 1}")  # SQLite's own limit fails as a full disk does

    store.begin(1)
    store.cells(1).put(b"key", "x" * 100_000)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.commit()
    store.roll_back()

    store._sql.execute("pragma max_page_count=1000000")
    store.begin(1)
    assert store.cells(1).get(b"key") == "before"
    store.cells(1).put(b"key", "after")
    store.commit()
    store.begin(2)
    assert store.cells(1).get(b"key") == "after"


def put(store, batch, value, run=ONE_RUN):
    store.begin(batch, run)
    store.cells(1).put(b"key", value)
    store.timers(1).set(batch, value.encode())
    store.commit()


def kept(store, batch, run=ONE_RUN):
    store.begin(batch, run)
    found = store.cells(1).get(b"key"), store.timers(1).pop(100)
    store.roll_back()
    return found


def test_what_a_worker_remembers_of_an_attempt_is_not_what_another_committed(tmp_path):
    one, other = (ShardStore(tmp_path / "shard-0.db") for _ in range(2))
    put(one, 0, "first attempt")
    put(other, 0, "second attempt")
    assert kept(one, 1) == ("second attempt", (0, b"second attempt"))


def test_an_attempt_of_a_run_that_ended_before_spark_committed_it_is_forgotten(tmp_path):
    path = tmp_path / "shard-0.db"
    first = ShardStore(path)
    put(first, 0, "committed", Run("first", -1))
    put(first, 1, "interrupted", Run("first", -1))
    # the second run does micro-batch 1 again, in which this shard has no rows
    assert kept(first, 2, Run("second", 0)) == ("committed", (0, b"committed"))
    assert kept(ShardStore(path), 2, Run("second", 0)) == ("committed", (0, b"committed"))


def test_what_spark_committed_holds_in_the_next_run(tmp_path):
    store = ShardStore(tmp_path / "shard-0.db")
    put(store, 0, "committed", Run("first", -1))
    assert kept(store, 1, Run("second", 0)) == ("committed", (0, b"committed"))
    put(store, 1, "more", Run("second", 0))
    assert kept(store, 5, Run("second", 0))[0] == "more", "of this run, whose micro-batches follow each other"


def test_what_a_worker_remembers_outlives_micro_batches_without_rows(tmp_path):
    store = ShardStore(tmp_path / "shard-0.db")
    put(store, 0, "some")
    store.begin(7)
    store._sql.execute("delete from state")
    assert store.cells(1).get(b"key") == "some"


def test_figures_are_read_from_any_path(tmp_path):
    path = tmp_path / "a b#c?d%41" / "shard-0.db"
    store = ShardStore(path)
    store.begin(0)
    store.commit({"late": 3})
    assert read_figures(path)["late"] == 3


def test_timers_of_a_key_are_those_stored_and_changed(tmp_path):
    store = ShardStore(tmp_path / "shard-0.db")
    store.begin(0)
    for due in (1, 2, 3):
        store.timers(1).set(due, b"key")
    store.timers(1).set(9, b"other")
    store.commit()
    store.begin(1)
    timers = store.timers(1)
    timers.cancel(2, b"key")
    timers.set(5, b"key")
    assert timers.of(b"key") == [1, 3, 5]
    timers.set(4, b"key")
    timers.cancel(5, b"key")
    assert timers.pop(1) == (1, b"key")
    assert timers.of(b"key") == [3, 4]
    assert timers.of(b"other") == [9]


def test_resetting_the_timer_of_a_key_takes_as_long_after_many_rows_as_after_few(tmp_path):
    store = ShardStore(tmp_path / "shard-0.db")
    store.begin(0)
    timers = store.timers(1)

    def lines_run(begin):
        """How many lines of Python a hundred rows take: the same on each machine."""
        count = 0

        def trace(_frame, _event, _argument):
            nonlocal count
            count += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            for n in range(begin, begin + 100):
                for due in timers.of(b"key"):
                    timers.cancel(due, b"key")
                timers.set(n, b"key")
        finally:
            sys.settrace(before)
        return count

    lines_run(0)
    few = lines_run(100)
    for n in range(200, 3000):
        timers.set(n, b"other %d" % n)
        timers.set(n, b"key")
        timers.cancel(n, b"key")
    assert lines_run(3000) < 2 * few
