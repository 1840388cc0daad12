"""Splits the text of a filter into tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from odradek.console.filters.errors import BadFilter
from odradek.console.filters.limits import CHARS_MAX

Literal = str | int | float | bool | None


class Kind(Enum):
    WORD = auto()  # a field, a step of a path or a keyword
    TEXT = auto()
    NUMBER = auto()
    SYMBOL = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str  # as it was written
    column: int
    value: Literal = None  # of a text or number

    def __str__(self) -> str:
        return "the end" if self.kind is Kind.END else self.text if len(self.text) <= 30 else f"{self.text[:30]}…"


_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?!\w))
      | (?P<word>[^\W\d][\w$-]*)
      | (?P<symbol>==|!=|!~|<=|>=|<|>|~|\(|\)|\[|\]|,|\.)
    """,
    re.VERBOSE | re.DOTALL,
)
# How other languages write the same.
_INSTEAD = {"=": '"=="', "&": '"and"', "|": '"or"', "!": '"not" or "!="'}
NUMBER_CHARS_MAX = 40


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a text, and one END."""
    if len(text) > CHARS_MAX:
        raise BadFilter(CHARS_MAX, f"the filter has {len(text)} characters, at most {CHARS_MAX} are allowed")
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise BadFilter(at + 1, _unknown(text, at))
        if found.lastgroup != "space":
            yield _token(found.lastgroup or "", found[0], at + 1)
        at = found.end()
    yield Token(Kind.END, "", len(text) + 1)


def _token(group: str, written: str, column: int) -> Token:
    if group == "text":
        return Token(Kind.TEXT, written, column, _unquoted(written, column))
    if group == "number":
        return Token(Kind.NUMBER, written, column, _number(written, column))
    return Token(Kind.WORD if group == "word" else Kind.SYMBOL, written, column)


def _number(written: str, column: int) -> int | float:
    if len(written) > NUMBER_CHARS_MAX:
        raise BadFilter(column, f"a number of {len(written)} characters is too long")
    return float(written) if set(written) & set(".eE") else int(written)


def _unquoted(written: str, column: int) -> str:
    r"""Escapes as in JSON, and \' in single quotes."""
    inner = written[1:-1]
    if written[0] == "'":
        inner = re.sub(r'\\(.)|(")', lambda m: "'" if m[1] == "'" else '\\"' if m[2] else m[0], inner, flags=re.DOTALL)
    try:
        found = str(json.loads(f'"{inner}"', strict=False))
    except ValueError:
        raise BadFilter(
            column, r"this text has an unknown escape; write \\ for a backslash, and \", \n, \t or \u00e9"
        ) from None
    try:
        found.encode()
    except UnicodeEncodeError:
        raise BadFilter(column, r"this text has half of a pair of \ud800 to \udfff: no text has that") from None
    return found


def _unknown(text: str, at: int) -> str:
    character = text[at]
    if character in "\"'":
        return "this text has no closing quote"
    if character in _INSTEAD:
        return f"{character!r} is not known; write {_INSTEAD[character]}"
    if character.isdigit() or character == "-":
        return "this is neither a number nor a name; put text in quotes"
    return f"{character!r} is not known"
