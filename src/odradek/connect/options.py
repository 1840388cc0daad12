"""Options of connectors: declared once as a dataclass, used by validation, REST, the command line and forms.

@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    url: str = option("The address to poll.")
    every_ms: int = option("Time between two polls.", default=1000, check=at_least(1))
    password: Secret | None = option("The password.", default=None)

The option of the field `every_ms` has the name `every.ms`. Types: str, int, float, bool, list[str], Secret, a Literal,
`| None` of these, and dict[str, str] for all options that begin with the name and a dot.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any, Generic, Literal, TypeVar

C = TypeVar("C")
Check = Callable[[Any], str | None]
"""Returns what is wrong with a value, or None."""

Importance = Literal["HIGH", "MEDIUM", "LOW"]
MASK = "****"
_KEY = "odradek.option"
TRUTHS = {"true": True, "false": False}


class Secret(str):
    """A password: shown as asterisks. `secret.reveal()` is the value."""

    __slots__ = ()

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"'{MASK}'"

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def reveal(self) -> str:
        return "".join(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    doc: str
    name: str | None
    importance: Importance
    group: str | None
    check: Check | None


def option(
    doc: str,
    *,
    default: Any = dataclasses.MISSING,  # noqa: ANN401 (the type of the field)
    name: str | None = None,
    importance: Importance = "MEDIUM",
    group: str | None = None,
    check: Check | None = None,
) -> Any:  # noqa: ANN401
    """A field of a dataclass that is an option. Without a default the option is required."""
    declared = _Declared(doc=doc, name=name, importance=importance, group=group, check=check)
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata={_KEY: declared})
    return field(default=default, metadata={_KEY: declared})


def at_least(least: float) -> Check:
    return lambda value: None if value >= least else f"must be at least {least:g}"


def patterns(found: Sequence[str]) -> str | None:
    """What is wrong with regular expressions."""
    for each in found:
        try:
            re.compile(each)
        except re.error as wrong:
            return f"has {each!r}, which is not a regular expression: {wrong}"
    return None


def one_of(known: Collection[str], told: str) -> Check:
    """Each item of a list is known. `told` names the known ones."""

    def check(found: list[str]) -> str | None:
        wrong = sorted(set(found) - set(known))
        return f"has {wrong[0]!r}; {told}" if wrong else None

    return check


def topic_part(text: str) -> str | None:
    """A part of a topic's name."""
    return None if re.fullmatch(r"[A-Za-z0-9._-]+", text) else "must consist of letters, digits, '.', '_' and '-'"


def not_empty(value: Any) -> str | None:  # noqa: ANN401
    return None if value else "must not be empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One option, as REST describes it. `kind` is one of Kafka's type names."""

    name: str
    field: str
    kind: Literal["STRING", "INT", "LONG", "DOUBLE", "BOOLEAN", "LIST", "PASSWORD", "PREFIX"]
    required: bool
    default: Any
    doc: str
    importance: Importance
    group: str | None
    choices: tuple[str, ...]
    nullable: bool
    check: Check | None

    @property
    def default_text(self) -> str | None:
        """The default in the form of a config value."""
        return None if self.default is None else as_text(self.default)


def as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@cache
def definitions(config: type) -> tuple[Definition, ...]:
    """The options that a dataclass declares, in the order of its fields."""
    hints = typing.get_type_hints(config)
    return tuple(_definition(each, hints[each.name]) for each in dataclasses.fields(config) if _KEY in each.metadata)


def _definition(each: dataclasses.Field[Any], hint: Any) -> Definition:  # noqa: ANN401
    declared: _Declared = each.metadata[_KEY]
    nullable, hint = _without_none(hint)
    choices = tuple(map(str, typing.get_args(hint))) if typing.get_origin(hint) is Literal else ()
    has_default = each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
    default = None
    if each.default is not dataclasses.MISSING:
        default = each.default
    elif each.default_factory is not dataclasses.MISSING:
        default = each.default_factory()
    return Definition(
        name=declared.name or each.name.replace("_", "."),
        field=each.name,
        kind="STRING" if choices else _kind(each.name, hint),
        required=not has_default,
        default=default,
        doc=declared.doc,
        importance=declared.importance,
        group=declared.group,
        choices=choices,
        nullable=nullable,
        check=declared.check,
    )


def _without_none(hint: Any) -> tuple[bool, Any]:  # noqa: ANN401
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        if len(kinds) == 1:
            return True, kinds[0]
    return False, hint


_KINDS: dict[Any, Literal["STRING", "LONG", "DOUBLE", "BOOLEAN", "LIST", "PASSWORD", "PREFIX"]] = {
    str: "STRING",
    int: "LONG",
    float: "DOUBLE",
    bool: "BOOLEAN",
    list[str]: "LIST",
    Secret: "PASSWORD",
    dict[str, str]: "PREFIX",
}


def _kind(name: str, hint: Any) -> Literal["STRING", "LONG", "DOUBLE", "BOOLEAN", "LIST", "PASSWORD", "PREFIX"]:  # noqa: ANN401
    if hint not in _KINDS:
        told = getattr(hint, "__name__", str(hint))
        raise TypeError(
            f"the option {name!r} has the type {told}; an option is str, int, float, bool, list[str], dict[str, str], "
            "Secret, a Literal of texts, or one of these with `| None`"
        )
    return _KINDS[hint]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The value of one option: as given, and what is wrong with it."""

    definition: Definition
    text: str | None
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed(Generic[C]):
    """`config` is None if an option has an error."""

    config: C | None
    checked: tuple[Checked, ...]
    used: frozenset[str]

    @property
    def errors(self) -> list[str]:
        return [error for each in self.checked for error in each.errors]


def parse(config: type[C], given: Mapping[str, str]) -> Parsed[C]:
    """Reads the options of a dataclass from texts. Options of others are left alone: see `unknown`."""
    values: dict[str, Any] = {}
    checked: list[Checked] = []
    used: set[str] = set()
    for each in definitions(typing.cast("type", config)):
        if each.kind == "PREFIX":
            found = {name: text for name, text in given.items() if name.startswith(f"{each.name}.")}
            used |= found.keys()
            inner = {name.removeprefix(f"{each.name}."): text for name, text in found.items()}
            values[each.field] = inner
            complaint = each.check(inner) if each.check is not None and inner else None
            wrong: tuple[str, ...] = () if complaint is None else (f'an option of "{each.name}" {complaint}',)
            checked.append(Checked(definition=each, text=None, errors=wrong))
            continue
        text = given.get(each.name)
        used |= {each.name} & given.keys()
        value, wrong = _value(each, text)
        values[each.field] = value
        checked.append(Checked(definition=each, text=each.default_text if text is None else text, errors=wrong))
    is_good = not any(each.errors for each in checked)
    parsed = config(**values) if is_good else None
    return Parsed(config=parsed, checked=tuple(checked), used=frozenset(used))


def _value(each: Definition, text: str | None) -> tuple[Any, tuple[str, ...]]:
    if text is None:
        if each.required:
            return None, (f'missing required option "{each.name}": {each.doc}',)
        return each.default, ()
    if text == "" and each.nullable:
        return None, ()
    try:
        value = _read(each, text)
    except ValueError as wrong:
        return None, (f'"{each.name}" is {_shown(each, text)}, {wrong}',)
    complaint = each.check(value) if each.check is not None else None
    return value, () if complaint is None else (f'"{each.name}" is {_shown(each, text)}, but it {complaint}',)


def _shown(each: Definition, text: str) -> str:
    return MASK if each.kind == "PASSWORD" else repr(text)


def _read(each: Definition, text: str) -> Any:  # noqa: ANN401
    match each.kind:
        case "LONG" | "INT":
            return _converted(int, text, "which is not an integer")
        case "DOUBLE":
            return _converted(float, text, "which is not a number")
        case "BOOLEAN":
            if text.lower() not in TRUTHS:
                raise ValueError("but it must be true or false")
            return TRUTHS[text.lower()]
        case "LIST":
            return [part.strip() for part in text.split(",") if part.strip()]
        case "PASSWORD":
            return Secret(text)
        case _:
            if each.choices and text not in each.choices:
                raise ValueError(f"but it must be one of {', '.join(each.choices)}")
            return text


def _converted(kind: Callable[[str], Any], text: str, complaint: str) -> Any:  # noqa: ANN401
    try:
        return kind(text.strip())
    except ValueError:
        raise ValueError(complaint) from None


def unknown(given: Mapping[str, str], used: frozenset[str], known: list[str]) -> list[tuple[str, str]]:
    """Options that no declaration knows, each with a sentence that names the nearest known option."""
    told = []
    for name in sorted(given.keys() - used):
        near = get_close_matches(name, known, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        told.append((name, f"there is no option {name!r}{hint}"))
    return told
