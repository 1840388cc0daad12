"""The store: rows and positions in one transaction, order, prefixes, one writer."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.streams.run.views.store import Store, StoreBusy, _successor


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "view.db"


@pytest.fixture
def store(path):
    opened = Store(path)
    yield opened
    opened.close()


def test_the_newest_value_wins_and_none_deletes(store):
    store.apply({b"a": b"1", b"b": b"2"}, {0: 2})
    store.apply({b"a": b"3", b"b": None, b"never there": None}, {0: 5, 1: 7})
    assert (store.get(b"a"), store.get(b"b"), store.get(b"c")) == (b"3", None, None)
    assert store.positions() == {0: 5, 1: 7}
    assert store.count() == 1


def test_what_is_too_old_goes_and_what_is_written_again_stays(store):
    store.apply({b"old": b"1", b"gone": b"1", b"new": b"1"}, {0: 3}, {b"old": 10, b"gone": 10, b"new": 10})
    store.apply({b"new": b"2", b"gone": None, b"ageless": b"1"}, {0: 6}, {b"new": 20, b"gone": 20})
    assert store.forget_before(20) == 1
    assert dict(store.scan()) == {b"new": b"2", b"ageless": b"1"}
    assert store.forget_before(20) == 0
    assert store.positions() == {0: 6}


def test_keys_are_bytes_of_any_kind_and_values_may_be_large_or_empty(store):
    rows = {b"": b"empty key", b"\x00": b"", b"\xff\xff": b"x" * 3_000_000, "drivers/Ö".encode(): b"\x00\xff"}
    store.apply(rows, {0: 4})
    assert dict(store.scan()) == rows
    assert {key: store.get(key) for key in rows} == rows


def test_a_scan_is_ordered_and_goes_on_after_a_key(store):
    keys = [f"{number:05}".encode() for number in range(2500)]
    store.apply(dict.fromkeys(reversed(keys), b""), {0: 2500})
    assert [key for key, _ in store.scan()] == keys
    assert [key for key, _ in store.scan(b"012")] == keys[1200:1300]
    assert [key for key, _ in store.scan(b"012", after=b"01250")] == keys[1251:1300]
    assert [key for key, _ in store.scan(b"012", after=b"0")] == keys[1200:1300]
    assert list(store.scan(b"9")) == []


def test_a_scan_holds_few_large_rows_at_a_time(store, monkeypatch):
    rows = {b"%d" % number: bytes(1000) for number in range(9)}
    store.apply(rows, {0: 9})
    monkeypatch.setattr("odradek.streams.run.views.store.PAGE_BYTES", 2500)
    scan = store.scan()
    first = next(scan)
    store.apply({b"2": b"seen", b"3": b"not held yet"}, {0: 11})
    assert [first, *scan] == list((rows | {b"3": b"not held yet"}).items())


@given(prefix=st.binary(max_size=4), key=st.binary(max_size=6))
def test_a_prefix_is_a_range(prefix, key):
    below = _successor(prefix)
    assert key.startswith(prefix) == (prefix <= key and (below is None or key < below))


def test_rows_and_positions_outlive_the_process_that_was_killed(path):
    program = (
        "import os, sys; from pathlib import Path; from odradek.streams.run.views.store import Store\n"
        "store = Store(Path(sys.argv[1])); store.begin_again('t', 'id')\n"
        "for n in range(100): store.apply({b'%d' % n: b'v'}, {0: n + 1})\n"
        "store._writer.execute('INSERT INTO rows VALUES (?, ?)', (b'half', b'done'))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    store = Store(path)
    assert (store.count(), store.positions(), store.source()) == (100, {0: 100}, ("t", "id"))
    assert store.get(b"half") is None
    store.close()


def test_a_store_has_one_writer(path, store):
    with pytest.raises(StoreBusy, match="a store has one follower"):
        Store(path)


def test_beginning_again_forgets_everything(store):
    store.apply({b"a": b"1"}, {0: 1})
    store.begin_again("topic", "new id")
    assert (store.count(), store.positions(), store.source()) == (0, {}, ("topic", "new id"))


@pytest.mark.parametrize("damage", ["not a database", "another layout"])
def test_a_file_that_cannot_be_used_is_built_again(path, damage):
    path.parent.mkdir()
    if damage == "not a database":
        path.write_bytes(b"garbage" * 1000)
    else:
        connection = sqlite3.connect(path)
        connection.executescript("CREATE TABLE rows (something); PRAGMA user_version=99;")
        connection.close()
    store = Store(path)
    store.apply({b"a": b"1"}, {0: 1})
    assert store.get(b"a") == b"1"
    store.close()
