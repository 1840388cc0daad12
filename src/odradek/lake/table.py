"""The interface of tables: rows are appended together with the offsets that they cover, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

ATTEMPTS_MAX = 10


class TableUnavailable(Exception):
    """The storage or the catalog does not answer, or other writers were always faster. Trying again may help."""


class TableTakenOver(Exception):
    """Another process has appended rows for the same source since this one opened the table."""


class PackageMissing(ImportError):
    """A format needs a package that is not installed."""

    def __init__(self, format_name: str, package: str) -> None:
        super().__init__(f"format={format_name} needs the package {package}; pip install 'odradek[lake]'")


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of the last append of one source: the source's committed offset before it, and the offset after it.

    `begin` is -1 if the source had no committed offset. A source that starts again inside the span has crashed
    between the append and its own commit: it skips the records before `end`.
    """

    begin: int
    end: int

    def covers(self, committed: int | None) -> bool:
        return self.begin <= (-1 if committed is None else committed) < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of one source, such as a partition of a topic. `source` is the name under which its span is stored."""

    source: str
    span: Span
    rows: pa.Table


class Table(Protocol):
    """One table. Its columns are only added to, never changed."""

    def columns(self) -> pa.Schema | None:
        """The columns as they are stored now, or None if the table does not exist."""
        ...

    def span(self, source: str) -> Span | None:
        """The span of the last append of a source. Must be called once before a source's first append."""
        ...

    def append(self, parts: Sequence[Part], columns: pa.Schema) -> None:
        """Appends rows and spans in one commit. Creates the table, or adds the columns that it does not have."""
        ...

    def rows(self) -> pa.Table:
        """All rows."""
        ...


def landed(stored: Mapping[str, Span | None], known: Mapping[str, Span | None], parts: Sequence[Part]) -> bool:
    """Whether an append whose outcome is unknown has happened. Raises TableTakenOver if other spans were stored."""
    if all(stored[part.source] == part.span for part in parts):
        return True
    for part in parts:
        if stored[part.source] != known[part.source]:
            raise TableTakenOver(
                f"another process has appended rows of {part.source}: the table has {stored[part.source]}, "
                f"expected {known[part.source]}; this task stops"
            )
    return False


def commit_or_retry(
    attempt: Callable[[], None],
    stored: Callable[[], Mapping[str, Span | None]],
    known: dict[str, Span | None],
    parts: Sequence[Part],
    conflict: type[Exception],
) -> None:
    """Commits optimistically: looks at the newest version of the table, and again after a conflict with a writer."""
    for _ in range(ATTEMPTS_MAX):
        if landed(stored(), known, parts):
            break
        try:
            attempt()
        except conflict as lost:
            failed = lost
            continue
        break
    else:
        if not landed(stored(), known, parts):
            raise TableUnavailable(f"{ATTEMPTS_MAX} commits lost against other writers: {failed}") from failed
    known.update({part.source: part.span for part in parts})
