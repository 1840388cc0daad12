"""A problem of a cluster: what it is, why, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    GOOD = 0
    UNKNOWN = 1
    WARN = 2
    BAD = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`path` is the page that shows the problem, without the prefix; `command` is what the next step may run."""

    level: Level
    what: str
    why: str
    step: str
    path: str = "/"
    command: str = ""
    # Groups that lag because of this problem: they are no findings of their own.
    explains: frozenset[str] = frozenset()


NAMED_MAX = 5


def few(found: Sequence[Finding], more: Callable[[int], str], *, step: str, path: str) -> Iterator[Finding]:
    """The first findings, and one that sums up the others. `more` names it by their number; `path` is their list."""
    yield from found[:NAMED_MAX]
    left = found[NAMED_MAX:]
    if left:
        yield Finding(
            level=max(each.level for each in left),
            what=more(len(left)),
            why=left[0].what,
            step=step,
            path=path,
            explains=frozenset(group for each in left for group in each.explains),
        )
