"""Request bodies checked, and plug-ins and validations in the shapes of Kafka Connect's REST API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from odradek.connect.catalogue import Listed
from odradek.connect.options import MASK, Checked, Definition
from odradek.connect.plugins import Plugin
from odradek.connect.providers import REFERENCE
from odradek.connect.records import Offset, Partition
from odradek.connect.service.requests import Refused
from odradek.connect.storage.configs import Target
from odradek.connect.validation import Validation, options_of

INITIAL = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}
NAME_CHARS_MAX = 200
JSON = "application/json"


async def json_object(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON:
        # A web page of another site can send other types without asking the browser for permission.
        raise Refused(415, f"HTTP 415 Unsupported Media Type: the body is {kind}, but it must be {JSON}")
    try:
        body = json.loads(await request.body())
    except ValueError as wrong:
        raise Refused(400, f"the request's body is not JSON: {wrong}") from None
    if not isinstance(body, dict):
        raise Refused(400, "the request's body is not a JSON object")
    return body


def texts(config: object) -> dict[str, str]:
    """A config from JSON. Numbers and booleans are written as a user would write them as text."""
    if not isinstance(config, dict):
        raise Refused(400, "the config is not a JSON object")
    return {str(name): _text(str(name), value) for name, value in config.items()}


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise Refused(400, f"the value of {name!r} is not text: configs are flat")


def new_connector(body: Mapping[str, Any]) -> tuple[str, dict[str, str], Target]:
    if unknown := body.keys() - {"name", "config", "initial_state"}:
        raise Refused(400, f'Unrecognized field "{min(unknown)}": the body has name, config and initial_state')
    name = body.get("name")
    config = texts(body.get("config"))
    name = name if name is not None else config.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Refused(400, 'connector name is required: the body is {"name": …, "config": {…}}')
    name = checked_name(name.strip())
    state = str(body.get("initial_state") or "RUNNING").upper()
    if state not in INITIAL:
        raise Refused(400, f"initial_state is {state!r}, but it must be one of {', '.join(INITIAL)}")
    return name, config, INITIAL[state]


def checked_name(name: str) -> str:
    if len(name) > NAME_CHARS_MAX or any(ord(char) < 32 for char in name):
        raise Refused(400, f"connector name has control characters or more than {NAME_CHARS_MAX} characters")
    return name


def offset_changes(body: Mapping[str, Any]) -> list[tuple[Partition, Offset | None]]:
    given = body.get("offsets")
    if not isinstance(given, list) or not given:
        raise Refused(400, "Partitions / offsets need to be provided for an alter offsets request")
    changes: list[tuple[Partition, Offset | None]] = []
    for each in given:
        partition = each.get("partition") if isinstance(each, dict) else None
        offset = each.get("offset") if isinstance(each, dict) else None
        if not isinstance(partition, dict) or not isinstance(offset, dict | None):
            raise Refused(400, "each of the offsets must have a partition and an offset, both of them objects")
        changes.append((partition, offset))
    return changes


def plugin_row(found: Listed, *, named: bool) -> dict[str, str]:
    row = {"class": found.path, "type": found.kind, "version": found.version}
    return {**row, "name": found.name} if named else row


def definitions(kind: Plugin) -> list[dict[str, Any]]:
    return [_definition(each, order) for order, each in enumerate(options_of(kind), 1) if each.kind != "PREFIX"]


def _definition(each: Definition, order: int) -> dict[str, Any]:
    return {
        "name": each.name,
        "type": "STRING" if each.kind == "PREFIX" else each.kind,
        "required": each.required,
        "default_value": each.default_text,
        "importance": each.importance,
        "documentation": each.doc,
        "group": each.group,
        "order_in_group": order,
        "order": order,  # the name before Kafka 4
        "width": "MEDIUM",
        "display_name": each.name,
        "dependents": [],
    }


def validation(result: Validation) -> dict[str, object]:
    rows: list[dict[str, dict[str, Any]]] = [
        {"definition": _definition(each.definition, order), "value": _value(each)}
        for order, each in enumerate(result.checked, 1)
        if each.definition.kind != "PREFIX" or each.errors
    ]
    for name, told in result.unknown:
        value: dict[str, Any] = {
            "name": name,
            "value": None,
            "recommended_values": [],
            "errors": [told],
            "visible": True,
        }
        rows.append({"definition": _unknown(name), "value": value})
    return {
        "name": result.plugin.path,
        "error_count": sum(bool(row["value"]["errors"]) for row in rows),
        "groups": sorted({each.definition.group for each in result.checked if each.definition.group}),
        "configs": rows,
    }


def _value(each: Checked) -> dict[str, Any]:
    shown = each.text
    if each.definition.kind == "PASSWORD" and shown is not None and not REFERENCE.fullmatch(shown):
        shown = MASK
    return {
        "name": each.definition.name,
        "value": shown,
        "recommended_values": list(each.definition.choices),
        "errors": list(each.errors),
        "visible": True,
    }


def _unknown(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "STRING",
        "required": False,
        "default_value": None,
        "importance": "LOW",
        "documentation": "",
        "group": None,
        "order_in_group": -1,
        "order": -1,
        "width": "NONE",
        "display_name": name,
        "dependents": [],
    }
