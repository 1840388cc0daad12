"""The Streams API: streams, tables, windows, joins and state, compiled to Structured Streaming queries.

from odradek.streams import App, F, tumbling

app = App("fleet", bootstrap="127.0.0.1:9092")
positions = app.stream("positions", schema="driver string, speed double")
fast = positions[positions.speed > 80].group_by("driver").window(tumbling("1 minute")).agg(n=F.count("*"))
fast.to("speeding")
app.run()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.pipeline.errors import PipelineError, StreamsError
from odradek.streams.api.app import App
from odradek.streams.api.stream import Stream
from odradek.streams.api.table import Static, Table
from odradek.streams.graph.expressions import Expression, F, col, header, lit, sql
from odradek.streams.graph.windows import Window, hopping, session, sliding, tumbling

if TYPE_CHECKING:
    from odradek.streams.compile.state import ListState, MapState, State, Timers
    from odradek.streams.run.running import RunningApp

__all__ = [
    "App",
    "Expression",
    "F",
    "ListState",
    "MapState",
    "PipelineError",
    "RunningApp",
    "State",
    "Static",
    "Stream",
    "StreamsError",
    "Table",
    "Timers",
    "Window",
    "col",
    "header",
    "hopping",
    "lit",
    "session",
    "sliding",
    "sql",
    "tumbling",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 what needs Spark is imported when it is asked for
    if name in ("ListState", "MapState", "State", "Timers"):
        from odradek.streams.compile import state

        return getattr(state, name)
    if name == "RunningApp":
        from odradek.streams.run.running import RunningApp

        return RunningApp
    raise AttributeError(name)
