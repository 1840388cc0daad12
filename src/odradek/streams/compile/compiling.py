"""From the graph to DataFrames: one Compilation per query for its stream, and one per micro-batch for what is below it.

Every frame has the user's columns plus `_key` (binary) and `_time` (timestamp); a changelog has `_deleted` too.
An outcome is a frame with its failures still in it, in `_error`. Watermarks stand directly before the first step of
each branch that needs one: Spark accepts one per path, and what a filter drops moves no time, however wrong its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import StructField, StructType

from odradek.pipeline.durations import interval
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.layout import markers_of
from odradek.streams.compile.context import Place
from odradek.streams.compile.event_time import has_watermark
from odradek.streams.compile.explanations import explaining
from odradek.streams.compile.failures import good_rows
from odradek.streams.compile.step_frames import step
from odradek.streams.graph.checks import trunk_of, waits_for_time
from odradek.streams.graph.columns import CARRIED
from odradek.streams.graph.nodes import (
    Frame,
    MapPandas,
    MapRows,
    Merge,
    Node,
    Process,
    StaticFrame,
    StreamTableJoin,
    TableTableJoin,
    Topic,
)
from odradek.streams.graph.planning import grace_of
from odradek.streams.graph.settings import AT_LEAST_ONCE, Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def delivery(settings: Settings, group: str, sink: str) -> dict[str, str]:
    """Options of the sink `sink` of a query: its guarantee, and its name in the topic of markers."""
    if settings.delivery == AT_LEAST_ONCE:
        return {"delivery.guarantee": AT_LEAST_ONCE}
    return {
        **({} if settings.delivery is None else {"delivery.guarantee": settings.delivery}),
        "delivery.sink": f"{group}.{sink}",
        "delivery.markers": markers_of(group),
    }


class Compilation:
    """Frames of the nodes down to `trunk`; `known` are outcomes that exist already: a micro-batch of the trunk.

    With `records`, rows carry the record they came from in `_record`, for functions that may fail on them.
    A dry one is for schemas alone: it asks no broker.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        group: str,
        trunk: Node,
        known: Mapping[Node, DataFrame] | None = None,
        *,
        records: bool = False,
        dry: bool = False,
        places: Mapping[Node, Place] | None = None,
    ) -> None:
        self.spark = spark
        self.settings = settings
        self.group = group
        self.grace = grace_of(trunk)
        self.records = records
        self.dry = dry
        self._places = places or {}
        self._known = dict(known or {})
        self._outcomes: dict[tuple[Node, bool], DataFrame] = {}

    def place_of(self, node: Topic) -> Place | None:
        return self._places.get(node)

    def frame(self, node: Node, *, timed: bool = False) -> DataFrame:
        """The good rows of a node; `timed`: with a watermark on `_time`."""
        if not timed or self.grace is None:
            return self._good_rows(node)
        if waited_above(node) or merges_sources(node):
            rows = self._good_rows(node, timed=True)
            if has_watermark(rows):
                return rows
            if waited_above(node):
                raise _time_is_lost(node)
        rows = self._good_rows(node)
        with explaining(node):
            return rows if has_watermark(rows) else self._watermarked(rows, interval(self.grace))

    def outcome(self, node: Node, *, timed: bool = False) -> DataFrame:
        if node in self._known:
            return self._known[node]
        if (node, timed) not in self._outcomes:
            inputs = [
                self.frame(upstream, timed=wants_watermark(node, upstream, timed=timed)) for upstream in node.inputs
            ]
            with explaining(node):
                self._outcomes[node, timed] = step(node, inputs, self)
        return self._outcomes[node, timed]

    def schema_of(self, node: Node) -> StructType:
        """The user's columns of a node, of this query or another."""
        dry = Compilation(self.spark, self.settings, self.group, node, dry=True).frame(node)
        return StructType([StructField(f.name, f.dataType) for f in dry.schema if f.name not in CARRIED])

    def _good_rows(self, node: Node, *, timed: bool = False) -> DataFrame:
        outcome = self.outcome(node, timed=timed)
        if not isinstance(node, Topic | MapRows | Process):
            return outcome
        good = good_rows(node, outcome)
        return good if self.records else good.drop("_record")

    def _watermarked(self, rows: DataFrame, delay: str) -> DataFrame:
        if self.settings.ticks is None:
            return rows.withWatermark("_time", delay)
        from odradek.streams.compile.ticking import watermarked

        return watermarked(rows, delay, f"{self.settings.ticks}/{self.group}")


def waited_above(node: Node) -> bool:
    """Whether a step above, or this one, has waited for time: then there is a watermark, and Spark takes no second."""
    return any(waits_for_time(above) for above in node.ancestry())


def merges_sources(node: Node) -> bool:
    """Streams that meet here have a time each, and the slower one counts: one that lags behind loses no rows.

    Branches of one stream share its time, and changes of a table have that of the others: a branch without rows, or a
    table that rests, would stop it.
    """
    merge = trunk_of(node)
    if not isinstance(merge, Merge) or any(isinstance(step, MapPandas) for step in steps_between(merge, node)):
        return False
    sources = [source for branch in merge.inputs for source in branch.ancestry() if isinstance(source, Topic | Frame)]
    tables = any(isinstance(source, Topic) and source.table_key for source in sources)
    return not tables and len(sources) == len(set(sources))


def steps_between(trunk: Node, node: Node) -> set[Node]:
    return {*node.ancestry()} - {*trunk.ancestry()}


def _time_is_lost(node: Node) -> PipelineError:
    return PipelineError(
        "the event time of these rows is not known here, and a step below waits for it",
        why="`_time` is no longer what it was when an earlier step waited for time, and Spark does that once",
        instead="`_time` as it is among the columns that this step gives",
        origin=node.origin,
    )


def wants_watermark(node: Node, upstream: Node, *, timed: bool) -> bool:
    if isinstance(upstream, StaticFrame) or isinstance(node, TableTableJoin):
        return False
    if isinstance(node, StreamTableJoin) and upstream is not node.inputs[0]:
        return False  # a table that rests would hold back the time of the whole query
    return timed or waits_for_time(node)
