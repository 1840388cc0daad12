"""What Spark would refuse, refused where it is written."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from odradek.lake.names import CATALOG, FORMATS, OPTIONS, divided, unknown_options
from odradek.pipeline.errors import PipelineError
from odradek.streams.graph.columns import CARRIED
from odradek.streams.graph.nodes import (
    Aggregate,
    Deduplicate,
    Emit,
    Frame,
    MapPandas,
    Node,
    Process,
    SchemaOf,
    Sql,
    StreamJoin,
)
from odradek.streams.graph.windows import Window

NO_TIMES = frozenset(
    {"boolean", "tinyint", "smallint", "float", "double", "decimal", "binary", "array", "map", "struct", "variant"}
)


def trunk_of(node: Node) -> Node:
    """The deepest node a query must run itself: the last with state or several inputs, else the source."""
    while not node.stateful and len(streaming_inputs(node)) == 1:
        node = streaming_inputs(node)[0]
    return node


def streaming_inputs(node: Node) -> tuple[Node, ...]:
    return tuple(upstream for upstream in node.inputs if upstream.kind != "static")


def waits_for_time(node: Node) -> bool:
    """True of steps that need a watermark: they give or forget something when a time has come."""
    if isinstance(node, Process):
        has_timers = node.on_timer is not None or node.ttl is not None or hasattr(node.function, "on_timer")
        return node.timers == "event" and has_timers
    return isinstance(node, StreamJoin | Deduplicate | Sql) or (isinstance(node, Aggregate) and node.window is not None)


def keeps_running(node: Node) -> bool:
    """True of a result that is never final: an aggregate without a window."""
    return isinstance(node, Aggregate) and node.window is None


def check_appends(what: str, upstream: Node) -> None:
    """A step with state takes rows that stay: Spark chains such steps only when each gives final rows."""
    for node in upstream.ancestry():
        if keeps_running(node):
            raise PipelineError(
                f"{what} cannot follow {node.name}, an aggregate that is updated as rows come",
                why="Spark chains steps with state only when the earlier one gives final rows",
                instead='a window before the aggregate, or a topic between the two: .through("some-topic")',
            )


def check_running(upstream: Node) -> None:
    """An aggregate without a window is never final, so what comes before it must not need final results."""
    for node in upstream.ancestry():
        if gives_final_rows_alone(node):
            raise PipelineError(
                f"an aggregate without a window cannot follow {node.name}",
                why=f"its results are never final, and Spark runs {_called(node)} only where all results are",
                instead='a window, .window(tumbling("1 minute")), or a topic between the two: .through("some-topic")',
            )


def gives_final_rows_alone(node: Node) -> bool:
    """True of steps that Spark runs in append mode only: aggregates that others follow, outer joins of streams."""
    return isinstance(node, Aggregate) or (isinstance(node, StreamJoin) and node.how != "inner")


def check_time(what: str, upstream: Node) -> None:
    """A step that waits for time takes rows that have one."""
    if any(isinstance(node, MapPandas) for node in upstream.ancestry()):
        return  # it may give rows a time
    for node in upstream.ancestry():
        if isinstance(node, Frame) and node.time is None and "_time" not in getattr(node.frame, "columns", ()):
            raise PipelineError(
                f"{what} needs event time, and {node.name} has none",
                instead='app.from_df(frame, time="its time column")',
            )


def check_grouped(what: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    if not keys:
        raise PipelineError(
            f"{what} needs columns to tell rows apart by",
            why="it keeps something for each of their values",
            instead='their names, or .rekey("driverId") before',
        )
    return keys


def check_choice(what: str, chosen: str, *allowed: str) -> None:
    if chosen not in allowed:
        raise PipelineError(f"{what}={chosen!r} means nothing", instead=f"one of {', '.join(map(repr, allowed))}")


def check_retries(retries: object) -> None:
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise PipelineError(f"retries={retries!r} is no number of retries", instead="retries=3, or 0 for none")


def check_window(upstream: Node, window: Window, keys: tuple[str, ...]) -> None:
    check_time("a window", upstream)
    if window.kind in ("session", "sliding") and not keys:
        raise PipelineError(
            f"a {window.kind} window needs a group",
            why="it follows the rows of one key",
            instead=f'.group_by("driverId").window({window.kind}(...))',
        )


def check_format(format: Any, schema: Any) -> None:  # noqa: A002, ANN401 whatever formats take
    """A format that does not exist or a schema that Spark has no types for, as far as that shows without a JVM."""
    from odradek.pipeline.formats import check_schema, format_of

    if format is not None:
        format_of(format)
    if isinstance(schema, type | str):
        check_schema(schema)


def check_rows_schema(schema: Any) -> None:  # noqa: ANN401 whatever formats take
    """Checks the schema of the rows that a user's function returns."""
    from odradek.pipeline.formats import check_schema

    if isinstance(schema, type | str):
        check_schema(schema)


def check_source_columns(schema: Any, format: Any, time: str | None, key: tuple[str, ...]) -> None:  # noqa: A002, ANN401
    """A time or key that is no column of the source, or cannot be a time."""
    from odradek.pipeline.formats.declared import declared_columns

    if isinstance(schema, SchemaOf) or (time is None and not key):
        return
    columns = dict(declared_columns(schema, format))
    for option, name in (("time", time), *(("key", name) for name in key)):
        if name is not None and name not in columns:
            close = difflib.get_close_matches(name, columns, n=1)
            raise PipelineError(
                f"{option}={name!r} is no column of this source",
                why=f"the columns are {', '.join(columns)}",
                instead=f'{option}="{close[0]}"' if close else f"one of these columns, or {name} in the schema",
            )
    kind = "" if time is None else columns[time]
    if kind.partition("<")[0].partition("(")[0] in NO_TIMES:
        raise PipelineError(
            f"time={time!r} is {kind}, which is no time",
            instead="a column that is a timestamp, a date, epoch milliseconds as a whole number, or ISO 8601 text",
        )


def check_added(schema: Any, format: Any, added: Mapping[str, str | None]) -> None:  # noqa: A002, ANN401
    """The columns that options of a source add: none may be one of the value as well."""
    from odradek.pipeline.formats.declared import declared_columns

    wanted = {option: name for option, name in added.items() if name is not None}
    if not wanted:
        return
    columns = {*dict(declared_columns(schema, format)), *CARRIED}
    for option, name in wanted.items():
        if name in columns:
            raise PipelineError(
                f"the schema has a column {name!r}, and {option} adds one of that name",
                instead=f"another name for one of them, or the source without {option}",
            )
        columns.add(name)


def check_emit(node: Node, emit: Emit | None, *, default: Emit | None = None) -> Emit | None:
    """The emit of a sink on this node, refused where Spark could not follow it."""
    if emit is not None:
        check_choice("emit", emit, "final", "updates")
    trunk = trunk_of(node)
    if isinstance(trunk, Sql | Frame):
        return emit  # what is inside is for Spark to judge
    if not isinstance(trunk, Aggregate) or trunk.window is None:
        return _check_unwindowed(trunk, emit)
    reason = _why_only_final(trunk)
    if emit == "updates" and reason:
        raise PipelineError(f'emit="updates" is not possible on {trunk.name}', why=reason, instead='emit="final"')
    return emit or ("final" if reason else default or "final")


def check_lake_table(path: object, format: str, partition_by: tuple[str, ...], options: Mapping[str, str]) -> None:  # noqa: A002
    check_choice("format", format, *FORMATS)
    if not isinstance(path, str) or not divided(path)[1]:
        raise PipelineError(f"{path!r} is no path of a table", instead='"lake/orders", or "s3://bucket/lake/orders"')
    if len(set(partition_by)) < len(partition_by):
        raise PipelineError("partition_by names a column twice", instead="each column once")
    if unknown := unknown_options(options):
        raise PipelineError(
            f"there is no option {unknown[0]!r} of a table", instead=f"{', '.join(OPTIONS)}, {CATALOG}…, as text"
        )
    if wrong := next((name for name, value in options.items() if not isinstance(value, str)), None):
        raise PipelineError(f"the option {wrong} is {options[wrong]!r}, which is no text", instead='text: "10"')


def check_key(view: str, key: tuple[str, ...]) -> tuple[str, ...]:
    if not key:
        raise PipelineError(
            f"the view {view!r} needs a key",
            why="a view keeps the newest row of each key",
            instead=f'.materialize("{view}", key="driverId"), or .rekey("driverId") before',
        )
    return key


def _check_unwindowed(trunk: Node, emit: Emit | None) -> Emit | None:
    if keeps_running(trunk):
        if emit == "final":
            raise PipelineError(
                f'emit="final" on {trunk.name}, which never is final',
                why="without a window more rows may come to a group at any time",
                instead='a window, .group_by(...).window(tumbling("1 minute")).agg(...), or emit="updates"',
            )
        return "updates"
    if emit == "updates":
        raise PipelineError(
            'emit="updates" where every row is final',
            why="only aggregates have results that change",
            instead="the sink without emit=",
        )
    return None


def _why_only_final(trunk: Aggregate) -> str:
    if trunk.window is not None and trunk.window.kind == "session":
        return "sessions grow together as rows come; Spark gives them when they are over"
    if trunk.window is not None and trunk.window.kind == "sliding":
        return "there is a window for each row, and it is given once, when it is over"
    for upstream in trunk.inputs:
        for node in upstream.ancestry():
            if gives_final_rows_alone(node):
                return f"{node.name} comes before it, and Spark runs {_called(node)} only where all results are final"
    return ""


def _called(node: Node) -> str:
    return "an outer join of streams" if isinstance(node, StreamJoin) else "an aggregate that other state follows"
