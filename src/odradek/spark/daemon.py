"""PySpark's daemon, which forks the Python workers; ours have their modules already, and say nothing when Spark hangs
up on them.

What the daemon has imported its workers need not: of pandas alone, which Arrow imports with its first array, that is a
second of each worker. Spark hangs up to stop a query in the middle of a micro-batch, and PySpark would show a traceback
of each worker. What a task fails at reaches the JVM through the worker's own protocol, and never arrives here.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket

from pyspark import daemon

from odradek.spark.session import WORKER_MODULES

PRELOADED = (
    "pyspark.worker",
    "odradek.spark.source",
    "odradek.spark.stream_reader",
    "odradek.spark.range_reading",
    "odradek.protocol.batch",
    "odradek.protocol.control_records",
    "pyarrow.compute",
    "pandas",
)

_work = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    try:
        return _work(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)


def preload() -> None:
    """A fork has no threads: numpy is kept from starting any, and Arrow's one only frees memory."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in (*PRELOADED, *filter(None, os.environ.get(WORKER_MODULES, "").split(","))):
        with contextlib.suppress(ImportError):  # an extra that is not there
            importlib.import_module(name)
    # After each task PySpark collects garbage, and looks at every object for that: 40 ms for the modules above alone.
    gc.freeze()


if __name__ == "__main__":
    preload()
    daemon.worker = worker
    daemon.manager()
