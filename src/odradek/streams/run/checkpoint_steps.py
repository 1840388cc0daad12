"""State belongs to the steps that made it: a checkpoint is not continued by others.

Spark sees that columns or keys no longer fit, when the first rows come. A window of another length or a sum of another
column it does not see: results begun by the old code would be finished by the new one. So the fingerprint of a query
is kept beside its checkpoint and compared before anything starts. A checkpoint without one is from before there were
any, and is taken as it is.

A query finds its checkpoint by its name. If another declaration order changed the name, the query would begin without
state at `start=`: that is refused, too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from odradek.pipeline.durable import ASIDE
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.layout import DEFAULT_STATE_DIR, Layout
from odradek.streams.compile.fingerprint import Line, fingerprint, source_text
from odradek.streams.graph.nodes import Topic
from odradek.streams.graph.planning import Query
from odradek.streams.run.durable import write_durably

WORDING = "steps, in the words of version 1"
"""The first line. Fingerprints of another version cannot be compared, and are replaced."""


def keep_to_the_steps(layout: Layout, queries: Sequence[Query]) -> None:
    """Refuses all queries if one would go on with the state of other steps; else each has its fingerprint on disk."""
    fingerprints = {query.name: fingerprint(query) for query in queries}
    for query in queries:
        _check(layout, query, fingerprints[query.name])
    for orphan in _left_behind(layout, queries):
        _check_heirs(layout, orphan, queries)
    for name, lines in fingerprints.items():
        _keep(layout.steps(name), [WORDING, *(line.text for line in lines)])


def _check(layout: Layout, query: Query, lines: tuple[Line, ...]) -> None:
    wording, *old = _read(layout.steps(query.name)) or [""]
    new = [line.text for line in lines]
    if wording != WORDING or old == new or not _has_begun(layout, query.name):
        return
    raise PipelineError(
        f"{query.name} has a checkpoint that different steps wrote",
        why=f"these steps would misread the state in {layout.checkpoint(query.name)}:\n" + "\n".join(changes(old, new)),
        instead=f"the step as it was, or\n{_reset(layout)}, to begin again, or\n"
        f"another name= for {query.trunk.name}: it starts without state, and the old checkpoint is left behind",
        origin=next((line.origin for line in lines if line.text not in old), query.trunk.origin),
    )


def _left_behind(layout: Layout, queries: Sequence[Query]) -> list[str]:
    """The queries that have begun and are no more."""
    known = {path.name for path in layout.steps("").glob("*") if not path.name.endswith(ASIDE)}
    return [name for name in sorted(known - {query.name for query in queries}) if _has_begun(layout, name)]


def _check_heirs(layout: Layout, orphan: str, queries: Sequence[Query]) -> None:
    """Refuses a new query if a removed query has read the same topics, unless it has a new name."""
    wording, *old = _read(layout.steps(orphan)) or [""]
    names = {source.name for query in queries for source in query.sources}
    for query in queries:
        same = sorted({source_text(source) for source in query.sources} & {*old})
        has_begun = layout.steps(query.name).exists() and _has_begun(layout, query.name)
        is_renamed = orphan not in names and not (isinstance(query.trunk, Topic) and query.name in query.trunk.topics)
        if wording != WORDING or not same or has_begun or is_renamed:
            continue
        raise PipelineError(
            f"the checkpoint of {orphan} would be left behind",
            why=f"the query {query.name} also reads {' and '.join(same)}. It would begin at start=, without the "
            f"state in {layout.checkpoint(orphan)}",
            instead="the streams in the old order: a query has the name of its first stream. Or begin again:\n"
            f"{_reset(layout)}",
            origin=query.trunk.origin,
        )


def changes(old: list[str], new: list[str]) -> Iterator[str]:
    """The lines that differ, old → new."""
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            for before, after in zip_longest(old[a:b], new[c:d], fillvalue="nothing"):
                yield f"{before} → {after}"


def _has_begun(layout: Layout, query: str) -> bool:
    """Whether there is anything in the checkpoint; of one that only Spark can reach, the fingerprint is all we know."""
    return layout.is_remote or any(Path(layout.checkpoint(query), "offsets").glob("[0-9]*"))


def _reset(layout: Layout) -> str:
    elsewhere = Path(layout.state_dir) != Path(DEFAULT_STATE_DIR).absolute()
    return f"odradek streams reset {layout.app}" + (f" --state-dir {layout.state_dir}" if elsewhere else "")


def _read(path: Path) -> list[str] | None:
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else None


def _keep(path: Path, lines: list[str]) -> None:
    """Writes the steps to disk before the first state, so that a crash leaves no state without its steps."""
    if _read(path) == lines:
        return
    write_durably(path, "\n".join(lines) + "\n")
