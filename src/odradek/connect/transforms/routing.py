"""Transforms of the topic, and Filter, which drops records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from odradek.connect.options import option
from odradek.connect.records import Record
from odradek.connect.transforms.java_dates import DateFormat, is_date_format
from odradek.connect.transforms.java_regex import is_java_pattern, java_pattern, java_replacement
from odradek.connect.transforms.parts import CannotTransform
from odradek.connect.values import moment_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexRouterOptions:
    regex: str = option("The pattern; it must match the whole topic.", importance="HIGH", check=is_java_pattern)
    replacement: str = option("The new topic; $1 is the first group of the pattern.", importance="HIGH")


class RegexRouter:
    """Renames the topic by a regular expression."""

    Config: ClassVar[type] = RegexRouterOptions

    def __init__(self, config: RegexRouterOptions) -> None:
        self._pattern = java_pattern(config.regex)
        self._replacement = java_replacement(self._pattern, config.replacement)

    def apply(self, record: Record) -> Record:
        if not self._pattern.fullmatch(record.topic):
            return record
        return replace(record, topic=self._pattern.sub(self._replacement, record.topic, count=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampRouterOptions:
    topic_format: str = option(
        "The new topic; ${topic} and ${timestamp} are replaced.", default="${topic}-${timestamp}", importance="HIGH"
    )
    timestamp_format: str = option(
        "The format of the timestamp, as in Java's SimpleDateFormat; in UTC.",
        default="yyyyMMdd",
        importance="HIGH",
        check=is_date_format,
    )


class TimestampRouter:
    """Puts the record's timestamp into the topic."""

    Config: ClassVar[type] = TimestampRouterOptions

    def __init__(self, config: TimestampRouterOptions) -> None:
        self._topic = config.topic_format
        self._format = DateFormat(config.timestamp_format)

    def apply(self, record: Record) -> Record:
        if record.timestamp_ms is None:
            raise CannotTransform("the record has no timestamp for its topic")
        at = self._format.text(moment_of(record.timestamp_ms))
        return replace(record, topic=self._topic.replace("${topic}", record.topic).replace("${timestamp}", at))


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    pass


class Filter:
    """Drops all records. Its predicate says which of them it sees."""

    Config: ClassVar[type] = FilterOptions

    def __init__(self, config: FilterOptions) -> None:
        pass

    def apply(self, record: Record) -> None:  # noqa: ARG002 (the protocol of transforms)
        return None
