"""Single-message transforms and predicates. This module has their interface and runs them in order.

A transform is a class with a dataclass of options, as an entry point in `odradek.transforms`; predicates are in
`odradek.predicates`. `transforms=a,b` names the steps, `transforms.a.type` the class, `transforms.a.predicate` and
`transforms.a.negate` when it applies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from odradek.connect.options import Checked, Definition, Parsed, definitions, option, parse, unknown
from odradek.connect.plugins import BrokenPlugin, NoSuchPlugin, plugin
from odradek.connect.records import Record

TRANSFORMS = "odradek.transforms"
PREDICATES = "odradek.predicates"


@dataclass(frozen=True, slots=True, kw_only=True)
class _PredicateOptions:
    type: str = option("The class of the predicate.", importance="HIGH")


@dataclass(frozen=True, slots=True, kw_only=True)
class _StepOptions:
    type: str = option("The class of the transform.", importance="HIGH")
    predicate: str | None = option("The transform applies to records for which this predicate holds.", default=None)
    negate: bool = option("The transform applies to all other records instead.", default=False)


# By the option that names the steps: their entry points, and the options that each of them has.
_KINDS: dict[str, tuple[str, type]] = {
    "transforms": (TRANSFORMS, _StepOptions),
    "predicates": (PREDICATES, _PredicateOptions),
}


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
    transform = _made("transforms", name, options)
    negate = options.get("negate", "false").lower() == "true"
    chosen = options.get("predicate")
    if chosen is None:
        if negate:
            raise ValueError(f"transforms.{name}.negate needs a predicate")
        return _Step(name, transform, None)
    if chosen not in _names(given, "predicates"):
        raise ValueError(f'transforms.{name}.predicate is {chosen!r}, which "predicates" does not name')
    predicate: Predicate = _made("predicates", chosen, _under(given, f"predicates.{chosen}."))
    return _Step(name, transform, lambda record: predicate.holds(record) is not negate)


def _made(which: str, name: str, options: dict[str, str]) -> Any:  # noqa: ANN401
    group, common = _KINDS[which]
    if "type" not in options:
        raise ValueError(f'missing required option "{which}.{name}.type"')
    kind = plugin(options["type"], group).loaded
    ours: Parsed[Any] = parse(common, options)
    own = {option: text for option, text in options.items() if option not in ours.used}
    parsed = parse(kind.Config, own)
    known = [each.name for each in (*definitions(kind.Config), *definitions(common))]
    wrong = ours.errors + parsed.errors + [told for _, told in unknown(own, parsed.used, known)]
    if wrong:
        raise ValueError(f"{which}.{name}: {'; '.join(wrong)}")
    try:
        return kind(parsed.config)
    except ValueError as refused:
        raise ValueError(f"{which}.{name}: {refused}") from None


def _under(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): text for name, text in given.items() if name.startswith(prefix)}


def checked_steps(given: Mapping[str, str]) -> list[Checked]:
    """The options of all transforms and predicates, each with what is wrong with it."""
    return [row for which in _KINDS for name in _names(given, which) for row in _checked(which, name, given)]


def _checked(which: str, name: str, given: Mapping[str, str]) -> list[Checked]:
    group, common = _KINDS[which]
    options = _under(given, f"{which}.{name}.")
    ours: Parsed[Any] = parse(common, options)
    rows, known, used = list(ours.checked), list(definitions(common)), ours.used
    if "type" in options:
        try:
            config = plugin(options["type"], group).loaded.Config
        except (NoSuchPlugin, BrokenPlugin) as missing:
            rows[0] = replace(rows[0], errors=(*rows[0].errors, str(missing)))
            used = frozenset(options)
        else:
            parsed = parse(config, options)
            rows, known, used = rows + list(parsed.checked), known + list(definitions(config)), used | parsed.used
    rows += [
        Checked(definition=_undeclared(option), text=options[option], errors=(told,))
        for option, told in unknown(options, used, [each.name for each in known])
    ]
    return [_inside(row, which, name) for row in rows]


def _inside(row: Checked, which: str, name: str) -> Checked:
    """The option with its full name, in the group that Kafka Connect gives it."""
    prefix = f"{which}.{name}."
    group = f"{which.capitalize()}: {name}"
    definition = replace(row.definition, name=prefix + row.definition.name, group=group)
    return replace(row, definition=definition, errors=tuple(f"{prefix[:-1]}: {error}" for error in row.errors))


def _undeclared(name: str) -> Definition:
    return Definition(
        name=name,
        field=name,
        kind="STRING",
        required=False,
        default=None,
        doc="",
        importance="LOW",
        group=None,
        choices=(),
        nullable=True,
        check=None,
    )


def unnamed_steps(given: Mapping[str, str]) -> list[str]:
    """Options of transforms or predicates that the list of their names does not have."""
    wrong = []
    for which in _KINDS:
        known = _names(given, which)
        inside = [option.split(".")[1] for option in sorted(given) if option.startswith(f"{which}.")]
        wrong += [f'"{which}" does not name {name!r}, which has options' for name in inside if name not in known]
    return list(dict.fromkeys(wrong))
