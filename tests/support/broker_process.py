"""A real broker as a separate process, for tests that kill it or connect to it from outside."""

from __future__ import annotations

import random
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

READY = re.compile(rb"ready on 127\.0\.0\.1:(\d+)")


class BrokerProcess:
    """`odradek up` on a data directory. The port stays the same after a kill and a restart."""

    def __init__(self, data: Path, *, memory_bytes: int | None = None, **config: str) -> None:
        """`memory_bytes`: how much memory the process may map."""
        self.data = data
        self._memory_bytes = memory_bytes
        self.config = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
        self.config |= {key.replace("_", "."): value for key, value in config.items()}
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._output = data.with_suffix(".out")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        return self._output.read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def start(self) -> Self:
        command = [sys.executable, "-m", "odradek.cli", "up", "--no-console", "--verbose"]
        command += ["--data", str(self.data), "--port", str(self.port)]
        for key, value in self.config.items():
            command += ["-c", f"{key}={value}"]
        with self._output.open("ab") as errors:
            limited = [] if self._memory_bytes is None else ["prlimit", f"--as={self._memory_bytes}"]
            self._process = subprocess.Popen(limited + command, stdout=subprocess.PIPE, stderr=errors)
        assert self._process.stdout is not None
        announced = self._process.stdout.readline()
        assert READY.search(announced), f"the broker did not start: {announced!r}\n{self.output}"
        return self

    def kill(self) -> None:
        """Kill only the process: data that it has passed to the kernel stays."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._reap()

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._reap()

    def _reap(self) -> int:
        assert self._process is not None
        self._process.communicate(timeout=30)
        code = self._process.returncode
        self._process = None
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop()


@contextmanager
def held_port() -> Iterator[int]:
    """A port that no other process gets while its broker is down: bound in this process, without listening."""
    with held_ports(1) as first:
        yield first


@contextmanager
def held_ports(count: int) -> Iterator[int]:
    """The first of `count` consecutive ports, all reserved as in `held_port`."""
    while True:
        with ExitStack() as holders:
            first = 0
            try:
                for ahead in range(count):
                    first = _hold(holders, first + ahead) - ahead
            except OSError:  # the next consecutive port is taken
                continue
            yield first
            return


def _hold(holders: ExitStack, port: int) -> int:
    holder = holders.enter_context(socket.socket())
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", port))
    return int(holder.getsockname()[1])


def free_port() -> int:
    """A random free port that the kernel gives to no other process: it picks those of connections from 32768 on."""
    while True:
        port = random.SystemRandom().randrange(16_384, 32_768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:  # a server of another test
                continue
            return port
