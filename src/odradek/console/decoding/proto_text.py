"""Parses the text of a .proto file, as schema registries return it: messages, enums and their fields.

Services, options, extensions and reserved ranges are skipped. Groups of proto2 are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from odradek.console.decoding.interface import Undecodable

CHARS_MAX = 1 << 20
DEPTH_MAX = 30
SCALARS = frozenset(
    ("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64")
    + ("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes")
)

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | (?P<token>[A-Za-z_][\w.]* | \.[A-Za-z_][\w.]* | -?\d[\w.+-]* | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
          | [{}\[\]()<>=;,:-])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoField:
    name: str
    number: int
    kind: str  # a scalar, or the full name of a message or an enum
    is_repeated: bool = False
    has_presence: bool = False
    key_kind: str = ""  # of a map


@dataclass(slots=True)
class ProtoMessage:
    full_name: str
    fields: dict[int, ProtoField] = field(default_factory=dict)
    nested: list[ProtoMessage] = field(default_factory=list)


@dataclass(slots=True)
class ProtoEnum:
    full_name: str
    names: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoFile:
    package: str
    top: tuple[ProtoMessage, ...]  # in the order of the file
    messages: Mapping[str, ProtoMessage]  # by full name
    enums: Mapping[str, ProtoEnum]


NOTHING = ProtoFile(package="", top=(), messages=MappingProxyType({}), enums=MappingProxyType({}))


def parsed_proto(text: str, known: ProtoFile = NOTHING) -> ProtoFile:
    """`known` has the messages and enums that the text may import. Raises Undecodable."""
    if len(text) > CHARS_MAX:
        raise Undecodable(f"the schema has {len(text)} characters")
    try:
        return _Parser(_tokens(text), known).whole()
    except (IndexError, ValueError) as wrong:
        raise Undecodable(f"not a .proto file: {wrong}") from None


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1} has {text[at : at + 10]!r}")
        if match["token"]:
            found.append(match["token"])
        at = match.end()
    return found


class _Parser:
    def __init__(self, tokens: list[str], known: ProtoFile) -> None:
        self._tokens = tokens
        self._at = 0
        self._package = ""
        self._is_proto3 = False
        self._messages: dict[str, ProtoMessage] = {}
        self._enums: dict[str, ProtoEnum] = {}
        self._known = known

    def _take(self) -> str:
        if self._at >= len(self._tokens):
            raise ValueError("it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _took(self, token: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at] == token
        self._at += found
        return found

    def _expect(self, token: str) -> None:
        found = self._take()
        if found != token:
            raise ValueError(f"expected {token!r}, found {found!r}")

    def whole(self) -> ProtoFile:
        top = []
        while self._at < len(self._tokens):
            match self._take():
                case "syntax" | "edition":
                    self._expect("=")
                    self._is_proto3 = self._take().strip("\"'") != "proto2"
                    self._expect(";")
                case "package":
                    self._package = self._take()
                    self._expect(";")
                case "message":
                    top.append(self._message(self._package, 0))
                case "enum":
                    self._enum(self._package)
                case ";":
                    pass
                case "import" | "option" | "service" | "extend":
                    self._skip()
                case other:
                    raise ValueError(f"{other!r} begins no definition")
        messages = {**self._known.messages, **self._messages}
        self._enums = {**self._known.enums, **self._enums}
        for message in self._messages.values():
            for number, each in message.fields.items():
                message.fields[number] = self._resolved(message.full_name, each, messages)
        return ProtoFile(package=self._package, top=tuple(top), messages=messages, enums=self._enums)

    def _skip(self) -> None:
        """To the end of a statement or a block."""
        depth = 0
        while True:
            word = self._take()
            depth += (word == "{") - (word == "}")
            if depth == 0 and word in (";", "}"):
                return

    def _message(self, above: str, depth: int) -> ProtoMessage:
        if depth > DEPTH_MAX:
            raise ValueError(f"messages are nested more than {DEPTH_MAX} deep")
        name = self._take()
        message = ProtoMessage(f"{above}.{name}" if above else name)
        self._messages[message.full_name] = message
        self._expect("{")
        while not self._took("}"):
            match self._take():
                case "message":
                    message.nested.append(self._message(message.full_name, depth + 1))
                case "enum":
                    self._enum(message.full_name)
                case "oneof":
                    self._take()
                    self._expect("{")
                    while not self._took("}"):
                        kind = self._take()
                        if kind == "option":
                            self._skip()
                        else:
                            self._field(message, kind, has_presence=True)
                case "option" | "reserved" | "extensions" | "extend":
                    self._skip()
                case ";":
                    pass
                case "repeated":
                    self._field(message, self._take(), is_repeated=True)
                case "optional" | "required":
                    self._field(message, self._take(), has_presence=True)
                case kind:
                    self._field(message, kind)
        return message

    def _field(
        self, message: ProtoMessage, kind: str, *, is_repeated: bool = False, has_presence: bool = False
    ) -> None:
        if kind == "group":
            raise ValueError("groups are not supported")
        key_kind = ""
        if kind == "map" and self._took("<"):
            key_kind = self._take()
            self._expect(",")
            kind = self._take()
            self._expect(">")
        name = self._take()
        self._expect("=")
        number = int(self._take(), 0)
        if self._took("["):
            while self._take() != "]":
                pass
        self._expect(";")
        message.fields[number] = ProtoField(
            name=name,
            number=number,
            kind=kind,
            is_repeated=is_repeated,
            has_presence=has_presence or not self._is_proto3,
            key_kind=key_kind,
        )

    def _enum(self, above: str) -> None:
        name = self._take()
        enum = ProtoEnum(f"{above}.{name}" if above else name)
        self._enums[enum.full_name] = enum
        self._expect("{")
        while not self._took("}"):
            value = self._take()
            if value in ("option", "reserved"):
                self._skip()
                continue
            if value == ";":
                continue
            self._expect("=")
            enum.names.setdefault(int(self._take(), 0), value)
            if self._took("["):
                while self._take() != "]":
                    pass
            self._expect(";")

    def _resolved(self, within: str, one: ProtoField, messages: Mapping[str, ProtoMessage]) -> ProtoField:
        """The field with the full name of its type, searched from the innermost scope outwards."""
        if one.kind in SCALARS:
            return one
        name = one.kind.lstrip(".")
        scope = "" if one.kind.startswith(".") else within
        while True:
            full = f"{scope}.{name}" if scope else name
            if full in messages or full in self._enums:
                return ProtoField(
                    name=one.name,
                    number=one.number,
                    kind=full,
                    is_repeated=one.is_repeated,
                    has_presence=one.has_presence or full in messages,
                    key_kind=one.key_kind,
                )
            if not scope:
                raise ValueError(f"{within}.{one.name} has type {one.kind!r}, which the schema does not define")
            scope = scope.rpartition(".")[0]
