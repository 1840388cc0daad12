"""`odradek monitor` as a process, and a client of its HTTP API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from support.waiting import wait_until

PATIENCE_S = 60.0


def fetched(url: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str]:
    """Status and body, of errors too."""
    request = urllib.request.Request(url, data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class MonitorProcess:
    """Runs until the `with` block ends. `kill` ends it at once."""

    def __init__(self, directory: Path, toml: str, *arguments: str, port: int = 0) -> None:
        config = directory / "monitor.toml"
        config.write_text(toml)
        self._log = (directory / "monitor.log").open("a")
        command = [sys.executable, "-m", "odradek.cli", "monitor", "--config", str(config)]
        self.process = subprocess.Popen(
            [*command, "--listen", f"127.0.0.1:{port}", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=directory,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.said: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if line.startswith("Metrics:"):
                break
        else:
            self.__exit__()
            raise AssertionError(f"the monitor did not start: {(directory / 'monitor.log').read_text()}")
        self.url = self.said[-1].split()[1].removesuffix("/metrics")

    def get(self, path: str) -> Any:
        return json.loads(fetched(self.url + path)[1])

    def wait_until_ready(self) -> None:
        wait_until(lambda: fetched(f"{self.url}/burrow/admin/ready")[0] == 200, "the monitor to be ready")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.communicate(timeout=PATIENCE_S)
        finally:
            self._log.close()
