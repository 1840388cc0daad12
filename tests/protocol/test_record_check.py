"""Records are checked without decoding. The result matches `decode_records`, which decodes them."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base import limits
from odradek.base.limits import MIB
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.record_check import check_records
from odradek.protocol.records import Record, decode_records, encode_records, put_varint

BASE = 1_000_000
sized = st.none() | st.binary(max_size=200)
records = st.lists(
    st.builds(
        Record,
        key=sized,
        value=sized,
        headers=st.lists(st.tuples(st.text(max_size=5), sized), max_size=3).map(tuple),
        timestamp=st.integers(0, 2**40),
    ),
    min_size=1,
    max_size=70,
)


@given(records)
def test_valid_records_are_accepted_and_their_latest_timestamp_is_found(written):
    data = bytes(encode_records(written, BASE))
    assert BASE + check_records(data, len(written)).latest_delta == max(record.timestamp for record in written)


@given(records, st.data())
def test_accepted_records_can_be_decoded(written, data):
    damaged = bytearray(encode_records(written, BASE))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    count = data.draw(st.integers(0, len(written) + 1))
    try:
        latest, keyless = check_records(damaged, count)
    except MalformedRecords:
        return
    try:
        decoded = list(decode_records(damaged, count, 0, count - 1, 0, None))
    except MalformedRecords as broken:
        if "UTF-8" in str(broken):  # a broker does not decode header names, like Kafka's
            return
        raise
    assert max(record.timestamp for record in decoded) == latest
    assert keyless == [index for index, record in enumerate(decoded) if record.key is None][: limits.record_errors_max]


def with_headers(count: int, delta: bytes = b"\0") -> bytes:
    body = bytearray(b"\0" + delta + b"\0\1\1")
    put_varint(body, count)
    body += b"\0\1" * count
    data = bytearray()
    put_varint(data, len(body))
    return bytes(data + body)


def test_record_headers_are_limited_and_checked_without_creating_objects():
    most = limits.checked_batch_headers_max
    tracemalloc.start()
    try:
        check_records(with_headers(most), 1)
        assert tracemalloc.get_traced_memory()[1] < 20 * MIB
    finally:
        tracemalloc.stop()
    with pytest.raises(MalformedRecords, match="more than"):
        check_records(with_headers(most + 1), 1)


def test_varlong_is_truncated_to_64_bits_as_in_java():
    assert check_records(with_headers(0, b"\xff" * 9 + b"\x7f"), 1).latest_delta == -(2**63)


def numbered(*places: int) -> bytes:
    output = bytearray()
    for place in places:
        output += bytes([12, 0, 0, place * 2, 1, 1, 0])
    return bytes(output)


def test_offset_deltas_must_be_consecutive():
    check_records(numbered(0, 1, 2), 3)
    for places in ((1,), (0, 0), (0, 2), (1, 0)):
        with pytest.raises(MalformedRecords, match="has offset delta"):
            check_records(numbered(*places), len(places))


@pytest.mark.parametrize("count", [-1, 0, 2])
def test_wrong_record_count_is_refused(count):
    with pytest.raises(MalformedRecords):
        check_records(numbered(0), count)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bytes([14, 0, 0, 0, 1, 1, 0, 0]), "does not match its content"),
        (bytes([12, 0, 0, 0, 1, 2, 0]), "exceeds its record"),
        (bytes([12, 0, 0, 0, 3, 1, 0]), "invalid length -2"),
        (bytes([14, 0, 0, 0, 1, 1, 0]), "does not fit"),
        (bytes([13, 0, 0, 0, 1, 1, 0]), "exceeds its record"),
        (bytes([12, 0, 0, 0, 1, 1, 2]), "headers"),
        (bytes([12, 0, 0, 0, 1, 1, 0, 0]), "follow the last"),
        (bytes([0x80] * 7), "too long|incomplete"),
    ],
)
def test_malformed_record_is_refused_with_the_reason(data, why):
    with pytest.raises(MalformedRecords, match=why):
        check_records(data, 1)
