"""Answers to Jolokia requests from one snapshot, in slices of bounded work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from odradek.base.limits import jolokia_mbeans_per_answer_max, metric_readings_per_slice_max
from odradek.base.steps import Steps
from odradek.monitor.families import Families, by_family
from odradek.monitor.jolokia.listing import PARTS, Listing
from odradek.monitor.jolokia.mbeans import Json, MBean, selected
from odradek.monitor.jolokia.object_name import ALL, ObjectName
from odradek.monitor.jolokia.requests import Request, Type
from odradek.monitor.registry import Snapshot

PROTOCOL = "8.2"
OK, FORBIDDEN, NOT_FOUND, FAILED = 200, 403, 404, 500
# Pieces of JSON are short: a name, a number, a bracket.
TOKENS_PER_PIECE = 1_000

Envelope = dict[str, Json]
_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class Failed(Exception):
    """The answer to one request is an error."""

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type

    def fields(self) -> Envelope:
        told: Envelope = {"error_type": self.error_type, ".error": True}
        if self.error_type.startswith("javax.management."):
            told["error_type_jmx"] = self.error_type
        return told | {"error": str(self)}


def no_instance(message: str) -> Failed:
    return Failed(NOT_FOUND, "javax.management.InstanceNotFoundException", message)


def no_attribute(message: str) -> Failed:
    return Failed(NOT_FOUND, "javax.management.AttributeNotFoundException", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The process, for the answer to `version`."""

    version: str
    agent_id: str


class Answering:
    """The answers of one HTTP request. Its requests share one snapshot, and a limit of MBeans."""

    def __init__(self, about: About, wall_s: int) -> None:
        self._about = about
        self._wall_s = wall_s
        self._mbeans_left = jolokia_mbeans_per_answer_max

    def answers(self, requests: list[Request], snapshot: Snapshot) -> Steps[list[Envelope]]:
        families = yield from by_family(snapshot)
        found: list[Envelope] = []
        for request in requests:
            found += [(yield from self._answer(request, families))]
        return found

    def _answer(self, request: Request, families: Families) -> Steps[Envelope]:
        envelope: Envelope = {"request": request.echo} if request.options.include_request else {}
        try:
            value = yield from self._value(request, families)
        except Failed as failed:
            return envelope | failed.fields() | {"status": failed.status}
        return envelope | {"value": value, "status": OK, "timestamp": self._wall_s}

    def _value(self, request: Request, families: Families) -> Steps[Json]:
        if request.type is Type.VERSION:
            return self._version()
        mbean = request.mbean or ALL
        if request.type is Type.EXEC:
            raise _forbidden(f"Operation {request.operation} forbidden for MBean {mbean.canonical}")
        if request.type is Type.WRITE:
            (attribute,) = request.attributes or ("",)
            raise _forbidden(f"Writing attribute {attribute} forbidden for MBean {mbean.canonical}")
        mbeans = yield from self._mbeans(mbean, families)
        if request.type is Type.SEARCH:
            return [_shown(each, request) for each in mbeans]
        if request.type is Type.LIST:
            return (yield from _listed(request, mbeans))
        if mbean.is_pattern:
            return (yield from _read_all(request, mbean, mbeans))
        return inside(_read(request, mbean, mbeans), request.path)

    def _version(self) -> Envelope:
        about = self._about
        return {
            "agent": about.version,
            "protocol": PROTOCOL,
            "details": {"agent_version": about.version, "agent_id": about.agent_id, "secured": False},
            "id": about.agent_id,
            "config": {"agentId": about.agent_id, "agentContext": "/jolokia", "agentDescription": "Odradek"},
            "info": {},
        }

    def _mbeans(self, wanted: ObjectName, families: Families) -> Steps[list[MBean]]:
        found: dict[tuple[str, tuple[tuple[str, str], ...]], MBean] = {}

        def keep(part: MBean) -> None:
            known = found.setdefault((part.domain, part.properties), part)
            if known is not part:
                known.attributes.update(part.attributes)
                known.metrics.extend(part.metrics)
            elif len(found) > self._mbeans_left:
                raise Failed(
                    FAILED,
                    "java.lang.IllegalStateException",
                    f"More than {jolokia_mbeans_per_answer_max} MBeans in one answer: ask for fewer with a pattern",
                )

        for work, part in enumerate(selected(families, wanted), 1):
            if part is not None:
                keep(part)
            if work % metric_readings_per_slice_max == 0:
                yield metric_readings_per_slice_max
        self._mbeans_left -= len(found)
        return list(found.values())


def text(document: Json) -> Iterator[str]:
    """JSON in pieces, each the work of one slice."""
    tokens = _JSON.iterencode(document)
    while piece := "".join(islice(tokens, TOKENS_PER_PIECE)):
        yield piece


def _forbidden(message: str) -> Failed:
    return Failed(FORBIDDEN, "java.lang.Exception", message)


def _shown(mbean: MBean, request: Request) -> str:
    return mbean.name.canonical if request.options.canonical_naming else str(mbean.name)


def _read(request: Request, wanted: ObjectName, mbeans: list[MBean]) -> Json:
    if not mbeans:
        raise no_instance(str(wanted))
    (mbean,) = mbeans
    if request.attributes is None:
        return mbean.attributes
    values = {}
    for name in request.attributes:
        if name in mbean.attributes:
            values[name] = mbean.attributes[name]
            continue
        missing = no_attribute(f"No such attribute: {name}")
        if not request.options.ignore_errors:
            raise missing
        values[name] = missing.fields()
    return values[request.attributes[0]] if request.one_attribute else values


def _read_all(request: Request, pattern: ObjectName, mbeans: list[MBean]) -> Steps[Json]:
    """Attributes that an MBean lacks are left out, and MBeans that have none of them."""
    if not mbeans:
        raise no_instance(f"No MBean with pattern {pattern.canonical} found for READ request")
    values: dict[str, Json] = {}
    for work, mbean in enumerate(mbeans, 1):
        found = mbean.attributes
        if request.attributes is not None:
            found = {name: found[name] for name in request.attributes if name in found}
        if found:
            values[_shown(mbean, request)] = inside(found, request.path[1:])
        if work % metric_readings_per_slice_max == 0:
            yield metric_readings_per_slice_max
    if not values:
        raise no_attribute(f"No attribute found for any MBean matching {pattern.written} pattern")
    return inside(values, request.path[:1])


def inside(value: Json, path: tuple[str, ...]) -> Json:
    """The part of a value at a path, in which `*` stands for all keys; None if there is no such part."""
    if not path:
        return value
    if not isinstance(value, dict):
        return None
    first, *others = path
    rest = tuple(others)
    if first != "*":
        return inside(value[first], rest) if first in value else None
    parts = {key: inside(each, rest) for key, each in value.items()}
    return {key: part for key, part in parts.items() if part is not None}


def _listed(request: Request, mbeans: list[MBean]) -> Steps[Json]:
    path, mbean = request.path, request.mbean
    listing = Listing(canonical=request.options.canonical_naming, max_depth=request.options.max_depth)
    if len(path) < 2 or mbean is None:
        return (yield from listing.domains(mbeans, path[0] if path else None))
    if not mbeans and not mbean.is_pattern:
        raise no_instance(f"InstanceNotFoundException for MBean {mbean} ({mbean})")
    part = path[2] if len(path) == 3 else None
    if part is not None and part not in PARTS:
        message = f"Illegal path element for updater selection: {part}"
        raise Failed(FAILED, "java.lang.IllegalArgumentException", message)
    if mbean.is_pattern:
        return (yield from listing.selected(mbeans, part))
    return listing.one(mbeans[0], part)
