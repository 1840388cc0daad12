"""Jolokia requests: from the path of a GET, or from the JSON of a POST. They are checked before a snapshot is taken."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from odradek.base.limits import jolokia_bulk_requests_max, jolokia_request_bytes_max
from odradek.monitor.jolokia.object_name import MalformedName, ObjectName, parsed

T = TypeVar("T")
Json = Any


class BadRequest(Exception):
    """The HTTP answer is 400 with this text."""


class Type(Enum):
    READ = "read"
    SEARCH = "search"
    LIST = "list"
    VERSION = "version"
    # Always refused.
    EXEC = "exec"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The processing parameters of Jolokia that are honoured; others are ignored, as Jolokia ignores unknown ones."""

    ignore_errors: bool = False
    include_request: bool = True
    canonical_naming: bool = False
    max_depth: int = 0  # 0: unlimited

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        if "callback" in given:
            raise BadRequest("callback (JSONP) is not supported. Leave it out: the answer is JSON")
        depth = str(given.get("maxDepth", 0))
        if not depth.isdecimal() or len(depth) > 4:
            raise BadRequest(f"maxDepth must be a number, not {depth[:20]!r}")
        return cls(
            ignore_errors=_is_true(given, "ignoreErrors", default=False),
            include_request=_is_true(given, "includeRequest", default=True),
            canonical_naming=_is_true(given, "canonicalNaming", default=False),
            max_depth=int(depth),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    type: Type
    options: Options
    # The request as the answer repeats it.
    echo: dict[str, Any]
    mbean: ObjectName | None = None
    # None: all attributes.
    attributes: tuple[str, ...] | None = None
    # The value itself is wanted, not a map with one entry.
    one_attribute: bool = False
    # The path inside the value, or the path of a list request.
    path: tuple[str, ...] = field(default=())
    # Of EXEC: the operation.
    operation: str = ""

    @property
    def needs_snapshot(self) -> bool:
        return self.type in (Type.READ, Type.SEARCH, Type.LIST)


def from_path(path: str, query: Mapping[str, str]) -> Request:
    """`path` follows /jolokia/; without one, the parameter `p` has it. `!` escapes `/` and itself."""
    parts = split_path(path or query.get("p", ""))
    options = Options.of(query)
    kind = _type_of(parts[0] if parts else Type.VERSION.value)
    return _GET[kind](parts[1:], options)


def from_body(body: bytes, query: Mapping[str, str]) -> tuple[list[Request], bool]:
    """The requests, and whether they came as a list."""
    if len(body) > jolokia_request_bytes_max:
        raise BadRequest(
            f"The body has {len(body)} bytes, the limit is {jolokia_request_bytes_max}: send fewer requests"
        )
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("Invalid JSON request") from None
    if isinstance(document, dict):
        return [_from_json(document, query)], False
    if not isinstance(document, list):
        raise BadRequest("Invalid JSON Request. Expected Object or Array")
    if len(document) > jolokia_bulk_requests_max:
        raise BadRequest(
            f"{len(document)} requests in one list, the limit is {jolokia_bulk_requests_max}: send several lists"
        )
    return [_from_json(each, query) for each in document], True


def split_path(path: str) -> list[str]:
    """Parts between slashes, without empty ones at the end."""
    parts, part = [], ""
    characters = iter(path)
    for character in characters:
        if character == "!":
            part += next(characters, "")
        elif character == "/":
            parts.append(part)
            part = ""
        else:
            part += character
    parts.append(part)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def join_path(parts: tuple[str, ...]) -> str:
    return "/".join(part.replace("!", "!!").replace("/", "!/") for part in parts)


# GET


def _get_read(parts: list[str], options: Options) -> Request:
    if not parts:
        raise BadRequest("Read GET requests require at least 1 path element for ObjectName to read from")
    mbean, *others = parts
    written = others[0] if others else ""
    attribute: str | list[str] | None = written or None
    if "," in written:
        attribute = written.split(",") if written.strip(",") else [""]
    return _read(mbean, attribute, tuple(others[1:]), options)


def _get_search(parts: list[str], options: Options) -> Request:
    return _search(parts[0] if parts else "", options)


def _get_list(parts: list[str], options: Options) -> Request:
    return _list(tuple(parts), options)


def _get_version(_parts: list[str], options: Options) -> Request:
    return _version(options)


def _get_exec(parts: list[str], options: Options) -> Request:
    if len(parts) < 2:
        raise BadRequest("Exec GET requests require at least two path elements")
    return _exec(parts[0], parts[1], parts[2:], options)


def _get_write(parts: list[str], options: Options) -> Request:
    if len(parts) < 3:
        raise BadRequest("Write GET requests require at least three path elements")
    return _write(parts[0], parts[1], parts[2], options)


_GET = {
    Type.READ: _get_read,
    Type.SEARCH: _get_search,
    Type.LIST: _get_list,
    Type.VERSION: _get_version,
    Type.EXEC: _get_exec,
    Type.WRITE: _get_write,
}

# POST


def _from_json(document: Json, query: Mapping[str, str]) -> Request:
    if not isinstance(document, dict):
        raise BadRequest("A request within a list must be a JSON object")
    if "target" in document:
        raise BadRequest("target is not supported: this is no proxy. Send the request to the process itself")
    kind = _type_of(_given(document, "type", str, "No type given"))
    options = Options.of({**query, **_optional(document, "config", dict, {})})
    path = tuple(split_path(_optional(document, "path", str, "")))
    return _from_fields(kind, document, path, options)


def _from_fields(kind: Type, document: dict[str, Any], path: tuple[str, ...], options: Options) -> Request:
    if kind is Type.VERSION:
        return _version(options)
    if kind is Type.LIST:
        return _list(path, options)
    if kind is Type.SEARCH:
        return _search(_optional(document, "mbean", str, ""), options)
    if kind is Type.READ:
        mbean = _given(
            document, "mbean", str, "Read POST requests require an ObjectName to read from (may be a pattern)"
        )
        attribute = document.get("attribute")
        if isinstance(attribute, list):
            if not all(isinstance(each, str) for each in attribute):
                raise BadRequest("attribute must be a string or a list of strings")
        elif attribute is not None and not isinstance(attribute, str):
            raise BadRequest("attribute must be a string or a list of strings")
        return _read(mbean, attribute or None, path, options)
    if kind is Type.EXEC:
        mbean = _given(document, "mbean", str, "Exec POST requests require an ObjectName to invoke")
        operation = _given(document, "operation", str, "Exec POST requests require an operation name to invoke")
        return _exec(mbean, operation, _optional(document, "arguments", list, []), options)
    mbean = _given(document, "mbean", str, "Write POST requests require an ObjectName to write to")
    attribute = _given(document, "attribute", str, "Write POST requests require an attribute name to write to")
    return _write(mbean, attribute, document.get("value"), options)


# Both


def _read(mbean: str, attribute: str | list[str] | None, path: tuple[str, ...], options: Options) -> Request:
    name = _name(mbean)
    one = isinstance(attribute, str)
    wanted = None if attribute is None else (attribute,) if isinstance(attribute, str) else tuple(attribute)
    echo: dict[str, Any] = {"mbean": str(name), "attribute": attribute or [], "type": "read"}
    return Request(
        type=Type.READ,
        options=options,
        echo=_with_path(echo, path),
        mbean=name,
        attributes=wanted,
        one_attribute=one,
        path=path,
    )


def _search(mbean: str, options: Options) -> Request:
    name = _name(mbean)
    return Request(type=Type.SEARCH, options=options, echo={"mbean": str(name), "type": "search"}, mbean=name)


def _list(path: tuple[str, ...], options: Options) -> Request:
    if len(path) > 3:
        rest = join_path(path[3:])
        raise BadRequest(
            "List operation supports only 3 path segments for MBean domain,"
            f"canonical list of ObjectName properties and updater to use. Remaining path: {rest}"
        )
    echo = _with_path({"type": "list"}, path)
    if len(path) < 2:
        name = _name(f"{path[0]}:*") if path else None
        return Request(type=Type.LIST, options=options, echo=echo, mbean=name, path=path)
    try:
        name = parsed(f"{path[0]}:{path[1]}")
    except MalformedName:
        raise BadRequest(f"Invalid path within the MBean part given. (Path: {join_path(path)})") from None
    return Request(type=Type.LIST, options=options, echo=echo, mbean=name, path=path)


def _version(options: Options) -> Request:
    return Request(type=Type.VERSION, options=options, echo={"type": "version"})


def _exec(mbean: str, operation: str, arguments: list[Any], options: Options) -> Request:
    name = _name(mbean)
    echo: dict[str, Any] = {"mbean": str(name), "type": "exec", "operation": operation}
    if arguments:
        echo["arguments"] = arguments
    return Request(type=Type.EXEC, options=options, echo=echo, mbean=name, operation=operation)


def _write(mbean: str, attribute: str, value: Json, options: Options) -> Request:
    name = _name(mbean)
    echo = {"mbean": str(name), "attribute": attribute, "type": "write", "value": value}
    return Request(type=Type.WRITE, options=options, echo=echo, mbean=name, attributes=(attribute,))


def _with_path(echo: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    return {"path": join_path(path)} | echo if path else echo


def _name(text: str) -> ObjectName:
    try:
        return parsed(text)
    except MalformedName as malformed:
        raise BadRequest(str(malformed)) from None


def _type_of(name: str) -> Type:
    try:
        return Type(name.lower())
    except ValueError:
        raise BadRequest(f"No type with name '{name[:100]}' exists") from None


def _given(document: dict[str, Any], key: str, kind: type[T], missing: str) -> T:
    if document.get(key) is None:
        raise BadRequest(missing)
    return _of_kind(key, document[key], kind)


def _optional(document: dict[str, Any], key: str, kind: type[T], default: T) -> T:
    value = document.get(key)
    return default if value is None else _of_kind(key, value, kind)


_KINDS: dict[type, str] = {str: "a string", dict: "an object", list: "a list"}


def _of_kind(key: str, value: Json, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise BadRequest(f"{key} must be {_KINDS[kind]}")
    return value


def _is_true(given: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = given.get(key, default)
    return value if isinstance(value, bool) else str(value).lower() == "true"
