"""Untrusted bytes: for any input a decoder returns a message or raises MalformedMessage, with bounded memory."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base import limits
from odradek.protocol.fetch import decode_fetch_request
from odradek.protocol.headers import decode_request_header
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages.p00_produce import ProduceRequest
from odradek.protocol.messages.p01_fetch import FetchRequest
from odradek.protocol.messages.p03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.p11_join_group import JoinGroupRequest
from odradek.protocol.messages.p12_heartbeat import HeartbeatRequest
from odradek.protocol.produce import decode_produce_request
from odradek.protocol.schema import Message
from support.messages import Instances, every_version

# Lengths of an attacker: null, negative, huge, one more than fits, varints that never end.
POISON = [
    bytes.fromhex(text)
    for text in ("00000000", "ffffffff", "fffffffe", "7fffffff", "80000000", "ffffffff0f", "ffffffff07", "ff" * 12)
]


def survives(cls: type[Message], version: int, data: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        cls.decode(data, version)
    if cls is ProduceRequest or cls is FetchRequest:
        decode = decode_produce_request if cls is ProduceRequest else decode_fetch_request
        with contextlib.suppress(MalformedMessage):
            decode(memoryview(data), version, 0, len(data))


def sample(cls: type[Message], version: int) -> bytes:
    instances = Instances(version)
    candidates = [instances.make(cls, version).encode(version) for _ in range(5)]
    return max((data for data in candidates if len(data) < 3000), key=len, default=cls().encode(version))


def test_message_truncated_at_any_byte_is_refused() -> None:
    for cls, version in every_version():
        data = sample(cls, version)
        for end in range(0, len(data), 1 + len(data) // 60):
            with pytest.raises(MalformedMessage):
                cls.decode(data[:end], version)


def test_hostile_lengths_in_any_message_raise_only_malformed_message() -> None:
    for cls, version in every_version():
        data = sample(cls, version)
        for position in range(0, len(data), 1 + len(data) // 12):
            for poison in POISON:
                survives(cls, version, data[:position] + poison + data[position + len(poison) :])


def test_random_changes_in_any_message_raise_only_malformed_message() -> None:
    for cls, version in every_version():
        data = bytearray(sample(cls, version))
        pick = Instances(version).random
        for _ in range(25):
            changed = bytearray(data)
            for _ in range(pick.randrange(1, 4)):
                if changed:
                    changed[pick.randrange(len(changed))] = pick.choice((0, 1, 0x7F, 0x80, 0xFF, pick.randrange(256)))
            survives(cls, version, bytes(changed))


@given(st.sampled_from(every_version()), st.binary(max_size=200))
def test_random_bytes_as_message_raise_only_malformed_message(target: tuple[type[Message], int], noise: bytes) -> None:
    survives(*target, noise)


@given(st.binary(max_size=60))
def test_random_bytes_as_header_raise_only_malformed_message(noise: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        assert decode_request_header(memoryview(noise), 0, len(noise)).body_position <= len(noise)


@pytest.mark.parametrize("count", ["ffffffff0f", "ffffffff07"])
def test_inputs_that_abort_other_parsers_are_refused_without_allocating(count: str) -> None:
    data = bytes.fromhex(count) + bytes(20)
    MetadataRequest.decode(MetadataRequest().encode(12), 12)
    tracemalloc.start()
    with pytest.raises(MalformedMessage):
        MetadataRequest.decode(data, 12)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 100_000


def metadata_request(count: int) -> bytes:
    """A request that claims `count` topics but has the bytes of two, and the flag at its end."""
    return count.to_bytes(4, "big", signed=True) + b"\0\1a" + b"\0\1b" + b"\1"


@pytest.mark.parametrize("count", [-2, -(1 << 31), 3, 4, 1_000_000, (1 << 31) - 1])
def test_array_count_larger_than_the_message_is_refused(count: int) -> None:
    assert len(MetadataRequest.decode(metadata_request(2), 4).topics) == 2
    with pytest.raises(MalformedMessage):
        MetadataRequest.decode(metadata_request(count), 4)


@pytest.mark.parametrize("length", [-1, -2, 4, 0x7FFF])
def test_string_length_beyond_the_message_is_refused(length: int) -> None:
    member_id = length.to_bytes(2, "big", signed=True) + b"abc"
    with pytest.raises(MalformedMessage):
        HeartbeatRequest.decode_first(HeartbeatRequest().encode(0)[:-2] + member_id, 0)


@pytest.mark.parametrize("length", [-1, -2, 1000, (1 << 31) - 1])
def test_bytes_length_beyond_the_message_is_refused(length: int) -> None:
    good = JoinGroupRequest(protocols=[]).encode(0)[:-4]
    protocol = b"\0\1p" + length.to_bytes(4, "big", signed=True)
    with pytest.raises(MalformedMessage):
        JoinGroupRequest.decode(good + b"\0\0\0\1" + protocol + b"x", 0)


def test_null_is_refused_in_versions_without_null() -> None:
    assert MetadataRequest.decode(b"\xff\xff\xff\xff", 1).topics is None
    with pytest.raises(MalformedMessage, match="null"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)


def test_string_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="UTF-8"):
        MetadataRequest.decode(b"\0\0\0\1\0\1\xff", 0)


def test_varint_longer_than_32_bits_is_refused() -> None:
    for endless in (b"\xff" * 20, b"\x80\x80\x80\x80\x80\x00", b"\xff\xff\xff\xff\x1f"):
        with pytest.raises(MalformedMessage, match="32 bits"):
            MetadataRequest.decode(endless, 12)


def test_all_arrays_of_a_message_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 5)
    monkeypatch.setattr(limits, "array_elements_max", 5)
    MetadataRequest.decode(request.encode(12), 12)
    monkeypatch.setattr(limits, "array_elements_max", 4)
    with pytest.raises(MalformedMessage, match="more elements"):
        MetadataRequest.decode(request.encode(12), 12)


def test_number_of_tagged_fields_is_limited() -> None:
    request = MetadataRequest().encode(12)[:-1]
    most = limits.tagged_fields_max
    assert MetadataRequest.decode(request + bytes([most]) + b"\x09\x00" * most, 12) == MetadataRequest()
    with pytest.raises(MalformedMessage, match="tagged fields"):
        MetadataRequest.decode(request + bytes([most + 1]) + b"\x09\x00" * (most + 1), 12)


def test_tagged_field_with_wrong_size_is_refused() -> None:
    known = FetchRequest(cluster_id="abc").encode(12)
    at = known.index(b"\x00\x04\x04abc")
    for size in (3, 5):
        data = known[: at + 1] + bytes([size]) + known[at + 2 :] + bytes(4)
        with pytest.raises(MalformedMessage):
            FetchRequest.decode_first(data, 12)
        with pytest.raises(MalformedMessage):
            decode_fetch_request(memoryview(data), 12, 0, len(data))
