"""What a step may ask of the compilation that it is part of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from odradek.streams.graph.nodes import Node, Topic
from odradek.streams.graph.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A topic among those of its query."""

    rank: int  # in the canonical order
    topics: tuple[str, ...]  # all that are known by name: a backlog is read up to the same time in each
    records: int  # of all of them, in a micro-batch
    tick: timedelta | None = None  # how often a micro-batch starts although no record has come


class Context(Protocol):
    spark: SparkSession
    settings: Settings
    group: str  # the consumer group of the query
    grace: timedelta | None  # how late rows may come; None: nothing in the query waits for time
    records: bool  # rows carry the record they came from, in `_record`
    dry: bool  # for schemas alone: no broker is asked

    def schema_of(self, node: Node) -> StructType: ...

    def place_of(self, node: Topic) -> Place | None:
        """The position of a topic in the canonical order. None if rows need no position."""
