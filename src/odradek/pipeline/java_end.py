"""Says that Spark's Java process has ended, in place of the errors of the connection to it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from odradek.pipeline.errors import StreamsError


class JavaEnded(StreamsError):
    """Spark's Java process was killed, or ended itself, while the application ran."""

    def __init__(self, code: int) -> None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        super().__init__(
            f"Spark's Java process has ended ({how}): it was killed, or the machine or Java had too little memory. "
            "Run the application again, and it continues where it stopped"
        )


@contextmanager
def java_end_told() -> Iterator[None]:
    try:
        yield
    except Exception as lost:
        code = _exit_code()
        if code is None:
            raise
        raise JavaEnded(code) from lost


def _exit_code() -> int | None:
    """None while it runs, and if another process has started it, as `spark-submit` does."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 nothing public knows the process
    return None if process is None else process.poll()
