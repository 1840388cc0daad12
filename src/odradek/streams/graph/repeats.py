"""Whether a sink writes each result exactly once: what would be different when a micro-batch is repeated.

Spark repeats an interrupted micro-batch. A task that has written its records then writes none again, so its records are
those of the first attempt. That is exactly once only if both attempts give the same rows.
"""

from __future__ import annotations

from odradek.streams.graph.column_names import expressions_of
from odradek.streams.graph.nodes import (
    Fold,
    Frame,
    MapPandas,
    MapRows,
    Node,
    Process,
    Sql,
    StaticJoin,
)
from odradek.streams.graph.planning import called
from odradek.streams.graph.settings import AT_LEAST_ONCE, Settings
from odradek.streams.graph.sinks import ForeachBatch, ForeachRow, LakeTable, Sink

_CHANGING_NAMES = """
    rand randn random randstr uniform uuid shuffle monotonically_increasing_id
    now current_timestamp current_date current_time curdate localtimestamp unix_timestamp
"""
CHANGING = frozenset(_CHANGING_NAMES.split())
EXACTLY_ONCE_READ = "exactly once for readers with read_committed"


def guarantee(sink: Sink, settings: Settings) -> str:
    """What a sink guarantees, in a sentence."""
    if isinstance(sink, ForeachRow | ForeachBatch):
        return "at least once: the function is called again when a micro-batch is repeated"
    if isinstance(sink, LakeTable):
        return "exactly once: the number of the micro-batch is in the commit of its rows"
    if settings.delivery == AT_LEAST_ONCE:
        return f"at least once: the application has delivery={AT_LEAST_ONCE!r}"
    if (why := why_different(sink)) is not None:
        return f"not exactly once: {why}"
    functions = [node.name for node in sink.ancestry() if isinstance(node, MapRows | MapPandas | Fold | Process)]
    if functions:
        verb = "returns" if len(functions) == 1 else "return"
        return f"{EXACTLY_ONCE_READ}, if {' and '.join(functions)} {verb} the same rows again"
    return EXACTLY_ONCE_READ


def why_different(sink: Sink) -> str | None:
    """Why a repeated micro-batch may give other rows; None: nothing that is known here."""
    for node in sink.ancestry():
        if (why := _why(node)) is not None:
            return f"{node.name}: {why}"
    return None


def _why(node: Node) -> str | None:
    match node:
        case Process(timers="processing"):
            return "its timers follow the clock of the machine"
        case StaticJoin():
            return "Spark reads the DataFrame again, and it may have changed"
        case Frame():
            return "its source is not a topic of this application, and may give other rows when it is read again"
    names = called((node.query,) if isinstance(node, Sql) else expressions_of(node))
    other = names & CHANGING
    return f"{' and '.join(sorted(other))} give{'s' if len(other) == 1 else ''} other values" if other else None
