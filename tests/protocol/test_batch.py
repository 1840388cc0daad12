"""Record batches compared with those of kafka-python, and invalid batches."""

from __future__ import annotations

import contextlib
import random
import tracemalloc

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from odradek.base import limits
from odradek.protocol import batch as batches
from odradek.protocol.batch import (
    HEADER_BYTES,
    Record,
    encode_batch,
    has_valid_checksum,
    iter_batches,
    iter_records,
    read_header,
    stamp_append_time,
)
from odradek.protocol.compression import Codec, compress, decompress
from odradek.protocol.malformed import DecompressedTooLarge, MalformedRecords

records = st.lists(
    st.builds(
        Record,
        key=st.none() | st.binary(max_size=200),
        value=st.none() | st.binary(max_size=200),
        headers=st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
        timestamp=st.integers(0, 1 << 60),
    ),
    min_size=1,
    max_size=20,
)


def numbered(found: list[Record], base_offset: int) -> list[Record]:
    return [record._replace(offset=base_offset + index) for index, record in enumerate(found)]


@given(records, st.sampled_from(Codec), st.integers(0, 1 << 60))
def test_records_survive_a_round_trip_with_every_codec(content: list[Record], codec: Codec, base_offset: int) -> None:
    batch = encode_batch(content, base_offset=base_offset, codec=codec)
    assert has_valid_checksum(batch)
    assert list(iter_records(batch)) == numbered(content, base_offset)
    header = read_header(batch)
    assert (header.size_bytes, header.codec, header.records_count) == (len(batch), codec, len(content))
    assert header.last_offset == base_offset + len(content) - 1
    assert header.max_timestamp == max(record.timestamp for record in content)


@pytest.mark.parametrize("codec", Codec)
def test_kafka_python_reads_our_batches(codec: Codec) -> None:
    pick = random.Random(codec)
    content = [Record(key=b"key", value=pick.randbytes(pick.randrange(900)), timestamp=5) for _ in range(300)]
    batch = encode_batch(content, codec=codec, producer_id=9, producer_epoch=1, base_sequence=4)
    theirs = DefaultRecordBatch(bytes(batch))
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (9, 1, 4)
    assert [(record.offset, record.value) for record in theirs] == [
        (index, record.value) for index, record in enumerate(content)
    ]


@pytest.mark.parametrize("codec", Codec)
def test_batches_of_kafka_python_are_decoded(codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for index in range(100):
        builder.append(index, 1000 + index, b"key", b"value" * index, [("h", b"x")])
    batch = bytes(builder.build())
    assert has_valid_checksum(batch)
    assert list(iter_records(batch)) == [
        Record(b"key", b"value" * index, (("h", b"x"),), 1000 + index, index) for index in range(100)
    ]


def test_iter_batches_ignores_an_incomplete_last_batch() -> None:
    first, second = encode_batch([Record(value=b"a")]), encode_batch([Record(value=b"b")] * 2, base_offset=1)
    found = list(iter_batches(first + second + second[:-1]))
    assert [batch.header.base_offset for batch in found] == [0, 1]
    assert [batch.header.next_offset for batch in found] == [1, 3]
    assert found[1].data == second


def test_append_time_replaces_client_timestamps_and_updates_the_checksum() -> None:
    batch = encode_batch([Record(value=b"a", timestamp=1), Record(value=b"b", timestamp=2)])
    stamp_append_time(batch, 77)
    assert has_valid_checksum(batch)
    assert [record.timestamp for record in iter_records(batch)] == [77, 77]
    assert DefaultRecordBatch(bytes(batch)).validate_crc()


def test_checksum_does_not_cover_offset_and_leader_epoch() -> None:
    batch = encode_batch([Record(value=b"a")])
    batches.OFFSET_LENGTH_EPOCH.pack_into(batch, 0, 1234, len(batch) - batches.LOG_OVERHEAD, 5)
    assert has_valid_checksum(batch)
    assert (read_header(batch).base_offset, read_header(batch).leader_epoch) == (1234, 5)


def test_a_changed_byte_fails_the_checksum() -> None:
    batch = encode_batch([Record(value=b"a")])
    for position in range(batches.CRC_POSITION, len(batch)):
        broken = bytearray(batch)
        broken[position] ^= 1
        assert not has_valid_checksum(broken)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_decompression_stops_at_the_limit(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = compress(codec, bytes(8 << 20))
    assert len(decompress(codec, bomb)) == 8 << 20
    monkeypatch.setattr(limits, "decompressed_batch_bytes_max", 1 << 20)
    tracemalloc.start()
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, bomb)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 3 << 20


def test_raw_snappy_is_decoded_and_its_claimed_size_is_checked() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"abc" * 100))) == b"abc" * 100
    with pytest.raises(MalformedRecords, match="cannot decompress to"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\x2f" + b"abc")
    with pytest.raises(MalformedRecords, match="incomplete"):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"abc")[:-1])


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 5, 7])
def test_corrupt_data_is_refused(codec: int) -> None:
    pick = random.Random(codec)
    good = compress(Codec(codec), b"abcdefgh" * 500) if codec < 5 else b""
    for _ in range(200):
        broken = bytearray(good or b"noise")
        for _ in range(3):
            broken[pick.randrange(len(broken))] = pick.randrange(256)
        broken = broken[: pick.randrange(len(broken) + 1)]
        with contextlib.suppress(MalformedRecords):
            decompress(codec, broken)


def batch_around(body: bytes, count: int = 1) -> bytearray:
    batch = encode_batch([Record()])
    del batch[HEADER_BYTES:]
    batch += body
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    return batch


@pytest.mark.parametrize(
    ("body", "count", "why"),
    [
        ("", 1, "cannot hold 1 records"),
        ("", -1, "cannot hold -1 records"),
        ("", (1 << 31) - 1, "cannot hold"),
        ("0c000000010100 00000000000000", 2, "exceeds its record"),  # one record, the count says two
        ("0c000000010100 ff", 1, "1 bytes follow"),
        ("0e000000010100", 1, "does not fit its batch"),
        ("0a000000010100", 1, "does not match its content"),
        ("01000000010100", 1, "does not match its content"),  # negative length
        ("0c000000030100", 1, "invalid length -2"),
        ("0c000000060100", 1, "exceeds its record"),
        ("0c000000010104", 1, "cannot hold 2 headers"),
        ("0c000000010103", 1, "cannot hold -2 headers"),
        ("10000000010102 0100", 1, "no name"),
        ("12000000010102 02ff00", 1, "not UTF-8"),
        ("0c000002010100", 1, "offset delta 1"),
        ("8c8080808000 000000010100", 1, "varint is too long"),
        ("ff" * 30, 1, "varint is too long"),
        ("2000 80808080808080808080 00 00010100", 1, "varint is too long"),
        ("0c000000808080", 1, "incomplete"),
    ],
)
def test_malformed_records_are_refused(body: str, count: int, why: str) -> None:
    with pytest.raises(MalformedRecords, match=why):
        list(iter_records(batch_around(bytes.fromhex(body), count)))


def test_smallest_possible_record_is_decoded() -> None:
    assert list(iter_records(batch_around(bytes.fromhex("0c000000010100")))) == [Record(None, None, (), -1, 0)]


def test_records_are_read_from_exactly_one_batch() -> None:
    batch = encode_batch([Record(value=b"a")])
    for broken in (batch + b"x", batch[:-1]):
        with pytest.raises(MalformedRecords, match=f"the batch header says {len(batch)} bytes"):
            list(iter_records(broken))


@given(st.binary(max_size=100), st.integers(-3, 40), st.integers(0, 7))
def test_random_bytes_inside_a_batch_raise_only_malformed_records(noise: bytes, count: int, codec: int) -> None:
    batch = batch_around(noise, count)
    batch[22] = codec
    with contextlib.suppress(MalformedRecords):
        list(iter_records(batch))


@given(st.binary(max_size=150))
def test_random_bytes_instead_of_batches_raise_only_malformed_records(noise: bytes) -> None:
    with contextlib.suppress(MalformedRecords):
        list(iter_batches(noise))


def test_other_formats_and_impossible_lengths_are_refused() -> None:
    batch = encode_batch([Record(value=b"a")])
    old = bytearray(batch)
    old[16] = 1
    short = bytearray(batch)
    short[8:12] = (48).to_bytes(4, "big")
    for broken in (old, short, batch[:60], b""):
        with pytest.raises(MalformedRecords):
            read_header(broken)
