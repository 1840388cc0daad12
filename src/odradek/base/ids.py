"""Identifiers that must not be mixed up, as distinct types over plain ints and bytes."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, NamedTuple, NewType

if TYPE_CHECKING:
    from odradek.base.ports import Rng

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)

# 16 raw bytes, as on the wire; text form is URL-safe base64 without padding, as Kafka prints it.
TopicId = NewType("TopicId", bytes)
DirectoryId = NewType("DirectoryId", bytes)

ZERO_UUID = bytes(16)
NO_EPOCH = LeaderEpoch(-1)
NO_BROKER = BrokerId(-1)
NO_PRODUCER = ProducerId(-1)


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError) as broken:
        raise ValueError(f"{text!r} is not a base64 UUID") from broken
    if len(raw) != 16:
        raise ValueError(f"{text!r} is {len(raw)} bytes, a UUID has 16")
    return raw


def random_uuid(rng: Rng) -> bytes:
    """A version 4 UUID. Its text does not begin with `-`, because tools would parse that as an option."""
    while True:
        raw = bytearray(rng.bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] >> 2 != 62:
            return bytes(raw)
