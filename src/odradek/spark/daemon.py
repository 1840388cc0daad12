"""PySpark's daemon, which forks the Python workers; ours say nothing when Spark hangs up on them.

It does so to stop a query in the middle of a micro-batch, and PySpark would show a traceback of each worker. What a
task fails at reaches the JVM through the worker's own protocol, and never arrives here.
"""

from __future__ import annotations

import os
import socket

from pyspark import daemon

_work = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    try:
        return _work(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
