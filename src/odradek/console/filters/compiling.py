"""Turns the tree of a filter into one function of a record.

A literal decides how a value is compared: `value.id == 7` also finds "7", and `value.id == "7"` also finds 7. A missing
field is null, and null fulfils no comparison.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from odradek.console.filters.tree import (
    COMPARISONS,
    And,
    Anywhere,
    Compare,
    Contains,
    Document,
    Header,
    IsNull,
    IsTrue,
    Like,
    Node,
    Not,
    Number,
    OneOf,
    Operand,
    Or,
    Part,
    Scalar,
)

NUMBER_CHARS_MAX = 40
UNREADABLE = object()  # a key or value that is not null, but cannot be decoded: it equals nothing


class Examined(Protocol):
    """A record as a filter sees it. Documents are decoded when the filter needs them."""

    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...

    def document(self, part: Part) -> Any:  # noqa: ANN401 (what JSON can express)
        """The decoded key or value; None for null, UNREADABLE if it cannot be decoded."""

    def text(self, part: Part) -> str | None:
        """The key or value as it is shown."""


Matches = Callable[[Examined], bool]
Read = Callable[[Examined], Any]


def compiled(node: Node) -> Matches:  # noqa: C901 (one case for each kind of node)
    match node:
        case And(nodes):
            tests = [compiled(each) for each in nodes]
            return lambda record: all(test(record) for test in tests)
        case Or(nodes):
            tests = [compiled(each) for each in nodes]
            return lambda record: any(test(record) for test in tests)
        case Not(inner):
            test = compiled(inner)
            return lambda record: not test(record)
        case Compare(operand, comparison, literal):
            return _tested(reading(operand), _comparison(comparison, literal))
        case OneOf(operand, literals):
            equal = [_comparison("==", literal) for literal in literals]
            return _tested(reading(operand), lambda value: any(same(value) for same in equal))
        case Contains(Document(part, ()), text):
            return _bytes_contain(part, text.encode(errors="surrogatepass"))
        case Contains(operand, text):
            return _tested(reading(operand), partial(_contains, text))
        case Like(Document(part, ()), _, found_in):
            return _shown_like(part, found_in)
        case Like(operand, _, found_in):
            return _tested(reading(operand), lambda value: bool(found_in(_text(value))))
        case IsNull(operand):
            read = reading(operand)
            return lambda record: read(record) is None
        case IsTrue(operand):
            read = reading(operand)
            return lambda record: read(record) is True
        case Anywhere(text):
            return partial(_anywhere, text.encode(errors="surrogatepass"))


def _tested(read: Read, test: Callable[[Any], bool]) -> Matches:
    def matches(record: Examined) -> bool:
        value = read(record)
        return value is not None and test(value)

    return matches


def reading(operand: Operand) -> Read:
    """The value of an operand in a record; None if it has none."""
    match operand:
        case Number(name):
            return _NUMBERS[name]
        case Header(name):
            return partial(_header, name)
        case Document("key", ()):
            return lambda record: record.document("key")
        case Document("value", ()):
            return lambda record: record.document("value")
        case Document(part, steps):
            return partial(_at, part, steps)


_NUMBERS: dict[str, Read] = {
    "partition": lambda record: record.partition,
    "offset": lambda record: record.offset,
    "timestamp": lambda record: record.timestamp,
    "size": lambda record: record.size,
}


def _header(name: str, record: Examined) -> str | None:
    value = next((value for known, value in reversed(record.headers) if known == name), None)
    return None if value is None else value.decode(errors="replace")


def _at(part: Part, steps: tuple[str | int, ...], record: Examined) -> Any:  # noqa: ANN401
    found = record.document(part)
    for step in steps:
        if type(found) is dict:
            found = found.get(step)
        elif type(found) is list and isinstance(step, int) and -len(found) <= step < len(found):
            found = found[step]
        else:
            return None
    return found


def _comparison(comparison: str, literal: Scalar) -> Callable[[Any], bool]:
    compare = COMPARISONS[comparison]
    if isinstance(literal, bool):
        return lambda value: value is literal
    if isinstance(literal, str):
        if comparison == "==":
            return lambda value: value == literal if isinstance(value, str) else _scalar_text(value) == literal
        return lambda value: isinstance(value, str) and compare(value, literal)
    number = literal
    return lambda value: (own := _number(value)) is not None and compare(own, number)


def _number(value: object) -> int | float | None:
    if isinstance(value, int | float):
        return None if isinstance(value, bool) else value
    if isinstance(value, str) and 0 < len(value) <= NUMBER_CHARS_MAX and "_" not in value:
        try:
            return int(value)
        except ValueError:
            pass
        try:
            return float(value)
        except ValueError:
            return None
    return None


def _scalar_text(value: object) -> str | None:
    return json.dumps(value) if isinstance(value, int | float) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _contains(text: str, value: object) -> bool:
    if isinstance(value, str):
        return text in value
    if isinstance(value, list):
        return any(item == text or _scalar_text(item) == text for item in value)
    if isinstance(value, dict):
        return text in value
    return text in _text(value)


def _bytes_contain(part: Part, sought: bytes) -> Matches:
    if part == "key":
        return lambda record: (key := record.key) is not None and sought in key
    return lambda record: (value := record.value) is not None and sought in value


def _shown_like(part: Part, found_in: Callable[[str], Any]) -> Matches:
    def matches(record: Examined) -> bool:
        text = record.text(part)
        return text is not None and bool(found_in(text))

    return matches


def _anywhere(sought: bytes, record: Examined) -> bool:
    if (record.value is not None and sought in record.value) or (record.key is not None and sought in record.key):
        return True
    return any(sought in name.encode() or (value is not None and sought in value) for name, value in record.headers)
