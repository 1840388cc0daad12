"""Predicates: to which records a transform applies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from odradek.connect.options import not_empty, option
from odradek.connect.records import Record
from odradek.connect.transforms.java_regex import is_java_pattern, java_pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNameMatchesOptions:
    pattern: str = option("A regular expression for the whole topic.", check=is_java_pattern)


class TopicNameMatches:
    """Holds for records whose topic matches a pattern."""

    Config: ClassVar[type] = TopicNameMatchesOptions

    def __init__(self, config: TopicNameMatchesOptions) -> None:
        self._pattern = java_pattern(config.pattern)

    def holds(self, record: Record) -> bool:
        return self._pattern.fullmatch(record.topic) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class HasHeaderKeyOptions:
    name: str = option("The name of the header.", check=not_empty)


class HasHeaderKey:
    """Holds for records that have a header of this name."""

    Config: ClassVar[type] = HasHeaderKeyOptions

    def __init__(self, config: HasHeaderKeyOptions) -> None:
        self._name = config.name

    def holds(self, record: Record) -> bool:
        return any(header.key == self._name for header in record.headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIsTombstoneOptions:
    pass


class RecordIsTombstone:
    """Holds for records without a value."""

    Config: ClassVar[type] = RecordIsTombstoneOptions

    def __init__(self, config: RecordIsTombstoneOptions) -> None:
        pass

    def holds(self, record: Record) -> bool:
        return record.value is None
