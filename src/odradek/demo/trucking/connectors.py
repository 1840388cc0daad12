"""The demo's connectors: their configs, and a thread that creates them over REST and looks how they are."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odradek.demo.trucking import topics
from odradek.demo.trucking.database import SLOT, Database
from odradek.demo.trucking.page_state import PartState

CAPTURE, TABLE, LAKE = "drivers-capture", "alerts-table", "alerts-lake"

CREATE_AGAIN_S = 0.25
LOOK_EVERY_S = 1.0
REQUEST_S = 10.0
USUAL_START_S = 20.0

Configs = Mapping[str, Mapping[str, str]]


def configs(database: Database, lake: Path) -> Configs:
    """Each connector's config, by its name."""
    return {
        CAPTURE: _postgres(database) if database.is_postgres else _sqlite(database),
        TABLE: {
            "connector.class": "sql-sink",
            "topics": topics.ALERTS,
            "connection.url": database.url.render_as_string(hide_password=False),
        },
        LAKE: {
            "connector.class": "lake",
            "topics": topics.ALERTS,
            "path": str(lake),
            "format": "parquet",
            "rotate.interval.ms": "10000",
        },
    }


def _sqlite(database: Database) -> dict[str, str]:
    return {
        "connector.class": "sqlite-cdc",
        "database.path": str(database.url.database),
        "topic.prefix": "trucking",
        "table.include.list": "driver",
        # SQLite has no schemas. So the topic has the name that PostgreSQL's `public` gives it.
        "transforms": "public",
        "transforms.public.type": "regex-router",
        "transforms.public.regex": r"trucking\.main\.(.*)",
        "transforms.public.replacement": "trucking.public.$1",
    }


def _postgres(database: Database) -> dict[str, str]:
    url = database.url
    optional = {"database.password": url.password, "database.port": url.port}
    return {
        "connector.class": "postgres-cdc",
        "database.hostname": url.host or "127.0.0.1",
        "database.user": url.username or "",
        "database.dbname": url.database or "",
        **{name: str(value) for name, value in optional.items() if value is not None},
        "topic.prefix": "trucking",
        "table.include.list": r"public\.driver",
        "slot.name": SLOT,
        "publication.name": SLOT,
        "publication.autocreate.mode": "filtered",
    }


class Connectors:
    """Creates them once; the service keeps them in its topics. `states` is empty while it does not answer."""

    def __init__(self, url: str, wanted: Configs) -> None:
        self.url = url
        self._wanted = wanted
        self._missing = list(wanted)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connectors", daemon=True)
        self._started_at = time.monotonic()
        self._was_alive = False
        self.states: Mapping[str, str] = {}
        self.refusal = ""  # why a connector could not be created

    def start(self) -> None:
        self._started_at = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def state(self) -> PartState:
        states = self.states
        failed = [name for name, state in states.items() if state == "FAILED"]
        if failed or self.refusal:
            return PartState(name="connect", state="stopped", detail=self.refusal or f"{failed[0]} has failed")
        running = sum(state == "RUNNING" for state in states.values())
        if running == len(self._wanted):
            self._was_alive = True
            return PartState(name="connect", state="alive", detail=f"{running} connectors")
        return PartState(
            name="connect",
            state="restarting" if self._was_alive else "starting",
            detail=f"{running} of {len(self._wanted)} run",
            progress=min(0.95, (time.monotonic() - self._started_at) / USUAL_START_S),
        )

    def _run(self) -> None:
        while not self._stop.wait(CREATE_AGAIN_S if self._missing else LOOK_EVERY_S):
            try:
                self._create()
                self.states = self._looked()
            except OSError:  # the service does not listen yet, or no longer
                self.states = {}

    def _create(self) -> None:
        for name in tuple(self._missing):
            try:
                self._send("PUT", f"/connectors/{name}/config", self._wanted[name])
            except urllib.error.HTTPError as refused:
                if refused.code == 400:
                    self.refusal = json.loads(refused.read())["message"]
                raise
            self._missing.remove(name)

    def _looked(self) -> dict[str, str]:
        found = self._send("GET", "/connectors?expand=status")
        return {name: _state(each["status"]) for name, each in found.items() if name in self._wanted}

    def _send(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 (JSON)
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310 (our own address)
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:  # noqa: S310
            return json.load(answer)


def _state(status: Mapping[str, Any]) -> str:
    """RUNNING if the connector and all of its tasks run; otherwise the state of the part that does not."""
    parts = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
    if not status["tasks"]:
        return parts[0] if parts[0] != "RUNNING" else "UNASSIGNED"
    return next((state for state in ("FAILED", *parts) if state in parts and state != "RUNNING"), "RUNNING")
