"""Reads the topics out of a consumer's subscription (`ConsumerProtocolSubscription`).

Only the part that every version begins with: version, topics. What follows belongs to the assignors.
"""

from __future__ import annotations

import struct

_VERSION_AND_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


class MalformedSubscription(ValueError):
    pass


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    try:
        version, count = _VERSION_AND_COUNT.unpack_from(metadata, 0)
        if version < 0 or count < 0:
            raise MalformedSubscription(f"version {version} with {count} topics")
        topics: set[str] = set()
        position = _VERSION_AND_COUNT.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if length < 0 or position + length > len(metadata):
                raise MalformedSubscription(f"a topic of {length} bytes at {position} of {len(metadata)}")
            topics.add(metadata[position : position + length].decode())
            position += length
    except (struct.error, UnicodeDecodeError) as broken:
        raise MalformedSubscription(str(broken)) from broken
    return frozenset(topics)
