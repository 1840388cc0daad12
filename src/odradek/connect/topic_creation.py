"""`topic.creation.*` (KIP-158): how a source's missing topics are created, by the first group that matches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT = "default"
OWN = ("include", "exclude", "partitions", "replication.factor")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRule:
    group: str
    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]
    partitions: int
    replication_factor: int
    config: Mapping[str, str]

    def covers(self, topic: str) -> bool:
        return any(each.fullmatch(topic) for each in self.include) and not any(
            each.fullmatch(topic) for each in self.exclude
        )


def topic_rules(given: Mapping[str, str]) -> tuple[TopicRule, ...]:
    """The rules in `topic.creation.*` (without this prefix), the default last; none: topics are not created.

    Raises ValueError, which names the option.
    """
    if not given:
        return ()
    names = [name.strip() for name in given.get("groups", "").split(",") if name.strip()]
    for required in ("replication.factor", "partitions"):
        if f"{DEFAULT}.{required}" not in given:
            raise ValueError(f"topic.creation.{DEFAULT}.{required} is required when topic.creation.* is used")
    for key in given:
        if key != "groups" and key.partition(".")[0] not in (*names, DEFAULT):
            raise ValueError(f"topic.creation.{key} belongs to no group; topic.creation.groups names {names}")
    base = _rule(DEFAULT, given, None)
    return (*(_rule(name, given, base) for name in names if name != DEFAULT), base)


def rule_for(topic: str, rules: tuple[TopicRule, ...]) -> TopicRule | None:
    return next((rule for rule in rules if rule.covers(topic)), None)


def _rule(group: str, given: Mapping[str, str], base: TopicRule | None) -> TopicRule:
    own = {key.removeprefix(f"{group}."): text for key, text in given.items() if key.startswith(f"{group}.")}
    if base is not None and "include" not in own:
        raise ValueError(f"topic.creation.{group}.include is required: regular expressions of topics")
    return TopicRule(
        group=group,
        include=_patterns(group, "include", own.get("include", "") if base else ".*"),
        exclude=_patterns(group, "exclude", own.get("exclude", "") if base else ""),
        partitions=_number(group, "partitions", own, base.partitions if base else -1),
        replication_factor=_number(group, "replication.factor", own, base.replication_factor if base else -1),
        config=(dict(base.config) if base else {}) | {key: text for key, text in own.items() if key not in OWN},
    )


def _patterns(group: str, option: str, text: str) -> tuple[re.Pattern[str], ...]:
    try:
        return tuple(re.compile(part.strip()) for part in text.split(",") if part.strip())
    except re.error as wrong:
        raise ValueError(f"topic.creation.{group}.{option} is not a regular expression: {wrong}") from None


def _number(group: str, option: str, own: Mapping[str, str], default: int) -> int:
    text = own.get(option)
    if text is None:
        return default
    if not re.fullmatch(r"-1|[1-9]\d{0,4}", text.strip()):
        raise ValueError(f"topic.creation.{group}.{option} is {text!r}, but it must be -1 or a number above 0")
    return int(text)
