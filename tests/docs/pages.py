"""Runs the fenced blocks of documentation pages, in order. Kinds of blocks:

python              part of the application of the page
python on spark     needs a running Spark
python raises       fails with the text of the next block (`on spark`: in Spark)
sh                  commands, one per line; a command with the comment Ctrl-C runs until the test interrupts it or ends
text                the output
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Self

import pytest

from odradek.testing import Embedded
from support.broker_process import free_port

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
STREAMS = [DOCS / "streams.md", *sorted((DOCS / "streams").glob("*.md"))]
KINDS = {"python", "python on spark", "python raises", "python raises on spark", "sh", "text"}
PORT_PATIENCE_S = 60.0
# `consume` may wait for the first micro-batch of a Spark that has just started, on a busy machine.
COMMAND_PATIENCE_S = 240.0
READY = re.compile(r"running after|http://")


def tool(name: str) -> ModuleType:
    """A script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class Block:
    kind: str
    text: str


def blocks(page: Path, *kinds: str) -> list[Block]:
    found = re.findall(r"^```([^\n]+)\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [Block(kind, text) for kind, text in found if not kinds or kind in kinds]


def application(page: Path, directory: Path, *more: Block, name: str | None = None) -> Path:
    """The Python of a page as one file."""
    file = directory / f"{name or page.stem.replace('-', '_')}.py"
    file.write_text("\n".join(block.text for block in [*blocks(page, "python"), *more]))
    return file


class Terminal:
    """Runs commands as a reader of the page would, against the broker of the test."""

    def __init__(self, directory: Path, bootstrap: str, ready: re.Pattern[str] = READY) -> None:
        self._directory = directory
        # The output of a long-running command when it is ready.
        self._ready = ready
        self._running: list[subprocess.Popen[str]] = []
        self._port = free_port()
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(directory),
            "ODRADEK_BOOTSTRAP": bootstrap,
            "ODRADEK_CONNECT": f"http://127.0.0.1:{self._port}",
            **{
                name: os.environ[name]
                for name in ("JAVA_HOME", "PYTHONPATH", "SPARK_SUBMIT_OPTS")
                if name in os.environ
            },
        }

    def run(self, block: Block) -> str:
        """The output of the commands of a block."""
        return "".join(self._run(line) for line in block.text.splitlines())

    def _run(self, line: str) -> str:
        # a person waits for the next micro-batch; here curl retries
        command = line.replace("8088", str(self._port)).replace("curl -s", "curl -sf --retry 30 --retry-all-errors")
        if "Ctrl-C" in line:
            listens = " views " in command or " connect serve" in command
            self._start(command.replace("#", f"--port {self._port} #") if listens else command)
            return ""
        done = subprocess.run(
            ["bash", "-euc", command],
            capture_output=True,
            text=True,
            cwd=self._directory,
            env=self._environment,
            timeout=COMMAND_PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _start(self, command: str) -> None:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._directory,
            env=self._environment,
        )
        self._running.append(process)
        said = []
        for line in process.stdout:
            said.append(line)
            if self._ready.search(line):
                return
        raise AssertionError(f"{command}\n{''.join(said)}")

    def interrupt(self) -> list[int]:
        """Ctrl-C for every running command, the last first. Returns their exit codes."""
        ended = []
        while self._running:
            process = self._running.pop()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            ended.append(process.returncode)
        return ended

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def broker_on_the_usual_port() -> Iterator[Embedded]:
    """The pages use port 9092. Retries, because another test may use the port at the same time."""
    broker = Embedded(port=9092)
    patience = time.monotonic() + PORT_PATIENCE_S
    while True:
        try:
            broker.start()
            break
        except OSError as taken:
            if time.monotonic() > patience:
                pytest.skip(f"port 9092, which the pages use, is taken: {taken}")
            time.sleep(0.2)
    try:
        yield broker
    finally:
        broker.stop()


@contextmanager
def import_path_restored() -> Iterator[None]:
    """Loading an application makes its directory importable, here and in workers."""
    path, variable = list(sys.path), os.environ.get("PYTHONPATH")
    try:
        yield
    finally:
        sys.path[:] = path
        os.environ.pop("PYTHONPATH", None)
        if variable is not None:
            os.environ["PYTHONPATH"] = variable
