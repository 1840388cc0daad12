"""Parses and checks a schema in DDL without a JVM: "id int, tags array<string>".

It refuses only what Spark would certainly refuse. Spark checks everything that it does not understand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

_TYPE_NAMES = """
    boolean tinyint byte smallint short int integer bigint long float real double decimal dec numeric
    string char character varchar binary date time timestamp timestamp_ltz timestamp_ntz
    interval void null variant array map struct geometry geography
"""
TYPES = frozenset(_TYPE_NAMES.split())
OTHER_WORDS = {
    "str": "string",
    "text": "string",
    "uuid": "string",
    "bool": "boolean",
    "bytes": "binary",
    "blob": "binary",
    "datetime": "timestamp",
    "number": "double",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "list": "array<...>",
    "dict": "map<string, ...>",
    "object": "struct<...>",
}
_COLUMN = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^\s:]+))\s*:?\s*(?P<type>.*)", re.DOTALL)
_TYPE = re.compile(r"(?P<word>\w+)\s*(?:<(?P<inner>.*)>|\([^()]*\))?\s*(?P<rest>.*)", re.DOTALL)
_BESIDES = frozenset({"not", "null", "comment", "default", "collate", "generated", "with", "without", "options"})


def columns_of_ddl(ddl: str) -> list[tuple[str, str]]:
    """(name, type) as written. The type includes NOT NULL, COMMENT and the like."""
    return [_column(part) for part in _parts(ddl)]


def mistake_in(ddl: str) -> tuple[str, str] | None:
    """What Spark would refuse, and what to write instead."""
    columns = columns_of_ddl(ddl)
    if len(columns) == 1 and not columns[0][1] and columns[0][0].lower() in TYPES:
        return f"the schema {ddl!r} is one type, not a list of columns", f'"name {ddl}"'
    for name, kind in columns:
        if name and not kind:
            return f"the column {name!r} has no type", f'"{name} string", or another type of Spark'
        if name and (found := _mistake(name, kind)):
            return found
    return None


def _mistake(name: str, kind: str) -> tuple[str, str] | None:
    found = _TYPE.fullmatch(kind.strip())
    if found is None:
        return None
    word, inner = found["word"].lower(), found["inner"]
    if word not in TYPES:
        return f"the column {name!r} has the type {found['word']!r}, which Spark does not have", _instead(name, word)
    if word != "interval" and (after := found["rest"].split()) and after[0].lower() not in _BESIDES:
        second = _TYPE.fullmatch(after[1]) if len(after) > 1 else None
        if second is not None and second["word"].lower() in TYPES:
            comma = f'"{name} {kind[: kind.index(found["rest"])].strip()}, {found["rest"]}"'
            return f"a comma is missing after the column {name!r}", comma
    if inner is None:
        return None
    parts = columns_of_ddl(inner) if word == "struct" else [(name, part) for part in _parts(inner)]
    mistakes = (_mistake(f"{name}.{own}" if word == "struct" else name, one) for own, one in parts)
    return next(filter(None, mistakes), None)


def _instead(name: str, word: str) -> str:
    close = OTHER_WORDS.get(word) or next(iter(get_close_matches(word, sorted(TYPES), n=1)), None)
    if close is None:
        return "a type of Spark: string, int, bigint, double, boolean, timestamp, date, binary, array<...>, ..."
    return f'"{name.rpartition(".")[2]} {close}"'


def _column(text: str) -> tuple[str, str]:
    found = _COLUMN.fullmatch(text)
    if found is None:
        return text.strip(), ""
    name = found["quoted"].replace("``", "`") if found["quoted"] else found["plain"]
    return name, found["type"].strip()


def _parts(ddl: str) -> Iterator[str]:
    """The parts between commas, except commas inside brackets or quotes."""
    depth = begin = 0
    quote = ""
    for position, letter in enumerate(ddl):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        elif letter == "," and not depth:
            yield ddl[begin:position]
            begin = position + 1
        else:
            depth += (letter in "<(") - (letter in ">)")
    yield ddl[begin:]
