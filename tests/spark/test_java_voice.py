"""The filter for output of the JVM and its Python workers: useless lines are dropped, all others are unchanged."""

from __future__ import annotations

import pytest

from odradek.spark.java_voice import TRACEBACK, Worth

DAEMON = b'  File "/env/pyspark.zip/pyspark/daemon.py", line 95, in worker\n'
WORKER = b'  File "/env/pyspark/worker.py", line 7, in main\n'
BROKEN = b"BrokenPipeError: [Errno 32] Broken pipe\n"


def told(*lines: bytes) -> bytes:
    worth = Worth()
    return b"".join(map(worth.of, lines)) + worth.rest()


def test_useless_lines_are_dropped_with_the_empty_line_after_them() -> None:
    assert told(
        b"WARNING: Using incubator modules: jdk.incubator.vector\n",
        b"Starting Streaming TransformWithStateInPandas Python worker.\n",
        b"\n",
        b"Streaming TransformWithStateInPandas Python worker received parameters for UDF.\n",
        b"\n",
        b"\n",
        b"ann drove 120 km\n",
    ) == (b"\nann drove 120 km\n")


def test_traceback_of_a_worker_disconnected_by_spark_is_dropped() -> None:
    assert told(b"before\n", TRACEBACK, DAEMON, DAEMON, BROKEN, b"after\n") == b"before\nafter\n"


@pytest.mark.parametrize(
    "lines",
    [
        (TRACEBACK, DAEMON, WORKER, BROKEN),
        (TRACEBACK, DAEMON, b"ValueError: no\n"),
        (TRACEBACK, BROKEN),
        (TRACEBACK, DAEMON),
        (b"2026-01-01 00:00:00 ERROR Net: lost\n", b"\tat java.lang.Thread.run\n", b"\n"),
    ],
    ids=["of-a-function", "of-another-kind", "without-a-stack", "cut-short", "log"],
)
def test_all_other_lines_are_passed_on_unchanged(lines: tuple[bytes, ...]) -> None:
    assert told(*lines) == b"".join(lines)
