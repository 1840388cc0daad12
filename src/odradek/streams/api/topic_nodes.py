"""Topics as the user names them: sources of streams and tables, and the topics that failed records go to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.pipeline.durations import Duration, duration
from odradek.pipeline.errors import PipelineError
from odradek.streams.api.rows import Names
from odradek.streams.graph.checks import check_added, check_choice, check_format, check_source_columns
from odradek.streams.graph.columns import HEADERS
from odradek.streams.graph.graph import Graph, can_be_name
from odradek.streams.graph.nodes import Node, OnError, Topic
from odradek.streams.graph.sinks import DeadLetters, LateRows

if TYPE_CHECKING:
    from odradek.pipeline.formats import Format

DEFAULT_LATE = "10 seconds"
EVENT_TIME = "event_time"  # in topics between steps: a record has no other place for it


def add_topic(
    graph: Graph,
    topic: Names | None,
    *,
    pattern: str | None = None,
    schema: Any,  # noqa: ANN401 whatever formats take
    format: Format | str | None,  # noqa: A002 the word of Spark's readers
    time: str | None,
    late: Duration = DEFAULT_LATE,
    start: str = "earliest",
    dlq: str | None = None,
    on_error: OnError = "fail",
    name: str | None = None,
    options: Mapping[str, str] | None = None,
    table_key: tuple[str, ...] = (),
    key: tuple[str, ...] = (),
    idle_after: Duration | None = None,
    headers: bool = False,
    topic_as: str | None = None,
) -> Topic:
    """`key`: the columns that the user calls the record's key."""
    topics = _topics(topic, pattern, one=bool(table_key))
    check_format(format, schema)
    check_choice("on_error", on_error, "fail", "skip")
    format = format or ("raw" if schema is None else "json")  # noqa: A001
    check_source_columns(schema, format, time, table_key or key)
    check_added(schema, format, {"headers=True": HEADERS if headers else None, f"topic_as={topic_as!r}": topic_as})
    node = graph.add(
        Topic,
        name or _name(graph, topics, pattern),
        topics=topics,
        pattern=pattern,
        schema=schema,
        format=format,
        time=time,
        late=duration(late),
        start=start,
        dlq=dlq,
        on_error=on_error,
        table_key=table_key,
        idle_after=None if idle_after is None else duration(idle_after),
        headers=headers,
        topic_as=topic_as,
        options=options or {},
    )
    add_dead_letters(graph, node, dlq)
    return node


def _topics(given: Names | None, pattern: str | None, *, one: bool) -> tuple[str, ...]:
    if (given is None) == (pattern is None):
        raise PipelineError(
            "a stream reads topics by their names or by a pattern",
            why="both are given" if given is not None else "neither is given",
            instead='app.stream("orders"), app.stream(["orders", "returns"]), or app.stream(pattern="orders-.*")',
        )
    if pattern is not None:
        _check_pattern(pattern)
        return ()
    listed: list[Any] = [given] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    if not listed or any(not isinstance(name, str) or not name for name in listed):
        raise PipelineError(
            f"{given!r} does not name topics", instead='a name, "orders", or a list of names, ["orders", "returns"]'
        )
    if one and len(listed) > 1:
        raise PipelineError(
            "a table is the changelog of one topic",
            why="the newest record of a key is its row, and records of two topics have no order",
            instead='one topic, or app.stream(["a", "b"], ...).group_by("key").agg(...)',
        )
    return tuple(dict.fromkeys(listed))


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, TypeError) as problem:
        raise PipelineError(
            f"pattern={pattern!r} is no regular expression: {problem}", instead='pattern="orders-.*"'
        ) from problem


def _name(graph: Graph, topics: tuple[str, ...], pattern: str | None) -> str | None:
    """That of the topic; of several, all of them. None where that is no name, or is taken."""
    wanted = "-".join(topics) if pattern is None else re.sub(r"\W+", "-", pattern).strip("-")
    taken = any(node.name == wanted for node in graph.nodes)
    return wanted if not taken and (len(topics) == 1 or can_be_name(wanted)) else None


def add_late_rows(graph: Graph, node: Node, topic: str | None) -> None:
    if topic is not None:
        graph.add(LateRows, f"{node.name}-late", inputs=(node,), topic=topic)


def add_dead_letters(graph: Graph, node: Node, topic: str | None) -> None:
    if topic is not None:
        graph.add(DeadLetters, f"{node.name}-dead-letters", inputs=(node,), topic=topic)
