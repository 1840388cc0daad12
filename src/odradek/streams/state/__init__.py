"""What keeps state between micro-batches: functions from DataFrame to DataFrame on Spark's transformWithState.

Frames carry `_time` (event time) beside the user's columns; those of tables are changelogs with `_deleted`. The session
must keep its state in RocksDB (`odradek.spark.session` sees to it).
"""

from __future__ import annotations

from odradek.streams.state.stream_table import stream_table_join

__all__ = ["stream_table_join"]
