"""Records with keys, and which of them a compacted log must still have.

Written here as `key=value@time`, or as `key!name@time` when it deletes the key. The name is in a header: without it two
deletions of a key would look the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from odradek.sim.history import History, Place, Violation

COMPACTED = "compacted"
# Written in transactions only.
ACCOUNTS = "accounts"
OFFSET_MAX = 2**63 - 1
_DELETES = ord("!")


class Deletions(Enum):
    """What may happen to a deletion that is the latest record of its key."""

    STAY = "it is there"
    GO = "it is there, or nothing of its key is"
    ARE_MISSED = "a replica or reader that was away for longer than delete.retention.ms may keep an older value"


def tell(key: bytes, text: bytes, time: int, *, deletes: bool) -> bytes:
    return b"%s%s%s@%d" % (key, b"!" if deletes else b"=", text, time)


def key_of(told: bytes) -> bytes:
    return told[: _key_bytes(told)]


def text_of(told: bytes) -> bytes:
    return told[_key_bytes(told) + 1 : told.rindex(b"@")]


def time_of(told: bytes) -> int:
    return int(told[told.rindex(b"@") + 1 :])


def is_deletion(told: bytes) -> bool:
    return told[_key_bytes(told)] == _DELETES


def _key_bytes(told: bytes) -> int:
    return min(position for mark in b"=!" if (position := told.find(mark)) >= 0)


def is_compacted(directory: str) -> bool:
    return directory.rpartition("-")[0] in (COMPACTED, ACCOUNTS)


def is_transactional(directory: str) -> bool:
    """Its latest record of a key may belong to an aborted transaction, and compaction removes those."""
    return directory.rpartition("-")[0] == ACCOUNTS


def latest_by_key(content: Mapping[int, bytes]) -> dict[bytes, int]:
    """`content`: each record as text, by offset."""
    return {key_of(content[offset]): offset for offset in sorted(content)}


def last_deletions(history: History, place: Place) -> dict[bytes, int]:
    """By key, the offset of its last deletion. A deletion that no client saw again may be at any offset."""
    told_at: dict[bytes, int] = {}
    for sighting in history.sightings.get(place, ()):
        told_at[sighting.value] = max(sighting.offset, told_at.get(sighting.value, -1))
    last: dict[bytes, int] = {}
    for told, sent_to in history.sent.items():
        if sent_to == place and is_deletion(told):
            key = key_of(told)
            last[key] = max(told_at.get(told, OFFSET_MAX), last.get(key, -1))
    return last


def check_compacted(
    where: str,
    written: Mapping[int, bytes],
    left: Mapping[int, bytes],
    deletions: Deletions,
    *,
    start: int = 0,
    end: int = OFFSET_MAX,
    deleted_at: Mapping[bytes, int] = {},
) -> None:
    """J2: `left` has only what was written. L6: the latest of each key is left, if it lies from `start` to `end`.

    `left` may have more than `written`. `deleted_at`: where a key was last deleted. Where deletions are removed, one
    may be missing from `left`, with all before it, and also from `written`.
    """
    for offset, told in left.items():
        if written.get(offset, told) != told:
            raise Violation(f"J2 {where} offset {offset} was {written[offset]!r}, there is {told!r}")
    latest = latest_by_key(left)
    for key, offset in latest_by_key(written).items():
        found = latest.get(key, -1)
        if found >= offset or not start <= offset < end:
            continue
        may_go = deletions is Deletions.ARE_MISSED or (deletions is Deletions.GO and found < 0)
        if may_go and (is_deletion(written[offset]) or offset < deleted_at.get(key, -1)):
            continue
        there = repr(left[found]) if found >= 0 else "nothing"
        raise Violation(f"L6 {where} offset {offset} is the latest of its key, {written[offset]!r}; there is {there}")
