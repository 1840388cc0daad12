"""What a decoder is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

Textual = Literal["text", "json"]


class Undecodable(Exception):
    """The payload is not what the decoder expects. The text says what it found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A payload as a person reads it."""

    kind: str  # "json", "text", "avro", "protobuf", "number", "hex", "null", "empty"
    text: str
    why: str  # how the kind was found, or why the decoder failed
    schema: str = ""  # its name or id
    is_cut: bool = False
    failed: bool = False  # the chosen decoder could not read the payload


class Decoder(Protocol):
    """Decodes keys or values of one topic. `None` (a null key, a tombstone) never reaches a decoder."""

    @property
    def textual(self) -> Textual | None:
        """How the bytes relate to the document: see console.filters.prefilter."""

    def document(self, data: bytes) -> Any:  # noqa: ANN401 (what JSON can express)
        """The payload as dict, list, text, number, bool or None. Raises Undecodable."""

    def shown(self, data: bytes, chars_max: int, *, pretty: bool) -> Shown:
        """The payload as text of at most `chars_max` characters. Never raises: a failure is shown as hex."""
