"""Builds the response of a broker that refuses a request with a given error.

The error is at the innermost level of the response, per partition if possible, so that clients react as they would to a
real error.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from odradek.base.errors import ErrorCode
from odradek.protocol.error_codes import NAMES
from odradek.protocol.schema import Message, Struct
from odradek.server.api import table

# Fields of responses whose names differ in the request.
_ASKED_AS = {
    "coordinators": ("coordinator_keys",),
    "groups": ("groups_names",),
    "index": ("partition_index", "partition"),
    "name": ("topic",),
    "partition": ("partition_index",),
    "partition_index": ("partition", "index"),
    "partition_responses": ("partition_data",),
    "partitions": ("partition_indexes",),
    "results_by_partition": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "responses": ("topics", "topic_data", "resources", "topic_names"),
    "results": ("groups_names", "topics", "resources"),
    "topic": ("name",),
    "topic_name": ("name",),
    "topic_results": ("topics",),
    "transaction_states": ("transactional_ids",),
}
_NUMBERS_OF_PARTITIONS = ("partition_index", "partition", "index")


def refusal(request: Message, error: ErrorCode) -> Message:
    """The response to `request`: it repeats the requested items, each with `error`.

    If nothing was requested, only the top level can hold the error.
    """
    response: Message = response_class(type(request))()
    _refuse(response, request, error)
    return response


def request_classes() -> dict[int, Any]:
    """The request classes of all APIs for clients, by API key."""
    classes = {}
    for module in table.MODULES:
        messages = import_module(module.__name__.replace(".server.api.", ".protocol.messages."))
        named = [cls for name, cls in vars(messages).items() if name.endswith("Request")]
        classes[module.API.key] = next(cls for cls in named if getattr(cls, "KEY", None) == module.API.key)
    return classes


def response_class(request: type[Message]) -> Any:  # noqa: ANN401, a class that is known by its name
    return getattr(sys.modules[request.__module__], request.__name__.removesuffix("Request") + "Response")


def _refuse(answer: Struct, asked: Struct, error: ErrorCode) -> bool:
    """Puts the error into `answer` or its nested structs. Returns whether there was a field for it."""
    placed = False
    for field in type(answer).FIELDS:
        if isinstance(field.element, type) and isinstance(getattr(answer, field.name), list):
            rows = _asked_rows(asked, field.name)
            made = [_named_again(field.element, row) for row in rows]
            setattr(answer, field.name, made)
            for one, row in zip(made, rows, strict=True):
                placed |= _refuse(one, row, error) if isinstance(row, Struct) else _put(one, error)
    return placed or _put(answer, error)


def _put(answer: Struct, error: ErrorCode) -> bool:
    name = next((field.name for field in type(answer).FIELDS if field.name in NAMES), None)
    if name is None:
        return False
    setattr(answer, name, int(error))
    return True


def _asked_rows(asked: Struct, name: str) -> list[Any]:
    known = {field.name for field in type(asked).FIELDS}
    for candidate in (name, *_ASKED_AS.get(name, ())):
        rows = getattr(asked, candidate) if candidate in known else None
        if isinstance(rows, list) and rows:
            return list(rows)
    # the request may have them one level deeper: the topics of each directory
    outer = [one for field in known if isinstance(rows := getattr(asked, field), list) for one in rows]
    return [row for one in outer if isinstance(one, Struct) for row in _asked_rows(one, name)]


def _named_again(kind: type[Struct], asked: object) -> Struct:
    if isinstance(asked, Struct):
        return kind(**{field.name: value for field in kind.FIELDS if (value := _said(asked, field.name)) is not None})
    if isinstance(asked, int):
        name = next(field.name for field in kind.FIELDS if field.name in _NUMBERS_OF_PARTITIONS)
    else:
        name = next(field.name for field in kind.FIELDS if isinstance(field.fresh_default(), str))
    return kind(**{name: asked})


def _said(asked: Struct, name: str) -> Any:  # noqa: ANN401, a value of any field
    known = {field.name for field in type(asked).FIELDS}
    for candidate in (name, *_ASKED_AS.get(name, ())):
        if candidate in known:
            value = getattr(asked, candidate)
            return None if isinstance(value, list | Struct) else value
    return None
