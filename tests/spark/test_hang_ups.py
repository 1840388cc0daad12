"""Spark closes its connections to Python when a query is stopped. That must not be reported as an error."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator

import pytest
from pyspark.accumulators import _start_update_server

from odradek.spark.session import _quieten, settings

NUMBER = struct.Struct(">i")


@pytest.fixture
def sockets() -> Iterator[str]:
    """A directory with a short name: the path of a Unix socket has at most about a hundred characters."""
    with tempfile.TemporaryDirectory() as directory:
        yield directory


def ends(pid: int) -> bool:
    for _ in range(1000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        threading.Event().wait(0.02)
    return False


@pytest.mark.parametrize("module", ["pyspark.daemon", settings("app", "local", {})["spark.python.daemon.module"]])
def test_worker_prints_no_traceback_when_spark_closes_its_connection(module: str, sockets: str) -> None:
    environment = os.environ | {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": sockets,
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
    }
    command = [sys.executable, "-m", module, "pyspark.worker"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as daemon:
        (length,) = NUMBER.unpack(daemon.stdout.read(4))
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(daemon.stdout.read(length).decode())
            (worker,) = NUMBER.unpack(spark.recv(4, socket.MSG_WAITALL))
            # No task begins like this: the worker must report an error, but the connection is closed.
            spark.sendall(NUMBER.pack(-100))
        assert ends(worker)
        _, told = daemon.communicate(timeout=30)
    assert (b"BrokenPipeError" in told) == (module == "pyspark.daemon"), told


def test_accumulator_server_prints_no_traceback_when_spark_closes_its_connection(
    sockets: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server = _start_update_server("", True, f"{sockets}/accumulators")
    _quieten(server)
    for sent in (b"", NUMBER.pack(1) + NUMBER.pack(1) + b"x"):
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(server.server_address)
            spark.sendall(sent)
            spark.shutdown(socket.SHUT_WR)
            assert spark.recv(1) == b"", "the server has closed the connection"
        told = capsys.readouterr().err
        assert ("Traceback" in told) == bool(sent), "other errors are printed"
    server.shutdown()


def test_daemon_has_only_the_memory_freeing_thread_when_it_forks() -> None:
    """Threads do not survive a fork: a lock that one of them holds would stay locked forever."""
    script = """
import os
from odradek.spark.daemon import preload
preload()
threads = [open(f"/proc/self/task/{thread}/comm").read().strip() for thread in os.listdir("/proc/self/task")]
print(sorted(set(threads) - {"python", "python3"}))
if (child := os.fork()) == 0:
    import pyarrow as pa
    os._exit(0 if pa.array([1, 2]).to_pylist() == [1, 2] else 1)
print(os.waitpid(child, 0)[1])
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    threads, child = done.stdout.splitlines()
    assert threads in ("[]", "['jemalloc_bg_thd']")
    assert child == "0"
