"""Kafka Connect's schemas as Avro schemas and back, with the names and properties of Confluent's AvroConverter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odradek.connect.conversion import CannotConvert
from odradek.connect.records import DATE, DECIMAL, TIME, TIMESTAMP, Field, Kind, Schema, decimal
from odradek.connect.values import to_plain

NAMESPACE = "io.confluent.connect.avro"
ENUM = f"{NAMESPACE}.Enum"
PRECISION = "connect.decimal.precision"
DEPTH_MAX = 100

_AVRO = {
    Kind.INT8: "int",
    Kind.INT16: "int",
    Kind.INT32: "int",
    Kind.INT64: "long",
    Kind.FLOAT32: "float",
    Kind.FLOAT64: "double",
    Kind.BOOLEAN: "boolean",
    Kind.STRING: "string",
    Kind.BYTES: "bytes",
}
_CONNECT = {avro: kind for kind, avro in _AVRO.items() if kind not in (Kind.INT8, Kind.INT16)}
_LOGICAL_NAMES = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
_LOGICAL = {
    "date": (Kind.INT32, DATE),
    "time-millis": (Kind.INT32, TIME),
    "timestamp-millis": (Kind.INT64, TIMESTAMP),
}


def avro_of(schema: Schema) -> Any:  # noqa: ANN401 (JSON)
    return _Writing().schema(schema)


class _Writing:
    """A record is described where it first occurs, and named after that."""

    def __init__(self) -> None:
        self._known: dict[str, Schema] = {}
        self._unnamed = 0

    def schema(self, schema: Schema) -> Any:  # noqa: ANN401
        told = self._required(schema)
        return (
            ["null", told]
            if schema.optional and schema.default is None
            else ([told, "null"] if schema.optional else told)
        )

    def _required(self, schema: Schema) -> Any:  # noqa: ANN401
        if schema.kind is Kind.STRUCT:
            return self._record(schema)
        if schema.parameters.get(ENUM) and schema.kind is Kind.STRING:
            return self._enum(schema)
        told: dict[str, Any]
        if schema.kind is Kind.ARRAY and schema.items is not None:
            told = {"type": "array", "items": self.schema(schema.items)}
        elif schema.kind is Kind.MAP and schema.items is not None and schema.keys is not None:
            told = self._map(schema.keys, schema.items)
        else:
            told = {"type": _AVRO[schema.kind]}
        if schema.kind in (Kind.INT8, Kind.INT16):
            told["connect.type"] = str(schema.kind)
        if schema.name == DECIMAL:
            told |= {
                "logicalType": "decimal",
                "precision": int(schema.parameters.get(PRECISION, "64")),
                "scale": int(schema.parameters.get("scale", "0")),
            }
        elif schema.name in _LOGICAL_NAMES:
            told["logicalType"] = _LOGICAL_NAMES[schema.name]
        told |= _properties(schema)
        return told["type"] if told.keys() == {"type"} else told

    def _map(self, keys: Schema, items: Schema) -> dict[str, Any]:
        if keys.kind is Kind.STRING and not keys.optional:
            return {"type": "map", "values": self.schema(items)}
        self._unnamed += 1
        entry = {
            "type": "record",
            "name": "MapEntry" + (str(self._unnamed) if self._unnamed > 1 else ""),
            "namespace": NAMESPACE,
            "fields": [{"name": "key", "type": self.schema(keys)}, {"name": "value", "type": self.schema(items)}],
            "connect.internal.type": "MapEntry",
        }
        return {"type": "array", "items": entry}

    def _enum(self, schema: Schema) -> Any:  # noqa: ANN401
        full = schema.parameters[ENUM]
        if full in self._known:
            return full
        self._known[full] = schema
        symbols = [name.removeprefix(f"{ENUM}.") for name in schema.parameters if name.startswith(f"{ENUM}.")]
        return {"type": "enum", **_named(full), "symbols": symbols}

    def _record(self, schema: Schema) -> Any:  # noqa: ANN401
        full = schema.name
        if full is None:
            self._unnamed += 1
            full = f"{NAMESPACE}.ConnectDefault" + (str(self._unnamed) if self._unnamed > 1 else "")
        if full in self._known:
            if replace(self._known[full], optional=False) != replace(schema, optional=False):
                raise CannotConvert(f"two different structs have the name {full!r}")
            return full
        self._known[full] = schema
        fields = [self._field(field) for field in schema.fields]
        return {"type": "record", **_named(full), "fields": fields, **_properties(schema)}

    def _field(self, field: Field) -> dict[str, Any]:
        told = {"name": field.name, "type": self.schema(field.schema)}
        if field.schema.doc is not None:
            told["doc"] = field.schema.doc
        default = _default(field.schema)
        if default is not None:
            told["default"] = default
        elif field.schema.optional:
            told["default"] = None
        return told


def _named(full: str) -> dict[str, str]:
    namespace, _, name = full.rpartition(".")
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _properties(schema: Schema) -> dict[str, Any]:
    told: dict[str, Any] = {}
    parameters = {name: value for name, value in schema.parameters.items() if name != PRECISION}
    if parameters:
        told["connect.parameters"] = parameters
    if schema.default is not None and _default(schema) is not None:
        told["connect.default"] = _default(schema)
    if schema.name is not None:
        told["connect.name"] = schema.name
    if schema.version is not None:
        told["connect.version"] = schema.version
    return told


def _default(schema: Schema) -> Any:  # noqa: ANN401
    if schema.default is None:
        return None
    plain = to_plain(schema, schema.default)
    return plain.decode("latin-1") if isinstance(plain, bytes) else plain


def connect_of(told: Any) -> Schema:  # noqa: ANN401 (an Avro schema as JSON)
    return _Reading().schema(told, "", 0)


class _Reading:
    def __init__(self) -> None:
        self._known: dict[str, Schema] = {}

    def schema(self, told: Any, space: str, depth: int) -> Schema:  # noqa: ANN401
        if depth > DEPTH_MAX:
            raise CannotConvert(f"the Avro schema is nested more than {DEPTH_MAX} levels deep")
        if isinstance(told, list):
            return self._union(told, space, depth)
        if isinstance(told, str):
            if told in _CONNECT:
                return Schema(kind=_CONNECT[told])
            return self._reference(told, space)
        if not isinstance(told, Mapping):
            raise CannotConvert(f"not an Avro schema: {told!r}")
        return self._described_type(told, space, depth)

    def _described_type(self, told: Mapping[str, Any], space: str, depth: int) -> Schema:
        kind = told.get("type")
        if isinstance(kind, Mapping | list):
            return self.schema(kind, space, depth + 1)
        match kind:
            case "record":
                return self._record(told, space, depth)
            case "enum":
                return self._enum(told, space)
            case "array":
                return self._array(told, space, depth)
            case "map":
                items = self.schema(told.get("values"), space, depth + 1)
                return _described(Schema(kind=Kind.MAP, keys=Schema(kind=Kind.STRING), items=items), told)
            case "fixed":
                self._remember(told, space, Schema(kind=Kind.BYTES))
                return _logical(Schema(kind=Kind.BYTES), told)
            case str() if kind in _CONNECT:
                base = _CONNECT[kind]
                small = told.get("connect.type")
                return _logical(Schema(kind=Kind(small) if small in ("int8", "int16") else base), told)
            case _:
                return self._reference(str(kind), space)

    def _reference(self, name: str, space: str) -> Schema:
        for full in (name, f"{space}.{name}"):
            if full in self._known:
                return self._known[full]
        raise CannotConvert(f"the Avro schema refers to {name!r}, which it does not define before (or recursively)")

    def _union(self, told: list[Any], space: str, depth: int) -> Schema:
        others = [each for each in told if each != "null"]
        if len(others) != 1:
            raise CannotConvert(f"a union of {len(others)} types has no type of Kafka Connect: {told!r:.200}")
        found = self.schema(others[0], space, depth + 1)
        return found.or_null() if len(others) < len(told) else found

    def _remember(self, told: Mapping[str, Any], space: str, schema: Schema) -> str:
        name = str(told.get("name", ""))
        space = str(told.get("namespace", name.rpartition(".")[0] or space))
        full = name if "." in name or not space else f"{space}.{name}"
        self._known[full] = schema
        return full

    def _record(self, told: Mapping[str, Any], space: str, depth: int) -> Schema:
        name = str(told.get("name", ""))
        inner = str(told.get("namespace", name.rpartition(".")[0] or space))
        fields = tuple(self._field(each, inner, depth) for each in told.get("fields", ()))
        full = name if "." in name or not inner else f"{inner}.{name}"
        shown = None if full.startswith(f"{NAMESPACE}.ConnectDefault") else full
        schema = _described(Schema(kind=Kind.STRUCT, name=shown, fields=fields, doc=told.get("doc")), told)
        self._remember(told, space, schema)
        return schema

    def _field(self, told: Mapping[str, Any], space: str, depth: int) -> Field:
        schema = self.schema(told.get("type"), space, depth + 1)
        if told.get("default") is not None and schema.default is None and schema.kind not in (Kind.STRUCT, Kind.BYTES):
            schema = replace(schema, default=told["default"])
        if told.get("doc"):
            schema = replace(schema, doc=told["doc"])
        return Field(str(told.get("name")), schema)

    def _enum(self, told: Mapping[str, Any], space: str) -> Schema:
        full = self._remember(told, space, Schema(kind=Kind.STRING))
        symbols = {f"{ENUM}.{symbol}": str(symbol) for symbol in told.get("symbols", ())}
        schema = Schema(kind=Kind.STRING, parameters={ENUM: full, **symbols})
        self._known[full] = schema
        return schema

    def _array(self, told: Mapping[str, Any], space: str, depth: int) -> Schema:
        items = told.get("items")
        found = self.schema(items, space, depth + 1)
        if isinstance(items, Mapping) and items.get("connect.internal.type") == "MapEntry":
            return _described(Schema(kind=Kind.MAP, keys=found.of("key"), items=found.of("value")), told)
        return _described(Schema(kind=Kind.ARRAY, items=found), told)


def _logical(schema: Schema, told: Mapping[str, Any]) -> Schema:
    kind = told.get("logicalType")
    if kind == "decimal" and schema.kind is Kind.BYTES:
        return decimal(int(told.get("scale", 0)), int(told.get("precision", 64)))
    if kind in _LOGICAL and schema.kind is _LOGICAL[kind][0]:
        return replace(schema, name=_LOGICAL[kind][1], version=1)
    return _described(schema, told)


def _described(schema: Schema, told: Mapping[str, Any]) -> Schema:
    return replace(
        schema,
        name=told.get("connect.name", schema.name),
        version=told.get("connect.version", schema.version),
        parameters={**schema.parameters, **told.get("connect.parameters", {})},
    )
