"""Steps whose results may depend on how the input is cut into micro-batches, and what the engine leaves to Spark.

The engine takes rows in the order of their time, whichever micro-batch they come in. Here is what it cannot answer for.
"""

from __future__ import annotations

from odradek.streams.graph.checks import waits_for_time
from odradek.streams.graph.nodes import (
    Aggregate,
    Frame,
    MapPandas,
    MapRows,
    Node,
    Process,
    SchemaOf,
    Select,
    Sql,
    StaticFrame,
    StaticJoin,
    Topic,
    WithColumns,
)
from odradek.streams.graph.planning import called, foreign_calls
from odradek.streams.graph.sinks import ForeachBatch

_ORDERED = """
    first last any_value first_value last_value collect_list collect_set array_agg listagg string_agg mode max_by min_by
"""
ORDERED_AGGREGATES = frozenset(_ORDERED.split())


def why_by_micro_batch(node: Node, *, by_engine: bool) -> str | None:
    """Why the results of a step may depend on micro-batches, in a sentence; None when they do not."""
    match node:
        case Topic(schema=SchemaOf()):
            return "tasks write the topic of through() side by side, and the next step reads in that order"
        case MapPandas():
            return "the function gets pieces of a micro-batch"
        case StaticJoin():
            return "Spark reads the DataFrame again for each micro-batch"
        case Sql():
            return "Spark runs the SQL on each micro-batch"
        case ForeachBatch():
            return "the function is called once per micro-batch"
        case Process(timers="processing"):
            return "timers fire by the clock of the machine, at the end of a micro-batch"
    return None if by_engine else _why_in_spark(node)


def _why_in_spark(node: Node) -> str | None:
    if isinstance(node, Aggregate):
        if ordered := called(node.aggregates) & ORDERED_AGGREGATES:
            return f"Spark gives the rows to {_listed(ordered)} in no fixed order"
        if foreign := foreign_calls(node):
            return f"Spark computes {_listed(foreign)}, and drops late rows micro-batch by micro-batch"
    return "Spark moves event time, and drops late rows, micro-batch by micro-batch" if waits_for_time(node) else None


def why_foreign(node: Node) -> str:
    """Why the engine cannot run a step."""
    match node:
        case Frame() | StaticFrame() | StaticJoin():
            return "it has a DataFrame of Spark"
        case Sql():
            return "only Spark runs SQL"
        case ForeachBatch():
            return "its function takes a DataFrame of Spark"
        case Aggregate() if foreign := foreign_calls(node):
            return f"only Spark computes {_listed(foreign)}"
        case Select() | WithColumns():
            return f"only Spark makes several rows of one: {_listed(foreign_calls(node))}"
        case MapRows() | MapPandas():
            return "its function takes the rows of merged streams"
    return "only Spark reaches the state directory"


def _listed(names: frozenset[str]) -> str:
    return " and ".join(sorted(names))
