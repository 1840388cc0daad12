"""Checks the config of a connector: every option by its declaration, then what the options mean together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from odradek.client.java_names import librdkafka_config
from odradek.client.refused import RefusedConfig
from odradek.connect.common_options import CommonOptions, SinkOptions, SourceOptions
from odradek.connect.conversion import converter
from odradek.connect.options import Checked, Definition, Parsed, definitions, parse, unknown
from odradek.connect.plugins import BrokenPlugin, NoSuchPlugin, Plugin, plugin
from odradek.connect.providers import Unresolved, resolved
from odradek.connect.topic_creation import topic_rules
from odradek.connect.transformation import Transforms, checked_steps, unnamed_steps


class BadConfig(ValueError):
    """A config with errors. `errors` has one sentence for each."""

    def __init__(self, errors: list[str]) -> None:
        self.errors = errors
        super().__init__("; ".join(errors))


# An address such as http://user:password@host has a password whatever the name of its option is.
_URL_LOGIN = re.compile(r"://[^/@\s]*:[^/@\s]+@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The result for each option. `unknown` are options that no declaration has, each with its error."""

    plugin: Plugin
    checked: tuple[Checked, ...]
    unknown: tuple[tuple[str, str], ...]
    common: CommonOptions | None
    own: Any  # an instance of the connector's Config, or None

    @property
    def errors(self) -> list[str]:
        return [error for each in self.checked for error in each.errors] + [told for _, told in self.unknown]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A connector whose config is valid, with its references resolved: ready to run."""

    plugin: Plugin
    common: CommonOptions
    own: Any
    given: Mapping[str, str]

    @property
    def is_source(self) -> bool:
        return self.plugin.kind == "source"


def options_of(kind: Plugin) -> tuple[Definition, ...]:
    if kind.kind not in ("source", "sink"):
        return definitions(kind.loaded.Config)
    common = SourceOptions if kind.kind == "source" else SinkOptions
    return definitions(common) + definitions(kind.loaded.Config)


def secrets_of(given: Mapping[str, str]) -> frozenset[str]:
    """The names of the options in a config that hold passwords."""
    try:
        kind = plugin(given.get("connector.class", ""))
    except (NoSuchPlugin, BrokenPlugin):
        return frozenset()
    declared = {each.name for each in options_of(kind) if each.kind == "PASSWORD"}
    return frozenset(
        name for name, text in given.items() if name in declared or _sounds_secret(name) or _URL_LOGIN.search(text)
    )


def _sounds_secret(name: str) -> bool:
    """For options of converters and clients, which are not declared here."""
    return bool(
        re.search(
            r"(password|secret|credential(?!s\.source)|\.key$|jaas\.config|token|user\.info)", name, re.IGNORECASE
        )
    )


def validated(given: Mapping[str, str]) -> Validation:
    """Raises NoSuchPlugin and BrokenPlugin."""
    kind = plugin(given.get("connector.class", ""))
    try:
        values, unresolved = resolved(given), None
    except Unresolved as wrong:
        values, unresolved = dict(given), str(wrong)
    common: Parsed[Any] = parse(SourceOptions if kind.kind == "source" else SinkOptions, values)
    own: Parsed[Any] = parse(kind.loaded.Config, values)
    used = common.used | own.used
    known = [each.name for each in options_of(kind)]
    checked = [_as_given(each, given) for each in (*common.checked, *own.checked)]
    for name, check in _CHECKS.items():
        told = unresolved if name == "connector.class" else None
        told = told or (check(common.config, values) if common.config is not None else None)
        if told is not None:
            checked = [_with_error(each, told) if each.definition.name == name else each for each in checked]
    checked += [_as_given(each, given) for each in checked_steps(values)]
    return Validation(
        plugin=kind,
        checked=tuple(checked),
        unknown=tuple(unknown(given, used, known)),
        common=common.config,
        own=own.config,
    )


def connector(given: Mapping[str, str]) -> Connector:
    """The connector of a valid config. Raises BadConfig, NoSuchPlugin, BrokenPlugin and Unresolved."""
    checked = validated(given)
    if checked.errors or checked.common is None:
        raise BadConfig(checked.errors)
    return Connector(plugin=checked.plugin, common=checked.common, own=checked.own, given=resolved(given))


def _as_given(each: Checked, given: Mapping[str, str]) -> Checked:
    """References are shown, never what they resolve to."""
    text = given.get(each.definition.name, each.text)
    return Checked(definition=each.definition, text=text, errors=each.errors)


def _with_error(each: Checked, told: str) -> Checked:
    return Checked(definition=each.definition, text=each.text, errors=(*each.errors, told))


def _failure(build: Callable[[], object]) -> str | None:
    try:
        build()
    except (ValueError, RefusedConfig, NoSuchPlugin, BrokenPlugin) as wrong:
        return str(wrong)
    return None


def _topics(common: CommonOptions, _: Mapping[str, str]) -> str | None:
    if not isinstance(common, SinkOptions):
        return None
    if bool(common.topics) == bool(common.topics_regex):
        return 'a sink needs exactly one of "topics" and "topics.regex"'
    if common.errors_deadletterqueue_topic_name in common.topics:
        return f"the dead letters of {common.name!r} may not go to a topic that it reads"
    return None


def _regex(common: CommonOptions, _: Mapping[str, str]) -> str | None:
    if not isinstance(common, SinkOptions) or not common.topics_regex:
        return None
    try:
        re.compile(common.topics_regex)
    except re.error as wrong:
        return f'"topics.regex" is not a regular expression: {wrong}'
    return None


def _overrides(common: CommonOptions, _: Mapping[str, str]) -> str | None:
    given = common.producer_override if isinstance(common, SourceOptions) else {}
    given = common.consumer_override if isinstance(common, SinkOptions) else given
    return _failure(lambda: librdkafka_config(given))


def _creation(common: CommonOptions, _: Mapping[str, str]) -> str | None:
    given = common.topic_creation if isinstance(common, SourceOptions) else {}
    return _failure(lambda: topic_rules(given))


def _transforms(given: Mapping[str, str]) -> str | None:
    """Errors of single options are shown beside them; this finds what is wrong between options."""
    if unnamed := unnamed_steps(given):
        return "; ".join(unnamed)
    if any(each.errors for each in checked_steps(given)):
        return None
    return _failure(lambda: Transforms(given))


# By the option that shows the error.
_CHECKS: dict[str, Callable[[CommonOptions, Mapping[str, str]], str | None]] = {
    "connector.class": lambda _common, _given: None,
    "topics": _topics,
    "topics.regex": _regex,
    "topic.creation": _creation,
    "producer.override": _overrides,
    "consumer.override": _overrides,
    "key.converter": lambda _, given: _failure(lambda: converter(given, "key.converter", is_key=True)),
    "value.converter": lambda _, given: _failure(lambda: converter(given, "value.converter", is_key=False)),
    "header.converter": lambda _, given: (
        _failure(lambda: converter(given, "header.converter", is_key=False)) if "header.converter" in given else None
    ),
    "transforms": lambda _, given: _transforms(given),
}
