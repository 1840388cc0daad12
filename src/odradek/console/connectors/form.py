"""A form for the config of a connector, made from what its plug-in declares: names, types, defaults, docs and groups.

The service validates: `PUT /connector-plugins/{name}/config/validate` has the declaration, the values and their errors
in one answer. Options that no declaration names, such as those of transforms, are lines of text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.console.connectors.api import PLUGINS_S, ConnectApi, Silent
from odradek.console.connectors.secrets import MASK, is_secret

CLASS, NAME = "connector.class", "name"
FIELD, REMOVED = "o:", "remove:"  # before the names of options in the fields of the form
MORE = "more"
FIRST = "Most important"
OWN = "Options of this connector"
FIXED = (CLASS, NAME)
SELECT_MAX = 8  # more are suggestions
NUMBERS = ("INT", "LONG", "SHORT", "DOUBLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    name: str
    kind: str  # one of Kafka's names of types
    doc: str
    group: str
    default: str | None
    required: bool
    choices: tuple[str, ...]
    value: str  # as typed; empty for the default
    errors: tuple[str, ...]
    is_secret: bool
    is_stored: bool  # a secret that the connector has, and that is not shown
    is_important: bool

    @property
    def field(self) -> str:
        return FIELD + self.name

    @property
    def input(self) -> str:
        if self.is_secret:
            return "password"
        if self.kind == "BOOLEAN" or 0 < len(self.choices) <= SELECT_MAX:
            return "select"
        return "number" if self.kind in NUMBERS else "text"

    @property
    def texts(self) -> tuple[str, ...]:
        """What a select offers."""
        found = self.choices or ("true", "false")
        return found if not self.value or self.value in found else (*found, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    title: str
    options: tuple[Option, ...]

    @property
    def is_open(self) -> bool:
        return self.title in (FIRST, OWN) or any(option.errors or option.value for option in self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    plugin: str
    groups: tuple[Group, ...]
    more: str  # options without a declaration, one name=value in each line
    more_errors: tuple[str, ...]
    errors: int


class BadLine(ValueError):
    """A line of the other options that is no name=value."""


def typed(fields: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """The config that the fields of a form mean. An empty field is the default; an empty secret keeps its value.

    Raises BadLine.
    """
    config = {NAME: fields.get(NAME, "").strip(), CLASS: fields.get(CLASS, "").strip()}
    for field, text in fields.items():
        name = field.removeprefix(FIELD)
        if field.startswith(FIELD) and text.strip():
            config[name] = text.strip()
    for name, value in stored.items():
        if f"{FIELD}{name}" in fields and name not in config and is_hidden(fields, name):
            config[name] = value
    config |= {
        name: stored.get(name, value) if value == MASK else value for name, value in _lines(fields.get(MORE, ""))
    }
    return {name: value for name, value in config.items() if value}


def is_hidden(fields: Mapping[str, str], name: str) -> bool:
    """Whether the form has the option as a secret that it did not show, and the user wants to keep."""
    return f"stored:{name}" in fields and f"{REMOVED}{name}" not in fields


def _lines(text: str) -> list[tuple[str, str]]:
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise BadLine(f"{line.strip()[:60]!r} is not name=value")
        found.append((name.strip(), value.strip()))
    return found


def form_of(api: ConnectApi, config: Mapping[str, str], *, with_errors: bool) -> Form:
    """The form with the values of a config, and what is wrong with them. Raises Silent and Declined."""
    answer = api.ask(
        "PUT", "connector-plugins", config[CLASS], "config", "validate", body=dict(config), within_s=PLUGINS_S
    )
    try:
        rows = [(row["definition"], row["value"]) for row in answer["configs"]]
        options = [_option(definition, value, config, with_errors=with_errors) for definition, value in rows]
        declared = {option.name for option, (definition, _) in zip(options, rows, strict=True) if _is_known(definition)}
    except (TypeError, KeyError, ValueError) as wrong:
        raise Silent(f"{api.url} has not validated the config: {type(wrong).__name__} in its answer") from wrong
    shown = [option for option in options if option.name in declared and option.name not in FIXED]
    others = {name: value for name, value in config.items() if name not in declared and name not in FIXED}
    more_errors = [error for option in options if option.name not in declared for error in option.errors]
    fixed = [error for option in options if option.name in FIXED for error in option.errors]
    return Form(
        plugin=config[CLASS],
        groups=tuple(_grouped(shown)),
        more="\n".join(f"{name}={MASK if is_secret(name, value) else value}" for name, value in sorted(others.items())),
        more_errors=(*more_errors, *fixed),
        errors=sum(bool(option.errors) for option in options),
    )


def _option(
    definition: Mapping[str, Any], value: Mapping[str, Any], config: Mapping[str, str], *, with_errors: bool
) -> Option:
    name, kind = str(definition["name"]), str(definition["type"])
    given = config.get(name, "")
    secret = kind == "PASSWORD" or is_secret(name, given)
    default = definition.get("default_value")
    return Option(
        name=name,
        kind=kind,
        doc=str(definition.get("documentation") or ""),
        group=str(definition.get("group") or OWN),
        default=None if default is None or secret else str(default),
        required=bool(definition.get("required")),
        choices=tuple(str(each) for each in value.get("recommended_values") or ()),
        value="" if secret and is_secret(name, given, [name]) else given,
        errors=tuple(str(each) for each in value.get("errors") or ()) if with_errors else (),
        is_secret=secret,
        is_stored=secret and is_secret(name, given, [name]),
        is_important=bool(definition.get("required")) or definition.get("importance") == "HIGH",
    )


def _is_known(definition: Mapping[str, Any]) -> bool:
    """The plug-in declares the option: otherwise it has no documentation and no place."""
    return bool(definition.get("documentation")) or int(definition.get("order", 0) or 0) > 0


def _grouped(options: Sequence[Option]) -> list[Group]:
    """What is required or important comes first, then each group of the declaration, then the rest."""
    groups: dict[str, list[Option]] = {FIRST: [], OWN: []}
    for option in options:
        groups.setdefault(FIRST if option.is_important else option.group, []).append(option)
    ordered = list(groups.items())
    # The options of the plug-in come before the options of every connector.
    ordered.sort(key=lambda each: {FIRST: 0, OWN: 1}.get(each[0], 2))
    return [Group(title=title, options=tuple(found)) for title, found in ordered if found]
