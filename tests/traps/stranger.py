"""Requests that no client should send: well-formed with strange content, truncated, changed, or random bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odradek.protocol import schema
from odradek.protocol.compression import Codec
from odradek.protocol.schema import Field, Message
from support.messages import Instances, versions
from traps.wire import batch

TOPICS = ("one", "two")
# Existing and impossible names, config keys, and strings of the maximum length in old and new versions.
WORDS = (
    *TOPICS,
    *("group", "consumer", "range", "__consumer_offsets", "", ".", "a.b", "a_b", "é", "\n", "x" * 249, "x" * 250),
    *(
        "retention.ms",
        "cleanup.policy",
        "compact",
        "max.message.bytes",
        "0",
        "-1",
        "Stable",
        "L" * 32_700,
        "L" * 70_000,
    ),
)
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)


class Stranger(Instances):
    def __init__(self, seed: int, topic_ids: list[bytes]) -> None:
        super().__init__(seed)
        self._topic_ids = topic_ids

    def requests(self, cls: type[Message], count: int) -> Iterator[tuple[int, bytes]]:
        """Versions and bodies."""
        for _ in range(count):
            version = self.random.choice(versions(cls))
            try:
                body = self.make(cls, version).encode(version)
            except schema.structs.error:  # a string too long for this version
                continue
            yield version, self._spoiled(body)

    def _spoiled(self, body: bytes) -> bytes:
        pick = self.random
        match pick.randrange(6):
            case 0 if body:
                changed = bytearray(body)
                for _ in range(pick.randint(1, 4)):
                    changed[pick.randrange(len(changed))] = pick.choice((*EXTREMES, pick.randrange(256)))
                return bytes(changed)
            case 1:
                return body[: pick.randrange(len(body) + 1)]
            case 2:
                return pick.randbytes(pick.randrange(100))
            case _:
                return body

    def _value(self, kind: Any, row: Field, version: int) -> Any:
        pick = self.random
        if kind is schema.string:
            return pick.choice(WORDS)
        if kind is schema.uuid:
            return pick.choice((bytes(16), pick.randbytes(16), *self._topic_ids))
        if kind is schema.binary:
            return self._batch()
        return super()._value(kind, row, version)

    def _integer(self, bits: int, row: Field) -> int:
        pick = self.random
        if row.name in ("session_timeout_ms", "rebalance_timeout_ms"):
            return pick.choice((100, 1000, -1))
        if row.name in ("max_wait_ms", "timeout_ms"):
            return pick.choice((0, 1, -1))
        if pick.random() < 0.7:
            return pick.choice((-1, 0, 0, 1, 1, 2))
        return super()._integer(bits, row)

    def _batch(self) -> bytes:
        pick = self.random
        data = batch(
            *(pick.randbytes(pick.randrange(20)) for _ in range(pick.randrange(4))),
            codec=pick.choice(list(Codec)),
            producer_id=pick.choice((-1, 0, 5)),
            producer_epoch=pick.choice((-1, 0, 1)),
            base_sequence=pick.choice((-1, 0, 1, 2**31 - 1)),
        )
        for _ in range(pick.randrange(3)):
            data[pick.randrange(len(data))] = pick.randrange(256)
        return bytes(data)
