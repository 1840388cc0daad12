"""Record positions found without decoding, compared with the decoder."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.batch import HEADER_BYTES, Record, encode_batch, iter_records
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.record_spans import copy_records, record_spans
from odradek.protocol.records import decode_records

records = st.lists(
    st.builds(
        Record,
        key=st.none() | st.binary(max_size=200),
        value=st.none() | st.binary(max_size=200),
        headers=st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
        timestamp=st.integers(0, 1 << 60),
    ),
    min_size=1,
    max_size=200,
)


@given(records)
def test_record_spans_have_the_position_of_every_record(content):
    batch = bytes(encode_batch(content))
    spans = list(record_spans(batch[HEADER_BYTES:], len(content)))
    assert [(span.key, span.has_value, span.offset_delta) for span in spans] == [
        (record.key, record.value is not None, record.offset) for record in iter_records(batch)
    ]
    assert [content[0].timestamp + span.timestamp_delta for span in spans] == [record.timestamp for record in content]
    assert spans[-1].end == len(batch) - HEADER_BYTES


@given(records, st.data())
def test_records_are_copied_with_another_base_timestamp(content, data):
    body = bytes(encode_batch(content)[HEADER_BYTES:])
    spans = list(record_spans(body, len(content)))
    kept = data.draw(st.lists(st.sampled_from(range(len(spans))), unique=True).map(sorted))
    base = data.draw(st.sampled_from([content[0].timestamp, 0, 1 << 61]))
    copied = bytes(copy_records(body, [spans[n] for n in kept], content[0].timestamp - base))
    found = decode_records(copied, len(kept), 0, len(content) - 1, base, None)
    assert list(found) == [content[n]._replace(offset=n) for n in kept]


@given(records, st.binary(min_size=1, max_size=4), st.integers(0, 10_000), st.integers(-1, 300))
def test_record_spans_end_for_any_input(content, noise, place, count):
    """It raises at most MalformedRecords, and never returns more records than `count`."""
    body = bytearray(encode_batch(content)[HEADER_BYTES:])
    place %= len(body)
    body[place : place + len(noise)] = noise
    with contextlib.suppress(MalformedRecords):
        assert len(list(record_spans(bytes(body), count))) == count
