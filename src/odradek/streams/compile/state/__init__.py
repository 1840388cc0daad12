"""What keeps state between micro-batches: functions from DataFrame to DataFrame on Spark's transformWithState.

Frames carry `_time` (event time, never null) beside the user's columns; those of tables are changelogs with
`_deleted`. The session must keep its state in RocksDB (`odradek.spark.session` sees to it).
"""

from __future__ import annotations

from odradek.streams.compile.state.fold import fold
from odradek.streams.compile.state.process import process
from odradek.streams.compile.state.sliding import sliding
from odradek.streams.compile.state.states import ListState, MapState, State, Timers
from odradek.streams.compile.state.stream_table import stream_table_join
from odradek.streams.compile.state.table_table import table_table_join

__all__ = [
    "ListState",
    "MapState",
    "State",
    "Timers",
    "fold",
    "process",
    "sliding",
    "stream_table_join",
    "table_table_join",
]
