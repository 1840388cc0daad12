"""One streaming DataFrame for all sinks of a query: it writes what there is to write, and gives no rows itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from odradek.base.invariants import invariant
from odradek.spark.sink_options import check_columns, sink_options
from odradek.streams.compile.calling import Calling
from odradek.streams.compile.compiling import delivery
from odradek.streams.compile.explanations import explaining
from odradek.streams.compile.gathering import run_folder
from odradek.streams.compile.sources import read_topic
from odradek.streams.compile.ticking import tick_times
from odradek.streams.compile.topology.hosting import (
    LATE_ROW,
    Entrance,
    Hosted,
    Inputs,
    MapFunction,
    entrance,
    host,
    late_opening,
)
from odradek.streams.compile.topology.levels import MAPS, Lane, Port, Topology, is_table, stable_number
from odradek.streams.compile.topology.operators import (
    EVERY_SOURCE,
    WALL,
    Call,
    Gather,
    Map,
    Outlet,
    Route,
    Shape,
    Stage,
    Write,
)
from odradek.streams.compile.topology.projecting import (
    AT,
    DELETED,
    OF,
    RECORD_KEY,
    SHARD,
    SOURCE,
    TIME,
    WIRE,
    Opening,
    finished,
    lane_column,
    late_ending,
    opened,
    origin_column,
    port_column,
    port_ending,
    sink_ending,
    takes_updates,
    travelled,
)
from odradek.streams.engine.shard import Placed
from odradek.streams.engine.store import ONE_RUN, Run
from odradek.streams.graph.nodes import Node, Topic
from odradek.streams.graph.sinks import ForeachRow, LakeTable, LateRows, Sink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from odradek.streams.compile.context import Context
    from odradek.streams.engine.shard import Step


NOTHING = T.StructType([T.StructField("nothing", T.StringType())])


@dataclass(slots=True)
class Assembly:
    """`folder`: where the state of the shards is kept; `shards`: how many there are, for the life of the state."""

    topology: Topology
    context: Context
    folder: str
    shards: int
    run: Run = ONE_RUN
    tables: str = ""  # where rows for tables of files are gathered
    openings: dict[Node, Opening] = field(default_factory=dict)
    entrances: dict[int, Entrance] = field(default_factory=dict)  # by port
    hosted: dict[Node, Hosted] = field(default_factory=dict)
    schemas: dict[int, T.DataType] = field(default_factory=dict)  # of lanes
    merged: dict[Node, T.StructType] = field(default_factory=dict)  # the columns of merges

    def frame(self) -> DataFrame:
        rows = self._read()
        for level in range(self.topology.depth + 1):
            if level:
                rows = self._project(rows, level)
            is_last = level == self.topology.depth
            rows = self._let_out(rows, level)
            if not is_last and self.topology.is_keyed(level + 1):
                rows = rows.repartitionById(self.shards, F.coalesce(F.col(SHARD), F.lit(0)))
                rows = self._run_stage(rows, level + 1)
        return rows

    # --- the beginning

    def _read(self) -> DataFrame:
        """All topics with their lanes."""
        frames = [self._topic_lanes(topic) for topic in self.topology.topics]
        if self.context.settings.ticks is not None:
            frames.append(self._ticks(f"{self.context.settings.ticks}/{self.context.group}"))
        first, *more = frames
        for other in more:
            first = first.unionByName(other, allowMissingColumns=True)
        return first.coalesce(max(1, min(self.shards, len(frames)))) if len(frames) > 1 else first

    def _topic_lanes(self, topic: Topic) -> DataFrame:
        rows = self._wire(topic)
        for lane in self.topology.lanes:
            if lane.origin is topic:
                rows = self._lane(rows, lane)
        return rows.drop(origin_column(self._number(topic)))

    def _ticks(self, folder: str) -> DataFrame:
        """Times that pass although no row comes, for tests; each has the position of a record of that time."""
        sign_and_time = F.lit(-(1 << 63)).bitwiseOR(F.unix_millis("_time"))
        known = {
            SOURCE: F.lit(EVERY_SOURCE),
            AT: F.unhex(F.concat(F.hex(sign_and_time), F.lit("F" * 28))),
            TIME: F.col("_time"),
        }
        return tick_times(self.context.spark, folder).select(*_wire_columns(known))

    def _wire(self, topic: Topic) -> DataFrame:
        number = self._number(topic)
        with explaining(topic):
            outcome = read_topic(topic, self.context)
        fields = [name for name in outcome.columns if name not in ("_key", "_time", "_deleted")]
        self.openings[topic] = Opening(
            columns=lambda: [F.col(f"`{name}`") for name in fields], changelog=is_table(topic)
        )
        deleted = F.col("_deleted") if "_deleted" in outcome.columns else F.lit(False)
        place = self.context.place_of(topic)
        ticks = place is not None and place.tick is not None
        known = {
            OF: F.when(F.col("_record.partition") < 0, WALL).otherwise(number) if ticks else F.lit(number),
            AT: F.col("_record.position"),
            TIME: F.col("_time"),
            RECORD_KEY: F.col("_key"),
            DELETED: deleted,
        }
        columns = [F.col(f"`{name}`") for name in fields]
        return outcome.select(*_wire_columns(known), F.struct(*columns).alias(origin_column(number)))

    # --- lanes

    def _project(self, rows: DataFrame, level: int) -> DataFrame:
        lanes = self.topology.lanes_from(level)
        for lane in lanes:
            rows = self._lane(rows, lane)
        gone = {origin_column(self._number(lane.origin)) for lane in lanes}
        return rows.drop(*gone)

    def _lane(self, rows: DataFrame, lane: Lane) -> DataFrame:
        kept = list(rows.columns)
        open_rows = opened(rows, self._number(lane.origin), self.openings[lane.origin], lane)
        open_rows = travelled(open_rows, lane, self.merged)
        if isinstance(lane.target, LateRows):
            ending = late_ending(lane.target, self._inputs(lane.target.inputs[0]))
        elif isinstance(lane.target, Sink):
            ending = sink_ending(open_rows, lane.target)
        else:
            step = lane.target.step
            with explaining(step):
                entry = self._entrance(open_rows, lane.target)
                ending = port_ending(open_rows, entry.carried, entry.shard)
        made = finished(open_rows, lane, ending, kept)
        self.schemas[lane.number] = made.schema[lane_column(lane.number)].dataType
        return made

    def _entrance(self, rows: DataFrame, port: Port) -> Entrance:
        late_rows = self.topology.late_rows_of(port.step) is not None
        entry = entrance(port.step, port.side, rows, self.shards, late_rows=late_rows)
        self.entrances.setdefault(port.number, entry)
        return entry

    # --- operators

    def _let_out(self, rows: DataFrame, level: int) -> DataFrame:
        lanes = self.topology.lanes_from(level)
        sinks = [(lane, lane.target) for lane in lanes if isinstance(lane.target, Sink)]
        options = {"kafka.bootstrap.servers": self.context.settings.bootstrap}
        options |= {f"kafka.{name}": value for name, value in self.context.settings.config.items()}
        maps = self._maps(level + 1)
        mapped = {one.origin for one in maps}
        given = self._given(level, mapped)
        given_options = sink_options({**options, **self._delivery(level), "topic": "any"})
        outlet = Outlet(
            config=given_options.config,
            guarantee=given_options.guarantee,
            writes=tuple(
                self._write(lane, sink) for lane, sink in sinks if not isinstance(sink, ForeachRow | LakeTable)
            ),
            gathers=tuple(
                Gather(lane=lane.number, run_folder=run_folder(self.tables, sink.folder, self.run))
                for lane, sink in sinks
                if isinstance(sink, LakeTable)
            ),
            calls=tuple(
                Call(lane=lane.number, calling=Calling.of(sink)) for lane, sink in sinks if isinstance(sink, ForeachRow)
            ),
            routes=tuple(self._route(lane) for lane in lanes if self._leads_to_stage(lane)),
            maps=maps,
            shape=_shape(given),
            shards=self.shards,
        )
        return rows.mapInArrow(outlet, given if len(given) else NOTHING)

    def _delivery(self, level: int) -> dict[str, str]:
        return delivery(self.context.settings, self.context.group, f"{level}")

    def _given(self, level: int, mapped: set[int]) -> T.StructType:
        """What an outlet hands on: rows for the ports of later stages, and the results of maps."""
        if level == self.topology.depth:
            return T.StructType([])
        ports = [
            T.StructField(port_column(port.number), self.entrances[port.number].carried_schema)
            for port in self.topology.ports
            if port.number in self.entrances and self._is_ahead(port, level)
        ]
        made = [
            T.StructField(origin_column(number), self.hosted[self.topology.origins[number]].output)
            for number in sorted(mapped)
        ]
        return T.StructType([*WIRE, *ports, *made])

    def _is_ahead(self, port: Port, level: int) -> bool:
        is_map = self.hosted.get(port.step) is not None and self.hosted[port.step].function is not None
        return self.topology.level[port.step] > level and not is_map

    def _leads_to_stage(self, lane: Lane) -> bool:
        return isinstance(lane.target, Port) and not self._is_map(lane.target.step)

    def _is_map(self, node: Node) -> bool:
        return isinstance(node, MAPS)

    def _maps(self, level: int) -> tuple[Map, ...]:
        """The functions of rows at a level."""
        return tuple(
            Map(lane=lane.number, origin=self._number(node), function=self._map_function(node))
            for node in self.topology.hosted(level)
            if self._is_map(node)
            for lane in self.topology.lanes
            if isinstance(lane.target, Port) and lane.target.step is node
        )

    def _map_function(self, node: Node) -> MapFunction:
        function = self._host(node).function
        invariant(function is not None, "a map has a function")
        return cast("MapFunction", function)

    def _write(self, lane: Lane, sink: Sink) -> Write:
        topic: str = sink.topic  # type: ignore[attr-defined]
        struct = self.schemas[lane.number]
        return Write(lane=lane.number, topic=topic, columns=check_columns(struct, topic))  # type: ignore[arg-type]

    def _route(self, lane: Lane) -> Route:
        port = cast("Port", lane.target).number
        return Route(lane=lane.number, port=port, source=self.topology.sources.get((port, lane.origin)))

    def _run_stage(self, rows: DataFrame, level: int) -> DataFrame:
        placed, origins = [], {}
        given = [*WIRE]
        given += [f for f in rows.schema if f.name not in WIRE.names and not self._arrives(f.name, level)]
        for node in self.topology.hosted(level):
            if self._is_map(node):
                continue
            hosted, number = self._host(node), self._number(node)
            ports = frozenset(port.number for port in self.topology.ports_of(node))
            step = stable_number(node.name)
            late = self.topology.late_rows_of(node)
            late_as = None if late is None else stable_number(late.name)
            placed.append(Placed(step, cast("Step", hosted.step), ports, self.topology.times.get(node, ()), late_as))
            origins[step] = number
            given.append(T.StructField(origin_column(number), hosted.output))
            if late is not None and late_as is not None:
                origins[late_as] = self._number(late)
                given.append(T.StructField(origin_column(origins[late_as]), LATE_ROW))
                self.openings[late] = late_opening()
        schema = T.StructType(given)
        stage = Stage(
            folder=f"{self.folder}/level-{self.topology.stage(level)}",
            placed=tuple(placed),
            origins=origins,
            idle_after={source.number: source.idle_after for source in self.topology.sources.values()},
            shape=_shape(schema),
            run=self.run,
            several_hosts=not str(self.context.spark.sparkContext.master).startswith("local"),
        )
        return rows.mapInArrow(stage, schema)

    def _arrives(self, column: str, level: int) -> bool:
        here = [port for node in self.topology.hosted(level) for port in self.topology.ports_of(node)]
        return column in {port_column(port.number) for port in here}

    def _host(self, node: Node) -> Hosted:
        if node not in self.hosted:
            ports = self.topology.ports_of(node)
            inputs = Inputs(
                ports=tuple(port.number for port in ports),
                entrances=tuple(self.entrances[port.number] for port in ports),
            )
            wanted = [lane for lane in self.topology.lanes if lane.origin is node]
            with explaining(node):
                self.hosted[node] = host(
                    node,
                    inputs,
                    updates=any(map(takes_updates, wanted)),
                    finals=not all(map(takes_updates, wanted)),
                    each_change=any(isinstance(lane.target, Port) for lane in wanted),
                )
            self.openings[node] = self.hosted[node].opening
        return self.hosted[node]

    def _inputs(self, step: Node) -> dict[int, str]:
        """The names of what comes in, by port."""
        return {port.number: step.inputs[port.side].name for port in self.topology.ports_of(step)}

    def _number(self, origin: Node) -> int:
        return self.topology.origins.index(origin)


def _wire_columns(known: Mapping[str, Column]) -> list[Column]:
    return [known.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in WIRE]


def _shape(schema: T.StructType) -> Shape:
    return Shape(schema=to_arrow_schema(schema, timezone="UTC"))
