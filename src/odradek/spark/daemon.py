"""PySpark's daemon, which forks the Python workers, with imported modules and without tracebacks on disconnect.

Workers need not import what the daemon has imported. pandas alone, which Arrow imports with its first array, costs each
worker a second. To stop a query during a micro-batch, Spark closes the connections of its workers, and PySpark would
print a traceback for each. Failures of tasks reach the JVM through the worker protocol and are not affected.
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
    """Import the modules. Threads do not survive a fork, so numpy may start none; Arrow's thread only frees memory."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in (*PRELOADED, *filter(None, os.environ.get(WORKER_MODULES, "").split(","))):
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)
    # PySpark runs the garbage collector after each task. Scanning the objects of the modules above takes 40 ms.
    gc.freeze()


if __name__ == "__main__":
    preload()
    daemon.worker = worker
    daemon.manager()
