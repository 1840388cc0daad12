"""JSON Schemas that refer to others: `$ref` inside a document and to other documents, and `allOf`, as one schema."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

DEPTH_MAX = 100
_SINGLE = ("items", "additionalProperties")
_LISTS = ("oneOf", "anyOf")


def expanded(root: object, others: Mapping[str, object]) -> object:
    """The schema without references. `others` are documents by the names that references use.

    Raises ValueError for a reference that leads nowhere, and for a schema that contains itself.
    """
    return _Expanding(root, others).of(root, root, (), 0)


class _Expanding:
    def __init__(self, root: object, others: Mapping[str, object]) -> None:
        self._others = dict(others)
        # A document is also known by its own address.
        for document in (*others.values(), root):
            if isinstance(document, Mapping) and isinstance(document.get("$id"), str):
                self._others.setdefault(document["$id"].rstrip("#"), document)

    def of(self, told: object, document: object, way: tuple[tuple[int, str], ...], depth: int) -> object:
        """`way` are the references that led here: one that comes again would never end."""
        if depth > DEPTH_MAX:
            raise ValueError("the schema is nested too deep")
        if not isinstance(told, Mapping):
            return told
        found: dict[str, Any] = dict(told)
        if isinstance(reference := found.pop("$ref", None), str):
            target, home = self._target(reference, document)
            step = (id(home), reference.rpartition("#")[2])
            if step in way:
                raise ValueError(f"{reference!r} contains itself, which Kafka Connect has no type for")
            inner = self.of(target, home, (*way, step), depth + 1)
            if not isinstance(inner, Mapping):
                raise ValueError(f"{reference!r} is not a schema")  # noqa: TRY004 (what is wrong is a schema, not a type)
            return {**inner, **self._parts(found, document, way, depth)}
        return self._parts(found, document, way, depth)

    def _parts(
        self, told: dict[str, Any], document: object, way: tuple[tuple[int, str], ...], depth: int
    ) -> dict[str, Any]:
        for name in _SINGLE:
            if name in told:
                told[name] = self.of(told[name], document, way, depth + 1)
        for name in _LISTS:
            if isinstance(told.get(name), list):
                told[name] = [self.of(each, document, way, depth + 1) for each in told[name]]
        if isinstance(told.get("properties"), Mapping):
            told["properties"] = {
                name: self.of(each, document, way, depth + 1) for name, each in told["properties"].items()
            }
        if isinstance(told.get("allOf"), list):
            parts = [self.of(each, document, way, depth + 1) for each in told.pop("allOf")]
            return _merged([*parts, told])
        return told

    def _target(self, reference: str, document: object) -> tuple[object, object]:
        name, _, pointer = reference.partition("#")
        home = document if not name else self._others.get(name)
        if home is None:
            raise ValueError(f"the reference {reference!r} is not among the references of the schema")
        target = home
        if pointer and not pointer.startswith("/"):
            raise ValueError(f"the reference {reference!r} is an anchor; only JSON pointers are followed")
        for part in pointer.split("/")[1:]:
            key = urllib.parse.unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and key.isdigit() and int(key) < len(target):
                target = target[int(key)]
            elif isinstance(target, Mapping) and key in target:
                target = target[key]
            else:
                raise ValueError(f"the reference {reference!r} leads nowhere")
        return target, home


def _merged(parts: list[object]) -> dict[str, Any]:
    """One schema that asks for all that the parts ask for. Of other keywords, the last one counts."""
    found: dict[str, Any] = {}
    for part in parts:
        if not isinstance(part, Mapping):
            raise ValueError(f"{part!r} in allOf is not a schema")  # noqa: TRY004
        properties = {**found.get("properties", {}), **part.get("properties", {})}
        required = [*found.get("required", ()), *part.get("required", ())]
        found |= part
        if properties:
            found["properties"] = properties
            found.setdefault("type", "object")
        if required:
            found["required"] = required
    return found
