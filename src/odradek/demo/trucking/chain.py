"""What surrounds the topics of the demo: the database with its clerk, the connectors, and where alerts land."""

from __future__ import annotations

import json
import time
from pathlib import Path

from confluent_kafka import Message

from odradek.demo.trucking.clerk import Clerk
from odradek.demo.trucking.connectors import Connectors, configs
from odradek.demo.trucking.database import Database
from odradek.demo.trucking.drivers import Driver
from odradek.demo.trucking.fleet import Record
from odradek.demo.trucking.landed import Landed
from odradek.demo.trucking.page_state import ChainState
from odradek.demo.trucking.trail import STATIONS, Trail


class Chain:
    """`create` before the application starts, `start` with it. `rest` when nothing reads the database any more."""

    def __init__(self, data: Path, database_url: str | None, connect_url: str) -> None:
        lake = data / "lake"
        self.database = Database(database_url) if database_url else Database.in_file(data / "trucking.db")
        self.connectors = Connectors(connect_url, configs(self.database, lake))
        self.landed = Landed(self.database, lake)
        self._clerk = Clerk(self.database, self._committed)
        self._drivers = 0
        self._changes = 0
        self._trail: Trail | None = None

    def create(self, drivers: list[Driver]) -> None:
        self.database.create(drivers)
        self._drivers = len(drivers)

    def start(self) -> None:
        for part in (self._clerk, self.connectors, self.landed):
            part.start()

    def rest(self) -> None:
        for part in (self._clerk, self.connectors, self.landed):
            part.stop()
        self.database.leave()

    def change(self, record: Record) -> None:
        """Carries out what the fleet says about a row. The rows of its snapshot are in the table already."""
        envelope = json.loads(record.value)
        if envelope["op"] == "u":
            self._clerk.change(Driver(**envelope["after"]))

    def follow(self, driver: Driver) -> None:
        """Follows the change to this row from now on, instead of the one before."""
        self._trail = Trail(driver, time.monotonic())

    def see(self, messages: list[Message]) -> None:
        trail, now = self._trail, time.monotonic()
        if trail is None or trail.is_complete:
            return
        for message in messages:
            if message.topic() in STATIONS and message.value():
                trail.see(message.topic(), json.loads(message.value()), now)

    def _committed(self, driver: Driver) -> None:
        self._changes += 1
        if self._trail is not None:
            self._trail.committed(driver, time.monotonic())

    @property
    def uncommitted(self) -> int:
        return self._clerk.waiting

    @property
    def trail(self) -> Trail | None:
        return self._trail

    def state(self) -> ChainState:
        counts = self.landed.counts
        return ChainState(
            database=self.database.described,
            drivers=self._drivers,
            changes=self._changes,
            connectors=dict(self.connectors.states),
            table_rows=counts.table,
            lake_rows=counts.lake,
            lake_files=counts.files,
            trail=None if self._trail is None else self._trail.as_data(),
        )
