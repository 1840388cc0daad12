"""Stored batches decoded into Arrow: the same records as from the plain decoder, or an error."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.batch import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Batch,
    encode_batch,
    iter_batches,
    iter_records,
    read_header,
    stamp_append_time,
)
from odradek.protocol.compression import Codec
from odradek.protocol.control_records import ControlType, encode_control_key
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.records import Record
from odradek.protocol.visible import checked, visible
from odradek.spark.planning import OffsetRange
from odradek.spark.raw_batches import DECODE_BYTES, decoded

NOW_MS = 1_700_000_000_000


def wanted(start: int = 0, end: int = 1 << 60) -> OffsetRange:
    return OffsetRange(topic="t", partition=3, start=start, end=end)


def read(*batches: bytes, start: int = 0, end: int = 1 << 60) -> list[dict]:
    found = []
    for rows, _ in decoded(checked(iter_batches(b"".join(batches))), wanted(start, end), include_headers=True):
        if rows is not None:
            rows.validate(full=True)
            found += rows.to_pylist()
    return found


def values(batches: list[Batch]) -> list[bytes | None]:
    return [record.value for batch in batches for record in iter_records(batch.data)]


def told(headers: list[dict] | None) -> tuple | None:
    return None if headers is None else tuple((header["key"], header["value"]) for header in headers)


octets = st.none() | st.binary(max_size=300)
records = st.lists(
    st.builds(
        Record,
        key=octets,
        value=octets,
        headers=st.just(()) | st.lists(st.tuples(st.text(max_size=5), octets), max_size=4).map(tuple),
        timestamp=st.integers(NOW_MS, NOW_MS + (1 << 40)),
    ),
    min_size=1,
    max_size=200,
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(records, st.sampled_from(Codec)), min_size=1, max_size=4))
def test_raw_decoder_returns_the_same_records_as_the_plain_decoder(content):
    batches, offset = [], 7
    for rows, codec in content:
        batches.append(bytes(encode_batch(rows, base_offset=offset, codec=codec)))
        offset += len(rows) + 5  # compaction leaves gaps

    expected = [record for batch in batches for record in iter_records(batch)]
    found = read(*batches)

    assert [(row["key"], row["value"], row["offset"]) for row in found] == [
        (record.key, record.value, record.offset) for record in expected
    ]
    assert [round(row["timestamp"].timestamp() * 1000) for row in found] == [record.timestamp for record in expected]
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in found} == {("t", 3, 0)}
    assert [told(row["headers"]) for row in found] == [record.headers or None for record in expected]


def test_records_outside_the_range_are_left_out():
    batch = encode_batch([Record(value=b"%d" % number, timestamp=1) for number in range(100)], base_offset=50)

    assert [row["offset"] for row in read(batch, start=60, end=63)] == [60, 61, 62]
    assert read(batch, start=150, end=200) == []
    assert read(batch, start=0, end=50) == []
    assert read() == []


def test_long_records_and_distant_offsets_are_decoded():
    rows = [Record(key=b"k" * 20_000, value=bytes(3_000_000), timestamp=1), Record(value=b"small", timestamp=1 << 41)]
    found = read(encode_batch(rows, base_offset=1 << 40))

    assert [(row["key"], row["value"]) for row in found] == [(row.key, row.value) for row in rows]
    assert [row["offset"] for row in found] == [1 << 40, (1 << 40) + 1]


def test_log_append_time_applies_to_all_records_of_its_batch():
    appended = encode_batch([Record(value=b"a", timestamp=5), Record(value=b"b", timestamp=900)])
    stamp_append_time(appended, NOW_MS)
    created = encode_batch([Record(value=b"c", timestamp=7)], base_offset=2)
    assert appended[22] & LOG_APPEND_TIME

    found = read(appended, created)

    assert [round(row["timestamp"].timestamp() * 1000) for row in found] == [NOW_MS, NOW_MS, 7]
    assert [row["timestampType"] for row in found] == [1, 1, 0]


def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
    record = Record(key=encode_control_key(kind), value=b"\0\0\0\0\0\0", timestamp=1)
    return encode_batch([record], base_offset=offset, attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id)


def written(offset: int, producer_id: int, value: bytes) -> bytes:
    attributes = TRANSACTIONAL if producer_id >= 0 else 0
    return encode_batch(
        [Record(value=value, timestamp=1)], base_offset=offset, attributes=attributes, producer_id=producer_id
    )


def test_aborted_transactions_are_left_out():
    log = b"".join(
        (
            written(0, 1, b"1 aborted"),
            written(1, 2, b"2 committed"),
            written(2, -1, b"no transaction"),
            written(3, 1, b"1 aborted, too"),
            marker(4, 1, ControlType.ABORT),
            written(5, 1, b"1 committed later"),
            marker(6, 2, ControlType.COMMIT),
            written(7, 2, b"2 aborted later"),
            marker(8, 1, ControlType.COMMIT),
            marker(9, 2, ControlType.ABORT),
        )
    )

    seen = list(visible(iter_batches(log), [(2, 7), (1, 0)]))
    assert values(seen) == [b"2 committed", b"no transaction", b"1 committed later"]
    assert len(values(list(visible(iter_batches(log), ())))) == 6  # control records are left out in both cases
    # Fetched from the middle of an aborted transaction: the list has its first offset, which is earlier.
    assert values(list(visible(iter_batches(log[len(written(0, 1, b"1 aborted")) :]), [(1, 0), (2, 7)]))) == values(
        seen
    )


def test_a_wrong_checksum_is_refused():
    batch = encode_batch([Record(value=b"value", timestamp=1)])
    batch[-3] ^= 1

    with pytest.raises(MalformedRecords, match="the batch at offset 0 has a wrong checksum"):
        read(batch)


@pytest.mark.parametrize("seed", range(300))
def test_malformed_bytes_never_make_arrow_read_outside_the_data(seed):
    """A checksum does not help if the producer computes it over malformed data."""
    chance = random.Random(seed)
    headers = [("name", b"1"), ("n", None), ("", b"")]
    rows = [
        Record(b"key", bytes(chance.randrange(200)), tuple(headers[: chance.randrange(4)]), 1)
        for _ in range(chance.randrange(1, 20))
    ]
    broken = encode_batch(rows)
    for _ in range(chance.randrange(1, 4)):
        broken[chance.randrange(61, len(broken))] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])

    with suppress(MalformedRecords):
        for found, _ in decoded(iter_batches(broken), wanted(), include_headers=True):
            assert found is None or found.validate(full=True) is None


def one_record(body: bytes) -> Batch:
    """A batch with one record. `body` is everything after the record's length."""
    length = 2 * len(body)
    record = bytes([length & 127 | 128, length >> 7]) + body
    whole = encode_batch([Record(value=b"x" * 100, timestamp=1)])
    header = read_header(whole)._replace(length=len(record) + 49)
    return Batch(header, memoryview(bytes(whole[:61]) + record))


FAR = (b"\x28", b"\xfe\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01")
"""Lengths beyond the end, also so large that a sum with them overflows to a negative number."""


@pytest.mark.parametrize("size", FAR)
@pytest.mark.parametrize("place", ["key", "value"])
def test_a_key_or_value_longer_than_its_record_is_refused(size, place):
    sizes = size + b"\x06" if place == "key" else b"\x01" + size

    with pytest.raises(MalformedRecords, match="shorter than what it holds"):
        list(decoded([one_record(b"\0\0\0" + sizes + b"abc" + b"\0" * 8)], wanted(), include_headers=True))


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        (b"\x01", "records with -1 to -1 headers"),
        (b"\x02", "records with 1 to 1 headers"),
        (b"\x82\x02" + b"\0\0" * 129, "records with 129 to 129 headers"),
        (FAR[2] + b"\0\0", "headers are not decoded here"),
        (b"\x02\x01\0", "a header has no name"),
        *((b"\x02" + size + b"abc", "shorter than its headers") for size in FAR),
        *((b"\x02\x02a" + size + b"abc", "shorter than its headers") for size in FAR),
        (b"\x04\x04ab\x02", "shorter than its headers"),
        (b"\0\0", "does not end with its headers"),
        (b"\x02\x02a\x02b\0", "does not end with its headers"),
    ],
)
def test_headers_that_do_not_fill_their_record_are_refused(headers, why):
    batch = one_record(b"\0\0\0\x01\x01" + headers)

    with pytest.raises(MalformedRecords, match=why):
        list(decoded([batch], wanted(), include_headers=True))
    assert [rows.num_rows for rows, _ in decoded([batch], wanted(), include_headers=False)] == [1]


def test_many_headers_are_decoded():
    rows = [Record(headers=tuple((f"n{i}", b"%d" % i) for i in range(count)), timestamp=1) for count in (128, 0, 3)]

    assert [told(row["headers"]) for row in read(encode_batch(rows))] == [rows[0].headers, None, rows[2].headers]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"n\xffme", "n\ufffdme"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xed\xa0\x80\xed\xbf!", "\ufffd\ufffd!"),
        (b"\xf5\x80", "\ufffd\ufffd"),
    ],
)
def test_header_name_that_is_not_utf8_decodes_as_in_java(name, text):
    """Also when two names each have a part of one character, so that only both together are valid UTF-8."""
    header = bytes([2 * len(name)]) + name + b"\x01"
    batch = one_record(b"\0\0\0\x01\x01\x06" + b"\x02\xc3\x01\x02\xa9\x01" + header)

    ((rows, _),) = decoded([batch], wanted(), include_headers=True)
    rows.validate(full=True)
    assert [header["key"] for header in rows["headers"].to_pylist()[0]] == ["\ufffd", "\ufffd", text]


def test_wrong_record_count_in_the_header_is_refused():
    batch = encode_batch([Record(value=b"v", timestamp=1)] * 3)
    batch[60] = 2

    with pytest.raises(MalformedRecords, match="announce 2 records, but there are 3"):
        list(decoded(iter_batches(batch), wanted(), include_headers=True))


def test_record_that_reaches_into_the_next_batch_is_refused():
    first, second = (encode_batch([Record(value=b"v", timestamp=1)] * 2, base_offset=offset) for offset in (0, 2))
    first[60], second[60] = 1, 3  # the total is correct

    with pytest.raises(MalformedRecords, match="does not end with its batch"):
        list(decoded(iter_batches(first + second), wanted(), include_headers=True))


def test_offsets_that_do_not_rise_are_refused():
    """The decoder searches the offsets for the bounds of the range. It would repeat some records and miss others."""
    later, earlier = (encode_batch([Record(value=b"v", timestamp=1)] * 5, base_offset=offset) for offset in (10, 3))

    with pytest.raises(MalformedRecords, match="do not rise"):
        list(decoded(iter_batches(later + earlier), wanted(), include_headers=True))


def test_a_length_that_does_not_end_is_refused_at_once():
    """Reading such a length of two megabytes to its end would take minutes."""
    whole = encode_batch([Record(value=b"v", timestamp=1)])
    batch = Batch(read_header(whole), memoryview(bytes(whole[:61]) + b"\xff" * 2_000_000))

    with pytest.raises(MalformedRecords, match="a length does not end"):
        list(decoded([batch], wanted(), include_headers=True))


def test_decompressed_batches_have_bounded_size():
    each = DECODE_BYTES // 2
    batches = [
        encode_batch([Record(value=bytes(each), timestamp=1)], base_offset=n, codec=Codec.ZSTD) for n in range(9)
    ]
    assert sum(map(len, batches)) < each

    found = list(decoded(iter_batches(b"".join(batches)), wanted(), include_headers=True))

    assert [offset for rows, _ in found for offset in rows["offset"].to_pylist()] == list(range(9))
    assert [position for _, position in found] == [2, 4, 6, 8, 9]
    assert max(rows.nbytes for rows, _ in found) < 2 * DECODE_BYTES
