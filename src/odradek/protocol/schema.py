"""Messages as tables: the class is the schema, one field specifier per field.

    class MetadataRequestTopic(Struct):
        topic_id: bytes = uuid("10+", default=ZERO_UUID)
        name: str | None = string("0+", nullable="10+", default="")

    class MetadataRequest(Message, key=3, versions="0-13", flexible="9+"):
        topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+", factory=list)

One class covers every version: decoding leaves fields that a version lacks at their default, encoding skips them.
Creating a class is cheap (start-up imports a hundred of them); constructors and codecs are compiled on first use.
"""

# ruff: noqa: ANN401 - a specifier's result has the type that is annotated beside it

from __future__ import annotations

import functools
import struct as structs
from collections.abc import Callable
from typing import Any, ClassVar, Self, dataclass_transform

from odradek.base.invariants import invariant
from odradek.protocol.malformed import MalformedMessage

ByteSource = bytes | bytearray | memoryview
NEVER_FLEXIBLE = 1 << 15


class Field:
    """One field of a table. `kind` is its specifier function. `element` of an array is a specifier or a class."""

    __slots__ = ("default", "element", "factory", "kind", "name", "nullable", "tag", "versions")

    def __init__(
        self,
        kind: Callable[..., Any],
        versions: str,
        default: object = None,
        *,
        factory: Callable[[], object] | None = None,
        nullable: str = "none",
        tag: int | None = None,
        element: Any = None,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = versions
        self.default = default
        self.factory = factory
        self.nullable = nullable
        self.tag = tag
        self.element = element

    def fresh_default(self) -> object:
        return self.factory() if self.factory is not None else self.default


def boolean(versions: str, *, default: bool, tag: int | None = None) -> Any:
    return Field(boolean, versions, default, tag=tag)


def int8(versions: str, *, default: int, tag: int | None = None) -> Any:
    return Field(int8, versions, default, tag=tag)


def int16(versions: str, *, default: int, tag: int | None = None) -> Any:
    return Field(int16, versions, default, tag=tag)


def uint16(versions: str, *, default: int, tag: int | None = None) -> Any:
    return Field(uint16, versions, default, tag=tag)


def int32(versions: str, *, default: int, tag: int | None = None) -> Any:
    return Field(int32, versions, default, tag=tag)


def int64(versions: str, *, default: int, tag: int | None = None) -> Any:
    return Field(int64, versions, default, tag=tag)


def uuid(versions: str, *, default: bytes, tag: int | None = None) -> Any:
    return Field(uuid, versions, default, tag=tag)


def string(versions: str, *, default: str | None, nullable: str = "none", tag: int | None = None) -> Any:
    return Field(string, versions, default, nullable=nullable, tag=tag)


def binary(versions: str, *, default: bytes | None, nullable: str = "none", tag: int | None = None) -> Any:
    """Kafka's `bytes` and `records`, which have the same encoding."""
    return Field(binary, versions, default, nullable=nullable, tag=tag)


def array(
    element: object,
    versions: str,
    *,
    default: None = None,
    factory: Callable[[], list[Any]] | None = None,
    nullable: str = "none",
    tag: int | None = None,
) -> Any:
    return Field(array, versions, default, factory=factory, nullable=nullable, tag=tag, element=element)


def struct(
    element: type[Struct],
    versions: str,
    *,
    default: None = None,
    factory: Callable[[], Struct] | None = None,
    nullable: str = "none",
    tag: int | None = None,
) -> Any:
    return Field(struct, versions, default, factory=factory, nullable=nullable, tag=tag, element=element)


# The kinds of fixed width, with their `struct` format.
FIXED: dict[Callable[..., Any], str] = {
    boolean: "?",
    int8: "b",
    int16: "h",
    uint16: "H",
    int32: "i",
    int64: "q",
    uuid: "16s",
}


@functools.cache
def version_range(text: str) -> tuple[int, int]:
    """`4-18`, `12+`, `3` or `none` as first and last version."""
    if text == "none":
        return NEVER_FLEXIBLE, -1
    first, dash, last = text.partition("-")
    if dash:
        return int(first), int(last)
    if text.endswith("+"):
        return int(text[:-1]), NEVER_FLEXIBLE - 1
    return int(text), int(text)


def covers(text: str, version: int) -> bool:
    first, last = version_range(text)
    return first <= version <= last


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(boolean, int8, int16, uint16, int32, int64, uuid, string, binary, array, struct),
)
class Table(type):
    """Turns the field specifiers of a class body into slots."""

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        body: dict[str, Any],
        *,
        key: int = -1,
        versions: str = "0",
        flexible: str = "none",
    ) -> Table:
        fields = [value for value in body.values() if type(value) is Field]
        names = [label for label, value in body.items() if type(value) is Field]
        for label, row in zip(names, fields, strict=True):
            row.name = label
            del body[label]
        body["__slots__"] = tuple(names)
        body["FIELDS"] = tuple(fields)
        body["KEY"] = key
        body["VERSIONS"] = version_range(versions)
        body["FLEXIBLE_FROM"] = version_range(flexible)[0]
        return super().__new__(cls, name, bases, body)

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **_: object) -> None:
        super().__init__(name, bases, body)


class Struct(metaclass=Table):  # noqa: PLW1641 - mutable, so not hashable
    """Part of a message. Compares by content."""

    FIELDS: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        constructor = compile_constructor(cls)
        cls.__init__ = constructor  # type: ignore[method-assign]
        constructor(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, row.name) == getattr(other, row.name) for row in self.FIELDS)

    def __repr__(self) -> str:
        values = (f"{row.name}={getattr(self, row.name)!r}" for row in self.FIELDS)
        return f"{type(self).__name__}({', '.join(values)})"


class Message(Struct):
    """A whole request, response or stored record, with its codecs."""

    KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]  # first and last, inclusive
    FLEXIBLE_FROM: ClassVar[int]

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return version >= cls.FLEXIBLE_FROM

    @classmethod
    def decode(cls, buffer: ByteSource, version: int, position: int = 0, end: int | None = None) -> Self:
        """Decode exactly `buffer[position:end]`. Raises only MalformedMessage."""
        message, unread = cls.decode_first(buffer, version, position, end)
        if unread:
            raise MalformedMessage(f"{cls.__name__} v{version} is followed by {unread} more bytes")
        return message

    @classmethod
    def decode_first(
        cls, buffer: ByteSource, version: int, position: int = 0, end: int | None = None
    ) -> tuple[Self, int]:
        """A message, and how many bytes follow it. For requests: Kafka ignores extra bytes, and some clients send them.

        Example: librdkafka 2.16 in Metadata v13 for all topics.
        """
        if type(buffer) is bytes and position == 0 and end is None:
            data = buffer
        else:
            data = bytes(memoryview(buffer)[position:end])
        decoder = _decoders.get((cls, version)) or _compiled_decoder(cls, version)
        try:
            message, stopped = decoder(data, len(data))
        except (structs.error, IndexError) as broken:
            raise MalformedMessage(f"a {cls.__name__} v{version} is incomplete") from broken
        except UnicodeDecodeError as broken:
            raise MalformedMessage(f"{cls.__name__} v{version} has a string that is not UTF-8") from broken
        return message, len(data) - stopped

    def encode(self, version: int) -> bytes:
        parts: list[bytes] = []
        encoder = _encoders.get((type(self), version)) or _compiled_encoder(type(self), version)
        encoder(self, parts.append)
        return b"".join(parts)


_decoders: dict[tuple[type[Message], int], Callable[[bytes, int], tuple[Any, int]]] = {}
_encoders: dict[tuple[type[Message], int], Callable[[Any, Callable[[bytes], None]], None]] = {}


def _compiled_decoder(cls: type[Message], version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise MalformedMessage(f"{cls.__name__} has no version {version}")
    from odradek.protocol.decoder import compile_decoder

    decoder = _decoders[cls, version] = compile_decoder(cls, version)
    return decoder


def _compiled_encoder(cls: type[Message], version: int) -> Callable[[Any, Callable[[bytes], None]], None]:
    first, last = cls.VERSIONS
    invariant(first <= version <= last, f"{cls.__name__} has no version {version}")
    from odradek.protocol.encoder import compile_encoder

    encoder = _encoders[cls, version] = compile_encoder(cls, version)
    return encoder


_LEFT_OUT: Any = object()


def compile_constructor(cls: type[Struct]) -> Callable[..., None]:
    names: dict[str, Any] = {"left_out": _LEFT_OUT}
    parameters = []
    body = []
    for index, row in enumerate(cls.FIELDS):
        if row.factory is None:
            names[f"default_{index}"] = row.default
            parameters.append(f"{row.name}=default_{index}")
            body.append(f"self.{row.name} = {row.name}")
        else:
            names[f"make_{index}"] = row.factory
            parameters.append(f"{row.name}=left_out")
            body.append(f"self.{row.name} = make_{index}() if {row.name} is left_out else {row.name}")
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n    " + "\n    ".join(body or ["pass"])
    exec(source, names)  # noqa: S102 - the text is made of our own field names
    return names["__init__"]  # type: ignore[no-any-return]
