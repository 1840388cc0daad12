"""A real Prometheus: its programs, a process that scrapes, and what it answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx

from support.broker_process import free_port
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
_PLACES = os.pathsep.join([str(ROOT / ".venv" / "prometheus" / "usr" / "bin"), os.environ.get("PATH", "")])
MISSING = "needs prometheus and promtool (Debian's package prometheus; tests/support/install-prometheus.sh)"


def program(name: str) -> str | None:
    return shutil.which(name, path=_PLACES)


class Firing(NamedTuple):
    """An alert."""

    labels: dict[str, str]
    # When Prometheus first saw its condition.
    since: float

    @property
    def name(self) -> str:
        return self.labels["alertname"]


class Prometheus:
    """Scrapes every three seconds: less would be too short for a process that is held up. Inside a `with` block."""

    def __init__(self, folder: Path, targets: Mapping[str, Sequence[str]], rules: str) -> None:
        self._folder = folder
        self._port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rules.yml").write_text(rules)
        jobs = [{"job_name": job, "static_configs": [{"targets": list(each)}]} for job, each in targets.items()]
        config = {
            "global": {"scrape_interval": "3s", "scrape_timeout": "3s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": jobs,
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", timeout=30)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [
            str(program("prometheus")),
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for("Prometheus is ready", self._is_ready, 60)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(30)
        self._client.close()

    def _is_ready(self) -> bool:
        with suppress(httpx.TransportError):
            return self._client.get("/-/ready").status_code == 200
        return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        answer = self._client.get("/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", answer
        return answer["data"]["result"]

    def firing(self) -> list[Firing]:
        answer = self._client.get("/api/v1/alerts").json()
        return [
            Firing(each["labels"], datetime.fromisoformat(each["activeAt"]).timestamp())
            for each in answer["data"]["alerts"]
            if each["state"] == "firing"
        ]

    def targets(self) -> dict[str, str]:
        """Health by URL."""
        answer = self._client.get("/api/v1/targets").json()
        return {each["scrapeUrl"]: f"{each['health']} {each['lastError']}" for each in answer["data"]["activeTargets"]}


def wait_for(what: str, is_so: Callable[[], object], patience_s: float) -> float:
    """Returns after how many seconds it was so."""
    began = time.monotonic()
    wait_until(is_so, what, within_s=patience_s, every_s=0.2)
    return time.monotonic() - began
