"""A connect service without Spark: its tasks run in threads of the test. All else is real."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from odradek.connect.service.jobs import Ended
from odradek.connect.service.settings import Settings
from odradek.connect.service.steward import Steward
from odradek.connect.serving import serving_on
from odradek.connect.tasks.running import run
from odradek.connect.tasks.spec import TaskSpec
from odradek.spark import task_producer
from odradek.web.listening import listening
from support.waiting import wait_until

PATIENCE_S = 60.0


class ThreadJobs:
    slots = 8

    def __init__(self, ended: Ended) -> None:
        self._ended = ended

    def launch(self, spec: TaskSpec) -> None:
        threading.Thread(target=lambda: self._ended(spec.run, run(spec)), name=spec.run, daemon=True).start()

    def kill(self, run: str) -> None:
        raise AssertionError(f"{run} did not stop by itself")


@dataclass
class Service:
    url: str
    steward: Steward
    http: httpx.Client

    def create(self, name: str, **config: object) -> None:
        dotted = {key.replace("_", "."): str(value) for key, value in config.items()}
        answer = self.http.post("/connectors", json={"name": name, "config": dotted})
        assert answer.status_code == 201, answer.text

    def states(self, name: str) -> list[str]:
        answer = self.http.get(f"/connectors/{name}/status")
        return [task["state"] for task in answer.json()["tasks"]] if answer.status_code == 200 else []


@contextmanager
def connect_service(bootstrap: str, *, linger_s: float = 0.5, **settings: object) -> Iterator[Service]:
    wanted = Settings(bootstrap=bootstrap, linger_s=linger_s, **settings)
    with (
        serving_on(listening("127.0.0.1", 0), wanted, ThreadJobs) as (url, steward),
        httpx.Client(base_url=url, timeout=PATIENCE_S) as http,
    ):
        eventually(lambda: steward.is_active and steward.may_write)
        yield Service(url, steward, http)
    # Tasks keep their producers for later tasks. They would reconnect to a port that another broker may get.
    task_producer._PRODUCERS.clear()


def eventually(condition: Callable[[], object], what: object = None) -> None:
    wait_until(condition, what, within_s=PATIENCE_S)
