"""A record as filters and pages see it: with its partition, and its documents decoded once, when they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from odradek.console.decoding.interface import Decoder, Undecodable
from odradek.console.filters import UNREADABLE
from odradek.console.filters.prefilter import Textual
from odradek.console.filters.tree import Part
from odradek.protocol.records import Record

TEXT_CHARS_MAX = 1 << 20  # that a regular expression is searched in


@dataclass(frozen=True, slots=True)
class Decoders:
    key: Decoder
    value: Decoder

    @property
    def textual(self) -> Textual:
        parts: list[tuple[Literal["key", "value"], Decoder]] = [("key", self.key), ("value", self.value)]
        return {part: decoder.textual for part, decoder in parts if decoder.textual is not None}


class Seen:
    __slots__ = ("_decoders", "_key", "_texts", "_value", "partition", "record")

    def __init__(self, partition: int, record: Record, decoders: Decoders) -> None:
        self.partition = partition
        self.record = record
        self._decoders = decoders
        self._key: Any = self
        self._value: Any = self  # itself: not decoded yet
        self._texts: dict[Part, str | None] = {}

    @property
    def offset(self) -> int:
        return self.record.offset

    @property
    def timestamp(self) -> int:
        return self.record.timestamp

    @property
    def size(self) -> int:
        return len(self.record.key or b"") + len(self.record.value or b"")

    @property
    def key(self) -> bytes | None:
        return self.record.key

    @property
    def value(self) -> bytes | None:
        return self.record.value

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        return self.record.headers

    def document(self, part: Part) -> Any:  # noqa: ANN401 (what JSON can express)
        if part == "key":
            if self._key is self:
                self._key = _document(self._decoders.key, self.record.key)
            return self._key
        if self._value is self:
            self._value = _document(self._decoders.value, self.record.value)
        return self._value

    def text(self, part: Part) -> str | None:
        if part not in self._texts:
            self._texts[part] = self._text(part)
        return self._texts[part]

    def _text(self, part: Part) -> str | None:
        raw = self.record.key if part == "key" else self.record.value
        decoder = self._decoders.key if part == "key" else self._decoders.value
        return None if raw is None else decoder.shown(raw, TEXT_CHARS_MAX, pretty=False).text


def _document(decoder: Decoder, data: bytes | None) -> Any:  # noqa: ANN401
    if data is None:
        return None
    try:
        return decoder.document(data)
    except Undecodable:
        return UNREADABLE
