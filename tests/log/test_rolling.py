"""When a segment is rolled: by size, by record age, by full indexes, by the range of relative offsets."""

from __future__ import annotations

from odradek.protocol.batch import HEADER


def bases(partition):
    return [int(name[:20]) for name in partition.names(".log")]


def test_by_size(partition):
    for _ in range(3):
        partition.append(b"v" * 400)
    assert bases(partition) == [0, 2]
    partition.append(b"v" * 400)
    assert bases(partition) == [0, 2]


def test_roll_by_record_timestamps_not_by_the_clock(make_partition, now):
    partition = make_partition(segment_ms=1000)
    partition.append(b"a", timestamps=[now - 5000])
    partition.wall_ms = now + 3_000_000
    partition.append(b"b", timestamps=[now - 4000])
    assert bases(partition) == [0]
    partition.append(b"c", timestamps=[now - 3999])
    assert bases(partition) == [0, 2]
    partition.append(b"d", timestamps=[now - 5000])
    assert bases(partition) == [0, 2]


def test_roll_by_the_clock_when_records_have_no_timestamp(make_partition, now):
    partition = make_partition(segment_ms=1000)
    partition.append(b"a", timestamps=[-1])
    partition.wall_ms = now + 1000
    partition.append(b"b", timestamps=[-1])
    assert bases(partition) == [0]
    partition.wall_ms = now + 1001
    partition.append(b"c", timestamps=[-1])
    assert bases(partition) == [0, 2]


def test_roll_by_age_works_after_a_restart(make_partition, now):
    partition = make_partition(segment_ms=1000)
    partition.append(b"a")
    partition.restart()
    partition.append(b"b", timestamps=[now + 1000])
    partition.append(b"c", timestamps=[now + 1001])
    assert bases(partition) == [0, 2]


def test_jitter_makes_the_roll_earlier(make_partition, now):
    partition = make_partition(segment_ms=1000, segment_jitter_ms=1000)
    jitter = partition.log.rolling.jitter_ms
    assert 0 < jitter < 1000
    partition.append(b"a")
    partition.append(b"b", timestamps=[now + 1000 - jitter])
    assert bases(partition) == [0]
    partition.append(b"c", timestamps=[now + 1001 - jitter])
    assert bases(partition) == [0, 2]


def test_roll_when_indexes_are_full(make_partition):
    partition = make_partition(segment_bytes=1 << 20, index_interval_bytes=0, segment_index_bytes=24)
    for _ in range(5):
        partition.append(b"v")
    # The first batch of a segment has no entry. Three offset entries fit, but only one time entry before the last.
    assert len(bases(partition)) > 1
    assert all(partition.bytes_of(".index", base).size() <= 24 for base in bases(partition)[:-1])
    assert all(partition.bytes_of(".timeindex", base).size() <= 24 for base in bases(partition)[:-1])
    assert len(partition.records()) == 5


def test_roll_when_relative_offsets_exceed_32_bits(make_partition, make_batch, now):
    partition = make_partition(segment_bytes=1 << 20)
    partition.append(b"a")
    far = bytearray(make_batch(b"b"))
    header = list(HEADER.unpack_from(far))
    header[0], header[2] = 2**31, 0
    HEADER.pack_into(far, 0, *header)
    partition.log.appending.as_follower(memoryview(far), now)
    assert bases(partition) == [0, 1]
    assert partition.log.log_end_offset == 2**31 + 1
    assert [offset for offset, _, _ in partition.records()] == [0, 2**31]


def test_config_change_takes_effect_at_the_next_append(partition):
    partition.append(b"v" * 100)
    partition.configure(segment_bytes=300)
    partition.append(b"v" * 100)
    assert bases(partition) == [0, 1]
    partition.configure(segment_bytes=10_000, preallocate=True)
    for _ in range(10):
        partition.append(b"v" * 100)
    assert bases(partition) == [0, 1]


def test_preallocated_segments_are_trimmed_to_their_data(make_partition):
    partition = make_partition(preallocate=True)
    assert partition.bytes_of(".log").size() == 1000
    for _ in range(3):
        partition.append(b"v" * 300)
    assert partition.bytes_of(".log").size() < 1000
    assert partition.bytes_of(".log", 2).size() == 1000
    assert len(partition.values()) == 3
    partition.crash()
    assert len(partition.values()) == 3
    partition.append(b"w")
    partition.restart()
    assert partition.values() == [b"v" * 300] * 3 + [b"w"]


def test_each_roll_writes_a_producer_snapshot(partition):
    for n in range(5):
        partition.append(b"v" * 400, producer_id=1, producer_epoch=0, base_sequence=n)
    assert partition.names(".snapshot") == [f"{base:020d}.snapshot" for base in bases(partition)[1:]]
