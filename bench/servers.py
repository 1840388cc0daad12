"""The servers under test, each a process: start on a directory, ask what it costs, stop."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from native import compiled
from wire import Client, Refused

STOP_WITHIN_S = 120.0
# A deleted topic's files would otherwise lie in the page cache for a minute, under everything measured after it.
DELETE_SOON = {"log.segment.delete.delay.ms": "1000"}


class Server:
    """A process with a Kafka port on 127.0.0.1."""

    name: str

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    def start(self) -> None:
        raise NotImplementedError

    def spawn(self, command: Sequence[str | Path]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory.parent / f"{self.directory.name}.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def wipe(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        with Client(self.port) as client:
            client.create_topic(name, partitions)
            client.await_leaders(name, partitions)

    def delete_topic(self, name: str) -> None:
        with Client(self.port) as client:
            client.delete_topic(name)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        with Client(self.port) as client:
            return client.end_offset(topic, partition)

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) * 1024 / 1e6 if found else 0.0

    def await_ready(self, within_s: float = 60.0) -> None:
        deadline = time.monotonic() + within_s
        while True:
            try:
                with Client(self.port) as client:
                    client.create_topic("ready")
                    client.await_leaders("ready", 1)
                    return
            except (OSError, Refused):
                if time.monotonic() > deadline or self._process is None or self._process.poll() is not None:
                    log = (self.directory.parent / f"{self.directory.name}.log").read_text(errors="replace")
                    raise RuntimeError(f"{self.name} did not start:\n{log[-3000:]}") from None
                time.sleep(0.002)


class Odradek(Server):
    name = "Odradek"

    def start(self) -> None:
        self.port = self.port or free_port()
        command = [sys.executable, "-m", "odradek.cli", "up", "--data", str(self.directory), "--port", str(self.port)]
        for key, value in DELETE_SOON.items():
            command += ["-c", f"{key}={value}"]
        self.spawn(command)


class Limit(Server):
    """Topics exist once written to."""

    name = "limit"

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen([compiled("limit"), self.directory], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self._process.stdout.close()

    def create_topic(self, name: str, partitions: int = 1) -> None:
        pass

    def delete_topic(self, name: str) -> None:  # noqa: ARG002
        """A fresh process is the only way to forget."""
        self.stop()
        self.wipe()
        self.start()

    def end_offset(self, topic: str, partition: int = 0) -> int:
        raise NotImplementedError


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
