"""Reads return whole batches: the right ones, as many as fit, and never above the given end offset."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.log import segment
from odradek.protocol.batch import iter_batches


def offsets_read(log, offset, max_bytes, end_offset, whole_first_batch=True):
    region = log.read(offset, max_bytes, end_offset, whole_first_batch)
    if region is None:
        return []
    data = region.read()
    region.release()
    headers = [header for header, _ in iter_batches(data)]
    assert sum(header.size_bytes for header in headers) == len(data), "only whole batches"
    return [(header.base_offset, header.last_offset) for header in headers]


def test_a_read_inside_a_batch_returns_the_batch(partition):
    partition.append(b"a", b"b", b"c")
    partition.append(b"d")
    for offset in range(3):
        assert offsets_read(partition.log, offset, 10_000, 4) == [(0, 2), (3, 3)]
    assert offsets_read(partition.log, 3, 10_000, 4) == [(3, 3)]
    assert offsets_read(partition.log, 4, 10_000, 4) == []


def test_read_returns_nothing_above_the_end_offset(partition):
    for _ in range(5):
        partition.append(b"a", b"b")
    assert offsets_read(partition.log, 0, 10_000, 6) == [(0, 1), (2, 3), (4, 5)]
    assert offsets_read(partition.log, 0, 10_000, 5) == [(0, 1), (2, 3)]
    assert offsets_read(partition.log, 5, 10_000, 5) == []
    assert offsets_read(partition.log, 4, 10_000, 5) == []


def test_first_batch_may_be_larger_than_max_bytes(partition):
    partition.append(b"v" * 100)
    partition.append(b"v")
    assert offsets_read(partition.log, 0, 1, 2) == [(0, 0)]
    assert offsets_read(partition.log, 0, 1, 2, whole_first_batch=False) == []
    assert offsets_read(partition.log, 0, 0, 2) == [(0, 0)]


def test_out_of_range(partition):
    partition.append(b"a", b"b")
    partition.log.advance_log_start(1)
    for offset in (0, 3):
        with pytest.raises(KafkaError) as refusal:
            partition.log.read(offset, 100, 2, True)
        assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert offsets_read(partition.log, 1, 100, 2) == [(0, 1)]


@pytest.mark.parametrize("reopened", [False, True])
def test_reads_from_every_offset_with_several_sizes(partition, reopened):
    for n in range(30):
        partition.append(*[b"v" * (1 + 7 * n % 50)] * (1 + n % 3))
    assert partition.log.segment_count > 3
    if reopened:
        partition.restart()
    end = partition.log.log_end_offset
    everything = []
    while not everything or everything[-1][1] + 1 < end:
        everything += offsets_read(partition.log, everything[-1][1] + 1 if everything else 0, 1, end)
    sizes = {}
    for first, last in everything:
        region = partition.log.read(first, 1, end, True)
        sizes[first] = region.length
        assert region.length > 61
        assert (first, last) in everything
    for offset in range(end):
        holding = next(n for n, (_, last) in enumerate(everything) if last >= offset)
        for max_bytes in (1, 150, 400, 5000):
            got = offsets_read(partition.log, offset, max_bytes, end)
            assert got == everything[holding : holding + len(got)]
            assert len(got) == 1 or sum(sizes[first] for first, _ in got) <= max_bytes


def test_sequential_reads_need_no_index_search(partition, monkeypatch):
    for _ in range(20):
        partition.append(b"v" * 20)
    offset, searches = 0, []
    search = segment.Segment.find
    monkeypatch.setattr(segment.Segment, "find", lambda self, offset: searches.append(offset) or search(self, offset))
    bases = [found.base_offset for found in partition.log.segments.in_order]
    while offset < 20:
        offset = offsets_read(partition.log, offset, 250, 20)[-1][1] + 1
    assert [searched for searched in searches if searched not in bases] == []
    partition.append(b"next")
    assert offsets_read(partition.log, 20, 250, 21) == [(20, 20)]
    assert searches == [searched for searched in searches if searched in bases]


def test_bookmarks_are_bounded(partition):
    for _ in range(200):
        partition.append(b"v")
    partition.configure(segment_bytes=1 << 20)
    for _ in range(200):
        partition.append(b"v")
    active = partition.log.segments.active
    for offset in range(active.base_offset, 400):
        offsets_read(partition.log, offset, 100, 400)
    assert len(active._bookmarks) == segment.BOOKMARKS_MAX


def test_region_stays_readable_after_its_segment_is_deleted(partition, now):
    partition.append(b"precious")
    region = partition.log.read(0, 1000, 1, True)
    partition.configure(retention_ms=10)
    for deleted in partition.log.retention.delete_expired(now + 1000, 1):
        deleted.rename()
        deleted.remove()
    assert partition.log.log_start_offset == 1
    assert b"precious" in region.read()
    region.release()


def test_corrupt_batch_is_reported_as_an_error_not_as_log_end(partition):
    for _ in range(3):
        partition.append(b"v" * 30)
    log_file = partition.bytes_of(".log")
    second = log_file.size() // 3
    log_file.pwrite(b"\0" * 61, second)
    with pytest.raises(KafkaError) as rotten:
        partition.log.read(1, 1000, 3, True)
    assert rotten.value.code == ErrorCode.CORRUPT_MESSAGE


def test_damaged_first_batch_is_an_error_also_for_a_read_that_returns_one_batch(partition):
    partition.append(b"v" * 30)
    partition.append(b"v" * 30)
    partition.bytes_of(".log").pwrite(b"\0" * 20, 0)
    with pytest.raises(KafkaError) as rotten:
        partition.log.read(0, 1, 2, True)
    assert rotten.value.code == ErrorCode.CORRUPT_MESSAGE
