"""Derives the message tables in `odradek/protocol/messages` from Apache Kafka's published JSON schemas.

    python tools/derive_messages.py KAFKA_SOURCE src/odradek/protocol/messages
    ruff format src/odradek/protocol/messages

Only names, types, versions and defaults are taken; they are facts of the protocol (see NOTICE). Run it again for a
newer Kafka, and review the difference before the commit.
"""

from __future__ import annotations

import json
import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLIENT_SCHEMAS = "clients/src/main/resources/common/message"
METADATA_SCHEMAS = "metadata/src/main/resources/common/metadata"
GROUP_SCHEMAS = "group-coordinator/src/main/resources/common/message"
TRANSACTION_SCHEMAS = "transaction-coordinator/src/main/resources/common/message"

APIS = [0, 1, 2, 3, *range(8, 17), *range(18, 29), 32, 33, 37, 42, 43, 44, 47, 60, 65, 66, 75]

RECORDS = {
    "metadata_records": (
        METADATA_SCHEMAS,
        "Records of the metadata log",
        """RegisterBrokerRecord UnregisterBrokerRecord TopicRecord PartitionRecord ConfigRecord PartitionChangeRecord
        FenceBrokerRecord UnfenceBrokerRecord RemoveTopicRecord FeatureLevelRecord ProducerIdsRecord
        BrokerRegistrationChangeRecord NoOpRecord BeginTransactionRecord EndTransactionRecord AbortTransactionRecord
        RegisterControllerRecord ClearElrRecord""",
    ),
    "group_records": (
        GROUP_SCHEMAS,
        "Keys and values of `__consumer_offsets`",
        """LegacyOffsetCommitKey LegacyOffsetCommitValue OffsetCommitKey OffsetCommitValue GroupMetadataKey
        GroupMetadataValue""",
    ),
    "transaction_records": (
        TRANSACTION_SCHEMAS,
        "Keys and values of `__transaction_state`",
        "TransactionLogKey TransactionLogValue",
    ),
    "control_records": (
        CLIENT_SCHEMAS,
        "Values of control records",
        """EndTxnMarker LeaderChangeMessage SnapshotHeaderRecord SnapshotFooterRecord
        KRaftVersionRecord VotersRecord""",
    ),
    "consumer_protocol": (
        CLIENT_SCHEMAS,
        "What consumers of a classic group tell each other",
        "ConsumerProtocolSubscription ConsumerProtocolAssignment",
    ),
}

SPECIFIERS = {
    "bool": ("boolean", "bool"),
    "int8": ("int8", "int"),
    "int16": ("int16", "int"),
    "uint16": ("uint16", "int"),
    "int32": ("int32", "int"),
    "int64": ("int64", "int"),
    "uuid": ("uuid", "bytes"),
    "string": ("string", "str"),
    "bytes": ("binary", "bytes"),
    "records": ("binary", "bytes"),
}
RESERVED = {"decode", "encode", "is_flexible"}

Schema = dict[str, Any]


def load(path: Path) -> Schema:
    lines = path.read_text().splitlines()
    return json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))  # type: ignore[no-any-return]


def snake_case(name: str) -> str:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if keyword.iskeyword(snake) or snake in RESERVED:
        raise ValueError(f"{name} cannot be an attribute")
    return snake


def element_of(field: Schema) -> str:
    return str(field["type"]).removeprefix("[]")


def structs_of(schema: Schema) -> Iterator[tuple[str, list[Schema]]]:
    """Nested structures, innermost first, so that each is defined before it is used."""
    for common in _dependencies_first(schema.get("commonStructs", [])):
        yield from structs_of(common)
        yield common["name"], common["fields"]
    for field in schema["fields"]:
        if "fields" in field:
            yield from structs_of(field)
            yield element_of(field), field["fields"]


def _dependencies_first(structs: list[Schema]) -> list[Schema]:
    by_name = {struct["name"]: struct for struct in structs}
    ordered: dict[str, Schema] = {}

    def place(struct: Schema) -> None:
        for field in struct["fields"]:
            if element_of(field) in by_name:
                place(by_name[element_of(field)])
        ordered[struct["name"]] = struct

    for struct in structs:
        place(struct)
    return list(ordered.values())


def import_order(word: str) -> tuple[bool, str, int]:
    letters = word.rstrip("0123456789")
    return word[0].islower(), letters, int(word.removeprefix(letters) or 0)


class Module:
    """One file of tables."""

    def __init__(self, about: str, schemas: list[Schema]) -> None:
        self._about = about
        self._schemas = schemas
        self._used: set[str] = set()
        self._clashing: set[str] = set()
        self._clashing = self._names_with_two_shapes()

    def text(self) -> str:
        classes: dict[str, str] = {}
        for schema in self._schemas:
            for name, fields in structs_of(schema):
                label = self._label(schema, name)
                classes[label] = self._class(schema, f"class {label}(Struct):", fields)
            classes[schema["name"]] = self._class(schema, self._heading(schema), schema["fields"])
        body = "\n\n\n".join(classes.values())
        imports = sorted({"Message"} | self._used, key=import_order)
        zero = "from odradek.base.ids import ZERO_UUID\n" if "ZERO_UUID" in body else ""
        return (
            f'"""{self._about}. Derived from Apache Kafka\'s schemas: see NOTICE."""\n\n'
            f"from __future__ import annotations\n\n{zero}"
            f"from odradek.protocol.schema import {', '.join(imports)}\n\n\n{body}\n"
        )

    def _names_with_two_shapes(self) -> set[str]:
        shapes: dict[str, set[str]] = {}
        for schema in self._schemas:
            for name, fields in structs_of(schema):
                rows = [self._row(schema, field) for field in fields]
                shapes.setdefault(name, set()).add("\n".join(rows))
        return {name for name, found in shapes.items() if len(found) > 1}

    def _label(self, schema: Schema, name: str) -> str:
        return f"{schema['name']}{name}" if name in self._clashing else name

    def _heading(self, schema: Schema) -> str:
        key = f"key={schema['apiKey']}, " if "apiKey" in schema else ""
        flexible = schema["flexibleVersions"]
        flexible = "" if flexible == "none" else f', flexible="{flexible}"'
        return f'class {schema["name"]}(Message, {key}versions="{schema["validVersions"]}"{flexible}):'

    def _class(self, schema: Schema, heading: str, fields: list[Schema]) -> str:
        if "(Struct)" in heading:
            self._used.add("Struct")
        return "\n    ".join(
            [heading, *(self._row(schema, field) for field in fields)] if fields else [heading, "pass"]
        )

    def _row(self, schema: Schema, field: Schema) -> str:
        nullable = field.get("nullableVersions", "none")
        specifier, annotation, first = self._kind(schema, field)
        self._used.add(specifier)
        versions = field.get("versions") or field["taggedVersions"]
        arguments = [*first, f'"{versions}"']
        if nullable != "none":
            arguments.append(f'nullable="{nullable}"')
            annotation += " | None"
        if "tag" in field:
            if field["taggedVersions"] != versions:
                raise ValueError(f"{field['name']} is tagged in only some of its versions")
            arguments.append(f"tag={field['tag']}")
        arguments.append(self._default(schema, field))
        return f"{snake_case(field['name'])}: {annotation} = {specifier}({', '.join(arguments)})"

    def _kind(self, schema: Schema, field: Schema) -> tuple[str, str, list[str]]:
        element = element_of(field)
        is_array = field["type"].startswith("[]")
        if element in SPECIFIERS:
            specifier, annotation = SPECIFIERS[element]
            if not is_array:
                return specifier, annotation, []
            self._used.add(specifier)
            return "array", f"list[{annotation}]", [specifier]
        label = self._label(schema, element)
        return ("array", f"list[{label}]", [label]) if is_array else ("struct", label, [label])

    def _default(self, schema: Schema, field: Schema) -> str:
        given = field.get("default")
        element = element_of(field)
        if given == "null" or (element == "records" and "nullableVersions" in field):
            return "default=None"
        if field["type"].startswith("[]"):
            return "factory=list"
        if element not in SPECIFIERS:
            return f"factory={self._label(schema, element)}"
        if element == "bool":
            return f"default={str(given).lower() == 'true'}"
        if element == "uuid":
            return "default=ZERO_UUID"
        if element == "string":
            return f'default="{given or ""}"'
        if element in ("bytes", "records"):
            return 'default=b""'
        return f"default={int(str(given), 0) if given else 0}"


def main(kafka: Path, target: Path) -> None:
    by_api: dict[int, dict[str, Schema]] = {}
    for path in sorted((kafka / CLIENT_SCHEMAS).glob("*.json")):
        schema = load(path)
        if schema.get("type") in ("request", "response"):
            by_api.setdefault(schema["apiKey"], {})[schema["type"]] = schema
    for key in APIS:
        request, response = by_api[key]["request"], by_api[key]["response"]
        name = request["name"].removesuffix("Request")
        about = f"API {key}, {name}, versions {request['validVersions']}"
        write(target / f"p{key:02d}_{snake_case(name)}.py", Module(about, [request, response]))
    for module, (folder, about, names) in RECORDS.items():
        schemas = [load(kafka / folder / f"{name}.json") for name in names.split()]
        write(target / f"{module}.py", Module(about, schemas))


def write(path: Path, module: Module) -> None:
    path.write_text(module.text())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
