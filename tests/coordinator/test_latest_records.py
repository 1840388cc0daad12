"""The fast search for what must be replayed finds the same as decoding every record of every batch, in order."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator import latest_records
from odradek.coordinator.latest_records import LatestRecords, StoredMarker, StoredRecord
from odradek.protocol.batch import (
    CONTROL,
    HEADER_BYTES,
    TRANSACTIONAL,
    encode_batch,
    iter_batches,
    iter_records,
    unpacked,
)
from odradek.protocol.compression import Codec
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.record_spans import record_spans
from odradek.protocol.records import Record

sizes = st.sampled_from([0, 1, 20, 62, 63, 64, 100, 8190, 8191, 8192, 9000])
keys = st.one_of(
    st.none(), st.sampled_from([b"", b"a", b"b", b"\0\0\0\0", b"\0\0\0\1", b"k" * 63, b"k" * 64, b"k" * 9000])
)
values = st.one_of(st.none(), sizes.map(bytes))
records = st.builds(
    Record, keys, values, timestamp=st.integers(1000, 1300), headers=st.sampled_from([(), (("name", b"value"),)])
)
batches = st.builds(
    encode_batch,
    st.lists(records, min_size=1, max_size=3),
    codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.ZSTD]),
    producer_id=st.sampled_from([-1, 7]),
    attributes=st.sampled_from([0, 0, 0, TRANSACTIONAL, TRANSACTIONAL | CONTROL]),
)


def log_of(batches) -> bytes:
    end, log = 0, bytearray()
    for batch in batches:
        batch[0:8] = end.to_bytes(8, "big")
        end += next(iter_batches(batch)).header.records_count
        log += batch
    return bytes(log)


def the_long_way(log: bytes) -> list[StoredRecord | StoredMarker]:
    """Plain records that are the last of their key or tombstones; everything of transactions."""
    latest, others = {}, []
    for header, data in iter_batches(log):
        producer_id = header.producer_id if header.is_transactional else -1
        try:
            list(record_spans(unpacked(header, data), header.records_count))
        except MalformedRecords:
            continue
        records = list(iter_records(data))
        for record in records:
            if header.is_control:
                kind = (record.key or b"")[2:4]
                if kind in (b"\0\0", b"\0\1"):
                    others.append(StoredMarker(header.producer_id, kind == b"\0\1", record.offset))
                elif len(kind) < 2:
                    break
            elif header.is_transactional:
                others.append(StoredRecord(record, producer_id))
            elif record.value is None:
                latest.pop(record.key, None)
                others.append(StoredRecord(record, producer_id))
            else:
                latest[record.key] = StoredRecord(record, producer_id)
    return sorted([*latest.values(), *others], key=offset_of)


def offset_of(stored: StoredRecord | StoredMarker) -> int:
    return stored.offset if isinstance(stored, StoredMarker) else stored.record.offset


def the_short_way(log: bytes, at_once: int = 2) -> list[StoredRecord | StoredMarker]:
    found = LatestRecords(log)
    while found.look(at_once):
        pass
    assert found.ends == [header.next_offset for header, _ in iter_batches(log)]
    return list(found)


@given(st.lists(batches, max_size=6), st.integers(1, 5))
def test_finds_the_same_records_as_full_decoding(batches, at_once):
    log = log_of(batches)
    assert the_short_way(log, at_once) == the_long_way(log)


BYTES = [*range(5), *range(60, 70), *range(124, 132), 254, 255]


@pytest.mark.parametrize(
    "value", [None, b"", b"v", b"v" * 62, b"v" * 200, b"v" * 8300], ids=lambda v: str(len(v or ""))
)
@pytest.mark.parametrize("key", [b"", b"k", b"k" * 64], ids=len)
def test_a_damaged_record_is_read_or_skipped_as_by_full_decoding(key, value):
    before = encode_batch([Record(key, b"before")])
    whole = encode_batch([Record(key, value)])
    start, value_length = HEADER_BYTES, len(whole) - len(value or b"") - 3
    places = {*range(start, min(start + 9, len(whole))), *range(value_length, value_length + 3), len(whole) - 1}
    for place, byte in product(sorted(places), BYTES):
        tampered = whole.copy()
        tampered[place] = byte
        assert_same_outcome(log_of([before, tampered]), place - start, byte)


def test_a_length_with_more_bytes_than_it_needs_is_not_misread():
    tampered = encode_batch([Record(b"k", b"v" * 8300)])
    tampered[HEADER_BYTES] += 2
    tampered[HEADER_BYTES + 2] = 0
    assert_same_outcome(log_of([encode_batch([Record(b"k", b"before")]), tampered]))


@pytest.mark.parametrize("length", range(9))
def test_a_record_that_ends_early_is_skipped(length):
    short = encode_batch([Record(b"", None)])[: HEADER_BYTES + length].ljust(HEADER_BYTES + length, b"\0")
    short[8:12] = (len(short) - 12).to_bytes(4, "big")
    if length:
        short[HEADER_BYTES] = 2 * (length - 1)
    assert_same_outcome(log_of([encode_batch([Record(b"", b"before")]), short]))


def assert_same_outcome(log: bytes, *case: int) -> None:
    assert outcome(the_short_way, log) == outcome(the_long_way, log), case


def outcome(way, log: bytes) -> object:
    try:
        return way(log)
    except MalformedRecords:
        return "malformed"


def test_an_incomplete_batch_is_left_out():
    log = log_of([encode_batch([Record(b"a", b"1")]), encode_batch([Record(b"a", b"2")])])
    assert [stored.record.value for stored in the_short_way(log[:-1])] == [b"1"]


def test_a_commit_is_not_decoded_before_it_is_known_to_be_the_last(monkeypatch):
    def not_for_this(*_):
        raise AssertionError("a batch of one plain record was decoded")

    monkeypatch.setattr(latest_records, "record_spans", not_for_this)
    commits = [Record(b"key of an offset", b"%d" % number + b" " * size) for number, size in enumerate((40, 90, 200))]
    gone = Record(b"key of a group", None)
    log = log_of([encode_batch([record]) for record in (*commits, gone)])
    assert [(stored.record.key, stored.record.value) for stored in the_short_way(log)] == [
        (commits[-1].key, commits[-1].value),
        (gone.key, None),
    ]


def test_a_tombstone_is_replayed_even_if_a_later_record_has_its_key():
    log = log_of([encode_batch([Record(b"a", value)]) for value in (b"1", b"2", None, b"3", b"4")])
    assert [stored.record.value for stored in the_short_way(log)] == [None, b"4"]
