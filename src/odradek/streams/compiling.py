"""From the graph to DataFrames: one Compilation per query for its stream, and one per micro-batch for what is below it.

Every frame has the user's columns plus `_key` (binary) and `_time` (timestamp); a changelog has `_deleted` too.
An outcome is a frame with its failures still in it, in `_error`. Watermarks stand directly before the first step of
each branch that needs one: Spark accepts one per path, and Python functions lose it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.streams.checks import waits_for_time
from odradek.streams.durations import interval
from odradek.streams.explanations import explaining
from odradek.streams.failures import good_rows
from odradek.streams.graph import (
    MapRows,
    Node,
    Process,
    StaticFrame,
    StreamTableJoin,
    TableTableJoin,
    Topic,
)
from odradek.streams.planning import grace_of
from odradek.streams.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    ) -> None:
        self.spark = spark
        self.settings = settings
        self.group = group
        self.grace = grace_of(trunk)
        self.records = records
        self.dry = dry
        self._known = dict(known or {})
        self._outcomes: dict[tuple[Node, bool], DataFrame] = {}

    def frame(self, node: Node, *, timed: bool = False) -> DataFrame:
        """The good rows of a node; `timed`: with a watermark on `_time`."""
        if timed and self.grace is not None and not has_watermark(node):
            with explaining(node):
                return self._watermarked(self.frame(node), interval(self.grace))
        if isinstance(node, Topic | MapRows | Process):
            good = good_rows(node, self.outcome(node))
            return good if self.records else good.drop("_record")
        return self.outcome(node, timed=timed)

    def outcome(self, node: Node, *, timed: bool = False) -> DataFrame:
        if node in self._known:
            return self._known[node]
        if (node, timed) not in self._outcomes:
            from odradek.streams.steps import step

            inputs = [
                self.frame(upstream, timed=wants_watermark(node, upstream, timed=timed)) for upstream in node.inputs
            ]
            with explaining(node):
                self._outcomes[node, timed] = step(node, inputs, self)
        return self._outcomes[node, timed]

    def _watermarked(self, rows: DataFrame, delay: str) -> DataFrame:
        if self.settings.ticks is None:
            return rows.withWatermark("_time", delay)
        from odradek.streams.ticking import watermarked

        return watermarked(rows, delay, f"{self.settings.ticks}/{self.group}")


def has_watermark(node: Node) -> bool:
    """Whether a step above, or this one, has set a watermark: those that wait for time do."""
    return any(waits_for_time(above) for above in node.ancestry())


def wants_watermark(node: Node, upstream: Node, *, timed: bool) -> bool:
    if isinstance(upstream, StaticFrame) or isinstance(node, TableTableJoin):
        return False
    if isinstance(node, StreamTableJoin) and upstream is not node.inputs[0]:
        return False  # a table that rests would hold back the time of the whole query
    return timed or waits_for_time(node)
