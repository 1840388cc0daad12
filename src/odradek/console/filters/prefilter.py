"""What the bytes of a batch must contain before any of its records can match: most batches need not be decoded.

The answer is a set of byte strings of which at least one is in every batch with a match, or None if there is no such
set. Searching 1 MiB for a byte string takes less time than decoding ten of its records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from odradek.console.filters.tree import (
    And,
    Anywhere,
    Compare,
    Contains,
    Document,
    Header,
    Node,
    OneOf,
    Operand,
    Or,
    Part,
    Scalar,
)
from odradek.protocol.records import put_varint

Needles = frozenset[bytes]
# How a part is decoded. "text": as text, or as JSON if it is an object, an array or a string. "json": always as JSON.
# A part that is decoded in another way is missing: its bytes need not contain its text.
Textual = Mapping[Part, Literal["text", "json"]]

ALTERNATIVES_MAX = 8
# JSON may write any character as \u and four digits. Some characters also have shorter escapes, or need one.
_ESCAPED, _ANY_ESCAPE = b"\\u", b"\\"
_MAY_BE_ESCAPED = re.compile(r"""["\\/\x00-\x1f]""")
# The text of a JSON number or constant may differ from its bytes: 1e2 is 100.0.
_SCALAR = re.compile(r"[-+0-9.eE]*|true|false|NaN|-?Infinity")
# U+FFFD stands for bytes that are not UTF-8. Surrogates have no bytes.
_WITHOUT_BYTES = re.compile("[\ufffd\ud800-\udfff]")


def needles(node: Node, textual: Textual) -> Needles | None:
    """An empty set means that nothing can match."""
    match node:
        case And(nodes):
            found = [each for each in (needles(inner, textual) for inner in nodes) if each is not None]
            return min(found, key=_cost, default=None)
        case Or(nodes):
            return _any_of(nodes, lambda inner: needles(inner, textual))
        case Contains(Document(_, ()), text) | Anywhere(text):
            return frozenset([text.encode(errors="surrogatepass")])
        case Contains(Header(_), text):
            return _as_it_is(text)
        case Compare(operand, "==", literal):
            return _equal(operand, literal, textual)
        case OneOf(operand, literals):
            return _any_of(literals, lambda literal: _equal(operand, literal, textual))
    return None


def _equal(operand: Operand, literal: Scalar, textual: Textual) -> Needles | None:
    if not isinstance(literal, str) or not literal or _WITHOUT_BYTES.search(literal):
        return None
    match operand:
        case Header(_):
            return _as_it_is(literal)
        case Document(part, ()) if textual.get(part) == "text":
            raw = literal.encode()
            return frozenset([_sized(raw), _sized(b'"' + raw + b'"'), _escape_in(literal)])
        case Document(part, _) if part in textual and not _SCALAR.fullmatch(literal):
            return frozenset([literal.encode(), _escape_in(literal)])
    return None


def _any_of(choices: Iterable[object], sought: Callable[..., Needles | None]) -> Needles | None:
    together: Needles = frozenset()
    for choice in choices:
        found = sought(choice)
        if found is None:
            return None
        together |= found
    return together if len(together) <= ALTERNATIVES_MAX else None


def _sized(data: bytes) -> bytes:
    """A whole key or value in a record: its length comes first."""
    written = bytearray()
    put_varint(written, len(data))
    return bytes(written) + data


def _escape_in(literal: str) -> bytes:
    return _ANY_ESCAPE if _MAY_BE_ESCAPED.search(literal) else _ESCAPED


def _as_it_is(text: str) -> Needles | None:
    return None if not text or _WITHOUT_BYTES.search(text) else frozenset([text.encode()])


def _cost(found: Needles) -> tuple[int, int]:
    return len(found), -min(map(len, found), default=0)
