"""A JVM whose standard error is heard by us first: what helps nobody is left out, all else is passed on at once.

Java and PySpark print these whatever the logging says, and Spark asks nobody which daemon plans a source: its workers
have no door but this one. Python code of the user's prints through the same pipe.
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
    """Unless one runs already, or spark-submit has started us from its own."""
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
    """What of the lines that come is worth telling. A traceback is told, or not, when its last line is there."""

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
    """Spark ends its workers by closing their connection; nothing of the user's is on their stack then."""
    frames = [line for line in traceback if FRAME.match(line)]
    return bool(frames) and all(map(FRAME_OF_A_DAEMON.match, frames)) and bool(HANG_UP.match(traceback[-1]))
