"""The tree of a parsed filter. Its types are checked: a tree that exists can be compiled."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

Scalar = str | int | float | bool
Part = Literal["key", "value"]


@dataclass(frozen=True, slots=True)
class Document:
    """A part of the decoded key or value; without steps the whole."""

    part: Part
    steps: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    """The last header with this name, as text."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number that every record has."""

    name: Literal["partition", "offset", "timestamp", "size"]


Operand = Document | Header | Number


@dataclass(frozen=True, slots=True)
class Compare:
    operand: Operand
    operator: str
    literal: Scalar


@dataclass(frozen=True, slots=True)
class OneOf:
    operand: Operand
    literals: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Contains:
    operand: Document | Header
    text: str


@dataclass(frozen=True, slots=True)
class Like:
    """A regular expression, and RE2's object for it."""

    operand: Document | Header
    pattern: str
    found_in: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Document | Header


@dataclass(frozen=True, slots=True)
class IsTrue:
    operand: Document


@dataclass(frozen=True, slots=True)
class Anywhere:
    """A text in the bytes of the key, the value or a header."""

    text: str


@dataclass(frozen=True, slots=True)
class Not:
    node: Node


@dataclass(frozen=True, slots=True)
class And:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    nodes: tuple[Node, ...]


Node = Compare | OneOf | Contains | Like | IsNull | IsTrue | Anywhere | Not | And | Or

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)
MIRRORED: Mapping[str, str] = MappingProxyType({"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="})
