"""Schemas from a registry with Confluent's API: fetched once for each id, on a thread that may wait."""

from __future__ import annotations

import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from odradek.connect.conversion import CannotConvert
from odradek.connect.converters.registry import Registry, RegistryOptions, Stored
from odradek.connect.interface import RetriableError
from odradek.console.decoding.avro import AvroSchema
from odradek.console.decoding.interface import Undecodable
from odradek.console.decoding.plain import parsed_json
from odradek.console.decoding.protobuf import ProtobufSchema

FRAME = struct.Struct(">bI")  # zero, and the schema's id
SCHEMAS_MAX = 500
# A schema that could not be fetched is not asked for again for a while: a search decodes thousands of records.
FAILURE_S = 5.0
# Different ids that the registry did not know, in that while: any record can name any id.
UNKNOWN_MAX = 50


class Body(Protocol):
    """A compiled schema. Decodes what follows the frame."""

    def document(self, data: bytes) -> Any:  # noqa: ANN401
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A schema, or why there is none."""

    kind: str  # avro, protobuf, json
    name: str
    body: Body | None
    problem: str = ""
    until_s: float = float("inf")


class JsonBody:
    def document(self, data: bytes) -> Any:  # noqa: ANN401
        return parsed_json(data)


class Schemas:
    """Any thread may ask."""

    def __init__(self, url: str, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self.url = url
        self._registry = Registry(RegistryOptions(schema_registry_url=[url], schemas_cache_size=SCHEMAS_MAX))
        self._now_s = now_s
        self._known: OrderedDict[int, Found] = OrderedDict()
        self._missing: OrderedDict[int, Found] = OrderedDict()
        self._silent = Found("", "", None, until_s=float("-inf"))  # while the registry does not answer
        self._lock = threading.Lock()
        # A request for a known schema does not wait for the registry.
        self._asking = threading.Lock()

    def of(self, schema_id: int) -> Found:
        return self._without_asking(schema_id) or self._asked_once(schema_id)

    def _asked_once(self, schema_id: int) -> Found:
        with self._asking:
            found = self._without_asking(schema_id)  # others may have asked meanwhile
            if found is None:
                found = self._asked(schema_id)
                with self._lock:
                    self._keep(schema_id, found)
            return found

    def _without_asking(self, schema_id: int) -> Found | None:
        with self._lock:
            known = self._known.get(schema_id)
            if known is not None:
                return known
            now_s = self._now_s()
            while self._missing and next(iter(self._missing.values())).until_s < now_s:
                self._missing.popitem(last=False)
            if schema_id in self._missing:
                return self._missing[schema_id]
            if self._silent.until_s >= now_s:
                return replace(self._silent, name=f"schema {schema_id}")
            if len(self._missing) >= UNKNOWN_MAX:
                why = f"the registry did not know {UNKNOWN_MAX} other ids in {FAILURE_S:.0f} s, and was not asked"
                return Found("", f"schema {schema_id}", None, why, now_s)
            return None

    def _keep(self, schema_id: int, found: Found) -> None:
        if found is self._silent:
            return
        kept = self._known if found.until_s == float("inf") else self._missing
        kept[schema_id] = found
        while len(self._known) > SCHEMAS_MAX:
            self._known.popitem(last=False)

    def _asked(self, schema_id: int) -> Found:
        name = f"schema {schema_id}"
        try:
            stored = self._registry.stored(schema_id)
        except RetriableError as silent:
            self._silent = Found("", name, None, str(silent), self._now_s() + FAILURE_S)
            return self._silent
        except CannotConvert as missing:
            return Found("", name, None, str(missing), self._now_s() + FAILURE_S)
        kind, references = stored.kind, _texts(stored.references.values())
        try:
            if kind == "AVRO":
                avro = AvroSchema(stored.text, references)
                return Found("avro", f"{avro.name} (schema {schema_id})", avro)
            if kind == "PROTOBUF":
                return Found("protobuf", f"schema {schema_id}", ProtobufSchema(stored.text, references))
            return Found("json", f"JSON Schema {schema_id}", JsonBody())
        except Undecodable as wrong:
            return Found(kind.lower(), f"schema {schema_id}", None, str(wrong))


def _texts(references: Iterable[Stored]) -> list[str]:
    """The texts of all schemas that a schema needs, each once. A schema comes after the schemas that it needs."""
    found: dict[str, None] = {}
    for each in references:
        found |= dict.fromkeys([*_texts(each.references.values()), each.text])
    return list(found)


def framed_id(data: bytes) -> int | None:
    """The id of the schema in Confluent's framing; None if the payload has no such frame."""
    if len(data) < FRAME.size or data[0] != 0:
        return None
    return int(FRAME.unpack_from(data)[1])
