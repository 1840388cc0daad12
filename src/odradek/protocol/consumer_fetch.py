"""Fetch 11 as a consumer of one partition sends it: the last version before compact strings, which any broker serves.

It has all that reading needs, also zstd and aborted transactions. Records are a slice of the reply, not a copy.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from odradek.protocol.malformed import MalformedMessage

FETCH, VERSION = 1, 11
FRAME = Struct(">i")
REQUEST = Struct(">hhih")  # api, version, correlation id, length of the client id
ASKED = Struct(">iiiibii")  # replica, max wait, min bytes, max bytes, isolation, session id and epoch
PLACE = Struct(">iiqqi")  # partition, leader epoch, offset, log start, max bytes
ANSWER = Struct(">iihiih")  # correlation id, throttle, error, session id, topics, length of the topic's name
ANSWERED = Struct(">iihqqqi")  # partitions, partition, error, high watermark, last stable, log start, aborted
ABORTED = Struct(">qq")
TAIL = Struct(">ii")  # preferred replica, bytes of records
CONSUMER = -1


class Fetched(NamedTuple):
    error_code: int
    throttle_time_ms: int
    preferred_replica: int  # -1: the broker that was asked
    log_start_offset: int
    records: memoryview
    aborted: list[tuple[int, int]]  # producer id and first offset of transactions that were aborted


def fetch_request(
    number: int, client_id: bytes, topic: bytes, partition: int, offset: int, *, bytes_max: int, read_committed: bool
) -> bytes:
    """The whole frame. The broker answers at once, also without records."""
    body = b"".join(
        (
            REQUEST.pack(FETCH, VERSION, number, len(client_id)) + client_id,
            ASKED.pack(CONSUMER, 0, 1, bytes_max, int(read_committed), 0, -1),
            FRAME.pack(1) + len(topic).to_bytes(2, "big") + topic + FRAME.pack(1),
            PLACE.pack(partition, -1, offset, -1, bytes_max),
            FRAME.pack(0) + b"\0\0",  # no forgotten topics, no rack
        )
    )
    return FRAME.pack(len(body)) + body


def fetch_response(number: int, partition: int, frame: memoryview) -> Fetched:
    """The answer to the request with this number. Raises only MalformedMessage."""
    try:
        return _fetched(number, partition, frame)
    except struct_error as broken:
        raise MalformedMessage("a response to Fetch is incomplete") from broken


def _fetched(number: int, partition: int, frame: memoryview) -> Fetched:
    answers, throttled_ms, error, _, topics, name_bytes = ANSWER.unpack_from(frame)
    if answers != number:
        raise MalformedMessage(f"a response answers request {answers} instead of {number}")
    if error:
        return Fetched(error, throttled_ms, -1, -1, frame[:0], [])
    if topics != 1 or name_bytes < 0:
        raise MalformedMessage(f"a response to Fetch has {topics} topics")
    at = ANSWER.size + name_bytes
    partitions, answered, error, _, _, log_start, aborted_count = ANSWERED.unpack_from(frame, at)
    if (partitions, answered) != (1, partition):
        raise MalformedMessage(f"a response to Fetch has {partitions} partitions, {answered} the first")
    at += ANSWERED.size
    aborted_end = at + max(aborted_count, 0) * ABORTED.size
    if aborted_end > len(frame):
        raise MalformedMessage(f"a response to Fetch announces {aborted_count} aborted transactions")
    aborted = list(ABORTED.iter_unpack(frame[at:aborted_end]))
    preferred, size = TAIL.unpack_from(frame, aborted_end)
    records = frame[aborted_end + TAIL.size :]
    if max(size, 0) != len(records):
        raise MalformedMessage(f"{size} bytes of records are announced, {len(records)} received")
    return Fetched(error, throttled_ms, preferred, log_start, records, aborted)
