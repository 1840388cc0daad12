"""Single-message transforms and predicates. This module has their interface and runs them in order.

A transform is a class with a dataclass of options, as an entry point in `odradek.transforms`; predicates are in
`odradek.predicates`. `transforms=a,b` names the steps, `transforms.a.type` the class, `transforms.a.predicate` and
`transforms.a.negate` when it applies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from odradek.connect.options import parse, unknown
from odradek.connect.plugins import plugin
from odradek.connect.records import Record

TRANSFORMS = "odradek.transforms"
PREDICATES = "odradek.predicates"
OURS = ("type", "predicate", "negate")


class Transform(Protocol):
    """Takes a record and returns another one, or None to drop it. Raises any error for a record it cannot change."""

    Config: ClassVar[type]

    def __init__(self, config: Any) -> None: ...  # noqa: ANN401

    def apply(self, record: Record) -> Record | None: ...


class Predicate(Protocol):
    Config: ClassVar[type]

    def __init__(self, config: Any) -> None: ...  # noqa: ANN401

    def holds(self, record: Record) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    transform: Transform
    applies: Callable[[Record], bool] | None


class Transforms:
    """The transforms of a connector, in order."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._steps = [_step(name, given) for name in _names(given, "transforms")]

    def __bool__(self) -> bool:
        return bool(self._steps)

    def __call__(self, record: Record) -> Record | None:
        for step in self._steps:
            if step.applies is None or step.applies(record):
                changed = step.transform.apply(record)
                if changed is None:
                    return None
                record = changed
        return record


def _names(given: Mapping[str, str], option: str) -> list[str]:
    return [name.strip() for name in given.get(option, "").split(",") if name.strip()]


def _step(name: str, given: Mapping[str, str]) -> _Step:
    options = _under(given, f"transforms.{name}.")
    transform = _made(f"transforms.{name}", TRANSFORMS, options)
    if "predicate" not in options:
        return _Step(name, transform, None)
    chosen = options["predicate"]
    if chosen not in _names(given, "predicates"):
        raise ValueError(f'transforms.{name}.predicate is {chosen!r}, which "predicates" does not name')
    predicate: Predicate = _made(f"predicates.{chosen}", PREDICATES, _under(given, f"predicates.{chosen}."))
    negate = options.get("negate", "false").lower() == "true"
    return _Step(name, transform, lambda record: predicate.holds(record) is not negate)


def _made(where: str, group: str, options: dict[str, str]) -> Any:  # noqa: ANN401
    if "type" not in options:
        raise ValueError(f'missing required option "{where}.type"')
    kind = plugin(options["type"], group).loaded
    own = {name: text for name, text in options.items() if name not in OURS}
    parsed = parse(kind.Config, own)
    wrong = parsed.errors + [told for _, told in unknown(own, parsed.used, [])]
    if wrong:
        raise ValueError(f"{where}: {'; '.join(wrong)}")
    return kind(parsed.config)


def _under(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): text for name, text in given.items() if name.startswith(prefix)}
