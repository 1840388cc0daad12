"""Services that are killed, paused and replaced: no record is lost, and a replaced service writes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from odradek.connect.service.membership import SESSION_MS
from odradek.connect.service.settings import Settings
from odradek.connect.serving import serving_on
from odradek.connect.tasks.leash import LEASE_S
from odradek.testing import Embedded
from odradek.web.listening import listening
from support.committed_records import committed_records
from support.connect_service import PATIENCE_S, ThreadJobs, eventually

TESTS = Path(__file__).parents[1]
TAKEOVER_S = 10.0


class Process:
    """A service in a process of its own, which a test may kill or pause."""

    def __init__(self, broker: Embedded, folder: Path, name: str, group: str) -> None:
        file = folder / f"{name}.url"
        file.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.connect_process", broker.bootstrap_servers, str(file), group],
            cwd=TESTS,
        )
        eventually(file.exists)
        self.http = httpx.Client(base_url=file.read_text(), timeout=PATIENCE_S)

    @property
    def is_active(self) -> bool:
        return "active" in self.http.get("/health").json()["message"]

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.http.close()
        self.send(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in started:
        process.end()


def ids(broker: Embedded, topic: str) -> list[int]:
    """The committed records that are in the topic now, in order."""
    return [json.loads(record.value())["id"] for record in committed_records(broker.bootstrap_servers, topic)]


def test_leases_end_before_another_service_can_be_active() -> None:
    assert 2 * LEASE_S * 1000 < SESSION_MS


def test_a_killed_service_neither_loses_nor_repeats_a_record(
    broker: Embedded, tmp_path: Path, processes: list[Process]
) -> None:
    first = Process(broker, tmp_path, "first", "killed")
    processes.append(first)
    eventually(lambda: first.is_active)
    config = {"connector.class": "datagen", "topic": "killed", "rate": "500", "count": "1500"}
    first.http.post("/connectors", json={"name": "killed", "config": config}).raise_for_status()
    eventually(lambda: len(ids(broker, "killed")) > 300)
    first.end()
    processes[:] = [Process(broker, tmp_path, "second", "killed")]
    eventually(lambda: len(ids(broker, "killed")) >= 1500)
    assert ids(broker, "killed") == list(range(1500))


def test_a_paused_service_is_replaced_and_writes_nothing_when_it_wakes(
    broker: Embedded, tmp_path: Path, processes: list[Process]
) -> None:
    first = Process(broker, tmp_path, "first", "paused")
    processes.append(first)
    eventually(lambda: first.is_active)
    second = Process(broker, tmp_path, "second", "paused")
    processes.append(second)
    config = {"connector.class": "datagen", "topic": "paused", "rate": "200"}
    # The service that stands by passes the request on.
    second.http.post("/connectors", json={"name": "paused", "config": config}).raise_for_status()
    eventually(lambda: len(ids(broker, "paused")) > 50)
    assert not second.is_active
    eventually(lambda: second.http.get("/connectors").json() == ["paused"])

    os.kill(first.process.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    eventually(lambda: second.is_active)
    took_over_s = time.monotonic() - stopped
    here = len(ids(broker, "paused"))
    eventually(lambda: len(ids(broker, "paused")) > here)

    first.send(signal.SIGCONT)
    eventually(lambda: not first.is_active)
    found = ids(broker, "paused")
    assert found == list(range(len(found)))
    # Four times: a busy machine.
    assert took_over_s < 4 * TAKEOVER_S, f"took over after {took_over_s:.1f} s"


def test_a_request_waits_until_a_service_that_has_just_started_is_active(broker: Embedded) -> None:
    wanted = Settings(bootstrap=broker.bootstrap_servers, group="just-started", linger_s=0.5)
    with serving_on(listening("127.0.0.1", 0), wanted, ThreadJobs) as (url, steward):
        assert not steward.is_active
        body = {"name": "early", "config": {"connector.class": "datagen", "topic": "early", "count": "1"}}
        assert httpx.post(f"{url}/connectors", json=body, timeout=60).status_code == 201
        httpx.delete(f"{url}/connectors/early", timeout=60)
