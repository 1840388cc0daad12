"""Finds the operator that hosts each step, and the inputs of each step. Pure: this module does not use Spark.

An origin is where rows begin: a topic, or a step that an operator hosts. A lane leads from an origin through steps that
are expressions to a target: a sink, or an input of a hosted step. Merged streams are lanes to one target.

What is on disk must not move when a sink or a step without state is added: Spark knows sources by their order, which is
that of their names, and the state of a step lies where the number of steps with state above it says.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from odradek.streams.engine.clock import Source
from odradek.streams.graph.checks import waits_for_time
from odradek.streams.graph.nodes import (
    Aggregate,
    Deduplicate,
    Drop,
    Filter,
    Fold,
    MapPandas,
    MapRows,
    Merge,
    Node,
    Process,
    Rekey,
    Select,
    StreamJoin,
    StreamTableJoin,
    TableTableJoin,
    Topic,
    ToStream,
    WithColumns,
)
from odradek.streams.graph.sinks import LateRows, Sink

KEYED = (Aggregate, Deduplicate, Fold, Process, StreamJoin, StreamTableJoin, TableTableJoin)
MAPS = (MapRows, MapPandas)
HOSTED = (*KEYED, *MAPS)
EXPRESSIONS = (Filter, Select, WithColumns, Drop, Rekey, ToStream, Merge)
MICROSECOND = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TooLate(Node):
    """The rows that come too late for its input, a hosted step: an origin beside the step's results."""

    kind: ClassVar[str] = "too_late"


@dataclass(frozen=True, slots=True, eq=False)
class Port:
    """An input of a hosted step."""

    number: int
    step: Node
    side: int


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    number: int
    origin: Node
    path: tuple[Node, ...]
    target: Sink | Port


@dataclass(frozen=True, slots=True)
class Topology:
    sinks: tuple[Sink, ...]
    origins: tuple[Node, ...]
    ports: tuple[Port, ...]
    lanes: tuple[Lane, ...]
    level: dict[Node, int]
    sources: dict[tuple[int, Node], Source] = field(default_factory=dict)  # by port and origin
    times: dict[Node, tuple[int, ...]] = field(default_factory=dict)  # of a hosted step: its sources

    @property
    def topics(self) -> tuple[Topic, ...]:
        found = [origin for origin in self.origins if isinstance(origin, Topic)]
        return tuple(sorted(found, key=lambda topic: topic.name))

    @property
    def depth(self) -> int:
        return max(self.level.values())

    def hosted(self, level: int) -> tuple[Node, ...]:
        return tuple(node for node in self.origins if isinstance(node, HOSTED) and self.level[node] == level)

    def is_keyed(self, level: int) -> bool:
        return any(isinstance(node, KEYED) for node in self.hosted(level))

    def stage(self, level: int) -> int:
        """The how manieth level with state this is, from 1."""
        return sum(map(self.is_keyed, range(1, level + 1)))

    def lanes_from(self, level: int) -> tuple[Lane, ...]:
        return tuple(lane for lane in self.lanes if self.level[lane.origin] == level)

    def late_rows_of(self, step: Node) -> TooLate | None:
        """Where rows that come too late for a step go, if they are asked for."""
        return next((node for node in self.origins if isinstance(node, TooLate) and node.inputs == (step,)), None)

    def ports_of(self, node: Node) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if port.step is node)


def topology(sinks: Sequence[Sink]) -> Topology:
    nodes = list(dict.fromkeys(node for sink in sinks for node in sink.ancestry()))
    level = _levels(nodes)
    late: dict[Sink, Node] = {sink: _too_late(sink.inputs[0]) for sink in sinks if isinstance(sink, LateRows)}
    level |= {origin: level[origin.inputs[0]] for origin in late.values()}
    origins = (*(node for node in nodes if isinstance(node, (Topic, *HOSTED))), *late.values())
    steps = [node for node in origins if isinstance(node, HOSTED)]
    inputs = [(step, side) for step in steps for side in range(len(step.inputs))]
    ports = tuple(Port(number, step, side) for number, (step, side) in enumerate(inputs))
    targets: list[tuple[Node, Sink | Port]] = [
        (late.get(sink, sink.inputs[0]), sink)
        for sink in sinks
        if not isinstance(sink.inputs[0], Sink)  # what a sink gives up it writes itself
    ]
    targets += [(port.step.inputs[port.side], port) for port in ports]
    found = [(origin, path, target) for upstream, target in targets for origin, path in _paths(upstream)]
    lanes = tuple(Lane(number, *lane) for number, lane in enumerate(found))
    made = Topology(tuple(sinks), origins, ports, lanes, level)
    _add_times(made)
    return made


def _levels(nodes: Sequence[Node]) -> dict[Node, int]:
    """Of nodes, inputs first. Keyed steps that have as many keyed ones above them share a level, and so an exchange."""
    keyed: dict[Node, int] = {}  # how many there are down to a node
    for node in nodes:
        keyed[node] = max((keyed[upstream] for upstream in node.inputs), default=0) + isinstance(node, KEYED)
    level: dict[Node, int] = {}

    def above(node: Node) -> int:
        return max((level[upstream] for upstream in node.inputs), default=0)

    for count in range(max(keyed.values(), default=0) + 1):
        here = [node for node in nodes if keyed[node] == count]
        together = [node for node in here if isinstance(node, KEYED)]
        level |= dict.fromkeys(together, max((above(node) + 1 for node in together), default=0))
        for node in here:
            if not isinstance(node, KEYED):
                level[node] = above(node) + isinstance(node, MAPS)
    return level


def _too_late(step: Node) -> TooLate:
    return TooLate(name=f"{step.name}/late", origin=step.origin, inputs=(step,))


def _paths(node: Node, below: tuple[Node, ...] = ()) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Every way up to an origin, as the steps from there down."""
    if isinstance(node, EXPRESSIONS):
        for upstream in node.inputs:
            yield from _paths(upstream, (node, *below))
    else:
        yield node, below


def _add_times(made: Topology) -> None:
    """Event time is taken where a stream's rows reach their first keyed step, and holds for all steps below."""
    some_idle = any(_idle_after(origin) is not None for origin in made.origins)
    for step in made.origins:
        if not isinstance(step, KEYED):
            continue
        found: list[int] = []
        for lane in made.lanes:
            if not isinstance(lane.target, Port) or lane.target.step is not step:
                continue
            if (inherited := _inherited(lane.origin, made)) is not None:
                found += inherited
            elif not is_table(lane.origin) and needs_time(step, made):
                place = lane.target.number, lane.origin
                if place not in made.sources:
                    made.sources[place] = Source(
                        _source_number(lane.target, lane.origin, made),
                        micros(delay(lane.origin)),
                        _idle_after(lane.origin),
                        shows_life=some_idle,
                    )
                found.append(made.sources[place].number)
        made.times[step] = tuple(dict.fromkeys(found))


def _source_number(port: Port, origin: Node, made: Topology) -> int:
    """By its topics, since a map may come in between; where others of the port have the same ones, by its own name."""
    topics = ",".join(sorted(node.name for node in origin.ancestry() if isinstance(node, Topic)))
    number = stable_number(f"{port.step.name}/{port.side}/{topics}")
    if all(number != source.number for source in made.sources.values()):
        return number
    return stable_number(f"{port.step.name}/{port.side}/{topics}/{origin.name}")


def _inherited(origin: Node, made: Topology) -> tuple[int, ...] | None:
    """The sources of what is above; None where time has not been taken yet."""
    above = [node for node in origin.ancestry() if node in made.times]
    return tuple(dict.fromkeys(source for node in above for source in made.times[node])) if above else None


def _idle_after(origin: Node) -> int | None:
    waits = [node.idle_after for node in origin.ancestry() if isinstance(node, Topic) and node.idle_after is not None]
    return micros(max(waits)) if waits else None


def needs_time(step: Node, made: Topology) -> bool:
    """Whether this step or one below it does something when a time has come, or must know what is too late."""
    return any(_waits(other) and step in set(other.ancestry()) for other in made.origins)


def _waits(node: Node) -> bool:
    return waits_for_time(node) or isinstance(node, StreamTableJoin)


def is_table(node: Node) -> bool:
    return isinstance(node, Topic) and bool(node.table_key)


def delay(node: Node) -> timedelta:
    """How far behind event time a row may come out of this node."""
    match node:
        case Topic():
            return timedelta() if node.table_key else node.late
        case Aggregate(window=window) if window is not None:
            grace = delay(node.inputs[0]) if window.grace is None else window.grace
            return grace + MILLISECOND if window.kind == "sliding" else grace  # these end with a millisecond
        case StreamJoin():
            return max(map(delay, node.inputs)) + max(node.before, node.after) + MICROSECOND
    return max(map(delay, node.inputs))


def stable_number(name: str) -> int:
    """For state on disk: the same as long as the name is, whatever else is in the application."""
    return zlib.crc32(name.encode()) >> 1


def micros(length: timedelta) -> int:
    return length // MICROSECOND
