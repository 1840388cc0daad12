"""Starts the JVM with its standard error piped through a filter: useless lines are dropped, all others are passed on.

Java and PySpark print these lines whatever the log level is. Spark has no setting for the daemon whose workers plan a
source, so their output can be filtered only here. Python code of the user prints through the same pipe.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping

CHATTER = re.compile(
    rb"WARNING: Using incubator modules|(Starting )?Streaming TransformWithStateInPandas Python worker"
)
TRACEBACK = b"Traceback (most recent call last):\n"
HANG_UP = re.compile(rb"(BrokenPipeError|ConnectionResetError): ")
FRAME = re.compile(rb'  File "')
FRAME_OF_A_DAEMON = re.compile(rb'  File "[^"]*[/\\]pyspark[/\\]daemon\.py"')
TERMINAL = 2


def start_java(conf: Mapping[str, str]) -> None:
    """Start a JVM, unless one is running already or spark-submit started this process."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # noqa: SLF001
        return
    known = SparkConf().setAll(list(conf.items()))
    ear, mouth = os.pipe()
    threading.Thread(target=_pass_on, args=(ear,), name="java-voice", daemon=True).start()
    try:
        gateway = launch_gateway(known, {"stderr": mouth})  # type: ignore[no-untyped-call]
    finally:
        os.close(mouth)
    SparkContext._ensure_initialized(gateway=gateway, conf=known)  # noqa: SLF001


def _pass_on(ear: int) -> None:
    worth = Worth()
    with open(ear, "rb") as lines:
        for line in lines:
            os.write(TERMINAL, worth.of(line))
    os.write(TERMINAL, worth.rest())


class Worth:
    """The filter: returns the lines to print. A traceback is held back until its last line has arrived."""

    def __init__(self) -> None:
        self._traceback: list[bytes] = []
        self._after_chatter = False

    def of(self, line: bytes) -> bytes:
        after_chatter, self._after_chatter = self._after_chatter, False
        if self._traceback:
            self._traceback.append(line)
            return b"" if line.startswith(b" ") else self.rest()
        if line == TRACEBACK:
            self._traceback.append(line)
            return b""
        if CHATTER.match(line):
            self._after_chatter = True
            return b""
        return b"" if after_chatter and line == b"\n" else line

    def rest(self) -> bytes:
        told, self._traceback = self._traceback, []
        return b"" if _is_hang_up(told) else b"".join(told)


def _is_hang_up(traceback: list[bytes]) -> bool:
    """Spark stops its workers by closing their connection. Their stack then holds no frame of user code."""
    frames = [line for line in traceback if FRAME.match(line)]
    return bool(frames) and all(map(FRAME_OF_A_DAEMON.match, frames)) and bool(HANG_UP.match(traceback[-1]))
