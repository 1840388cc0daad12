"""Search by timestamp: the first record that is not older, inside its batch; and the latest record."""

from __future__ import annotations

import struct

import pytest

from odradek.protocol.batch import checksum
from odradek.protocol.compression import Codec


def by_time(partition, timestamp, end=None):
    end = partition.log.log_end_offset if end is None else end
    found = partition.log.offset_for_timestamp(timestamp, end)
    return None if found is None else (found.offset, found.timestamp)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_time_search_finds_the_record_inside_the_batch(partition, now, codec):
    partition.append(b"a", b"b", b"c", timestamps=[now, now + 10, now + 20], codec=codec)
    assert by_time(partition, now - 5) == (0, now)
    assert by_time(partition, now + 1) == (1, now + 10)
    assert by_time(partition, now + 20) == (2, now + 20)
    assert by_time(partition, now + 21) is None


def test_time_search_in_an_empty_log_finds_nothing(partition, now):
    assert by_time(partition, now) is None
    assert partition.log.max_timestamp_offset() is None


def test_timestamps_need_not_be_in_order(partition, now):
    times = [now + shift for shift in (50, 10, 70, 20, 70, 60, 5)]
    for time in times:
        partition.append(b"v" * 150, timestamps=[time])
    assert partition.log.segment_count > 1
    for wanted in range(now, now + 80, 5):
        first = next((n for n, time in enumerate(times) if time >= wanted), None)
        assert by_time(partition, wanted) == (None if first is None else (first, times[first]))
    assert partition.log.max_timestamp_offset() == (now + 70, 2, 0)


def test_time_search_stays_between_log_start_and_end_offset(partition, now):
    for n in range(20):
        partition.append(b"a" * 40, b"b", timestamps=[now + 2 * n, now + 2 * n + 1])
    partition.log.advance_log_start(7)
    assert by_time(partition, now) == (7, now + 7)
    assert by_time(partition, now + 30, end=30) is None
    assert by_time(partition, now + 30, end=31) == (30, now + 30)
    partition.log.advance_log_start(40)
    assert by_time(partition, now) is None


def test_time_search_returns_the_leader_epoch(partition, now):
    partition.append(b"a", leader_epoch=2)
    partition.append(b"b", leader_epoch=6, timestamps=[now + 1])
    assert partition.log.offset_for_timestamp(now + 1, 2) == (now + 1, 1, 6)
    assert partition.log.max_timestamp_offset() == (now + 1, 1, 6)


def test_time_search_continues_past_unreadable_records(partition, make_batch, now):
    broken = make_batch(b"abc", timestamps=[now + 5])
    broken[61] = 0xFF
    struct.pack_into(">I", broken, 17, checksum(broken))
    partition.append(b"a")
    partition.log.appending.as_leader(broken, 0, now)
    partition.append(b"b", timestamps=[now + 9])
    assert by_time(partition, now + 2) == (1, now + 5)
    assert by_time(partition, now + 6) == (2, now + 9)


@pytest.mark.parametrize("stop", ["restart", "crash"])
def test_time_search_works_after_a_restart(partition, now, stop):
    times = [now + (37 * n) % 100 for n in range(30)]
    for time in times:
        partition.append(b"v" * 30, timestamps=[time])
    getattr(partition, stop)()
    for wanted in range(now, now + 101, 3):
        first = next((n for n, time in enumerate(times) if time >= wanted), None)
        assert by_time(partition, wanted) == (None if first is None else (first, times[first]))
    latest = times.index(max(times))
    assert partition.log.max_timestamp_offset() == (times[latest], latest, 0)


def test_time_search_ignores_records_without_timestamp(partition):
    partition.append(b"v", timestamps=[-1])
    assert by_time(partition, 0) is None
    assert partition.log.max_timestamp_offset() is None
    partition.restart()
    assert by_time(partition, 0) is None
