"""Transactions of 100 changed rows at a steady rate, and the check that a topic has each of them once and in order.

The changes of a key are counted by its column `version`, so a lost, repeated or reordered change is visible.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
from confluent_kafka import Consumer, TopicPartition

from odradek.client.admin import Admin

ROWS = 100  # of a transaction
WRITERS = 2
SETTLED = 2_000  # rows of a writer before it changes and deletes some
DELETED, TOMBSTONE = 0, -1
READ_S = 120.0
TABLES = """
CREATE TABLE accounts (id bigint PRIMARY KEY, owner text NOT NULL, balance numeric(14,2) NOT NULL,
    version int NOT NULL, changed timestamptz NOT NULL, note text);
CREATE TABLE progress (writer int PRIMARY KEY, transactions int NOT NULL);
"""
INSERT = "INSERT INTO accounts SELECT id, 'owner ' || id, id * 0.25, 1, now(), NULL FROM unnest(%s::bigint[]) AS id"
UPDATE = """
UPDATE accounts SET balance = balance + 1.5, version = version + 1, changed = now(), note = %s WHERE id = ANY(%s)
"""
DELETE = "DELETE FROM accounts WHERE id = ANY(%s)"


@dataclass
class Transaction:
    inserted: list[int] = field(default_factory=list)
    updated: list[int] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)


class Writer:
    """Changes keys of its own. A transaction whose commit was not answered is looked up in the table `progress`."""

    def __init__(self, dsn: str, number: int, seed: int, per_second: float) -> None:
        self.number = number
        # By key: versions, DELETED and TOMBSTONE in the order of the commits.
        self.events: defaultdict[int, list[int]] = defaultdict(list)
        self.transactions = 0
        self.reconnects = 0
        self._dsn = dsn
        self._chance = random.Random(seed + number)
        self._interval_s = 1 / per_second
        self._live: list[int] = []
        self._dead: list[int] = []
        self._next = number
        self._connection: psycopg.Connection | None = None
        self._stop = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        due_s = time.monotonic()
        try:
            while not self._stop.wait(max(due_s - time.monotonic(), 0)):
                due_s += self._interval_s
                planned = self._planned()
                self._commit(planned)
                self._count(planned)
            if self._connection is not None:
                self._connection.close()
        except BaseException as failed:  # noqa: BLE001 (raised by `finish`)
            self._failed = failed

    def _planned(self) -> Transaction:
        if len(self._live) < SETTLED:
            return Transaction(inserted=self._keys(ROWS))
        kind = self._chance.random()
        if kind < 0.15:
            return Transaction(inserted=self._keys(ROWS))
        if kind < 0.75:
            return Transaction(updated=self._chance.sample(self._live, ROWS))
        if kind < 0.85:
            return Transaction(deleted=self._taken(ROWS))
        deleted = self._taken(ROWS // 4)
        return Transaction(self._keys(ROWS // 4), self._chance.sample(self._live, ROWS // 2), deleted)

    def _keys(self, count: int) -> list[int]:
        """Half of them had a row before."""
        again = [self._dead.pop() for _ in range(min(count // 2, len(self._dead)))]
        new = [self._next + WRITERS * each for each in range(count - len(again))]
        self._next += WRITERS * len(new)
        return again + new

    def _taken(self, count: int) -> list[int]:
        self._chance.shuffle(self._live) if self.transactions % 50 == 0 else None
        return [self._live.pop() for _ in range(count)]

    def _commit(self, planned: Transaction) -> None:
        while True:
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(self._dsn)
                    if self._done_in_database() > self.transactions:
                        return
                self._execute(self._connection, planned)
            except psycopg.OperationalError:
                self.reconnects += 1
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
                self._stop.wait(0.1)
            else:
                return

    def _done_in_database(self) -> int:
        assert self._connection is not None
        found = self._connection.execute(
            "SELECT transactions FROM progress WHERE writer = %s", [self.number]
        ).fetchone()
        self._connection.rollback()
        return found[0] if found else 0

    def _execute(self, connection: psycopg.Connection, planned: Transaction) -> None:
        with connection.pipeline(), connection.transaction():
            if planned.inserted:
                connection.execute(INSERT, [planned.inserted])
            if planned.updated:
                connection.execute(UPDATE, [f"transaction {self.transactions}", planned.updated])
            if planned.deleted:
                connection.execute(DELETE, [planned.deleted])
            connection.execute(
                "INSERT INTO progress VALUES (%s, %s) ON CONFLICT (writer) DO UPDATE SET transactions = %s",
                [self.number, self.transactions + 1, self.transactions + 1],
            )

    def _count(self, planned: Transaction) -> None:
        for key in planned.inserted:
            self.events[key].append(1)
        for key in planned.updated:
            self.events[key].append(self.events[key][-1] + 1)
        for key in planned.deleted:
            self.events[key] += [DELETED, TOMBSTONE]
        self._live += planned.inserted
        self._dead += planned.deleted
        self.transactions += 1


class Load:
    """`rate` changed rows per second, in transactions of 100."""

    def __init__(self, dsn: str, rate: float, seed: int) -> None:
        self._writers = [Writer(dsn, number, seed, rate / ROWS / WRITERS) for number in range(WRITERS)]
        for writer in self._writers:
            writer.start()

    def finish(self) -> dict[int, list[int]]:
        """Stops, and returns the expected events of each key."""
        for writer in self._writers:
            writer.finish()
        return {key: events for writer in self._writers for key, events in writer.events.items()}

    @property
    def changes(self) -> int:
        return sum(writer.transactions for writer in self._writers) * ROWS

    @property
    def reconnects(self) -> int:
        return sum(writer.reconnects for writer in self._writers)


@dataclass
class Replica:
    """What a read_committed reader has found in the topic: events and the last row of each key."""

    bootstrap: str
    topic: str
    events: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    rows: dict[int, dict[str, object]] = field(default_factory=dict)
    read: int = 0

    def follow(self, wanted: int) -> None:
        """Reads until so many records were found, or none arrive any more."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "replica",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        partitions = Admin(self.bootstrap).partition_counts()[self.topic]
        consumer.assign([TopicPartition(self.topic, each, 0) for each in range(partitions)])
        deadline = time.monotonic() + READ_S
        while self.read < wanted and time.monotonic() < deadline:
            messages = consumer.consume(5_000, 0.2)
            for message in messages:
                assert message.error() is None, message.error()
                self._take(json.loads(message.key())["id"], message.value())
            if messages:
                deadline = time.monotonic() + READ_S
        for message in consumer.consume(5_000, 1.0):  # records that should not be there
            self._take(json.loads(message.key())["id"], message.value())
        consumer.close()

    def _take(self, key: int, value: bytes | None) -> None:
        self.read += 1
        if value is None:
            self.events[key].append(TOMBSTONE)
            return
        event = json.loads(value)
        if event["op"] == "d":
            self.events[key].append(DELETED)
            del self.rows[key]
        else:
            self.events[key].append(event["after"]["version"])
            self.rows[key] = event["after"]

    def differences(self, expected: dict[int, list[int]]) -> Iterator[str]:
        for key in expected.keys() | self.events.keys():
            if self.events.get(key) != expected.get(key):
                yield f"{key}: {self.events.get(key)} instead of {expected.get(key)}"

    def rows_that_differ(self, dsn: str) -> int:
        """Compared by PostgreSQL, after all rows of the replica were written to a table."""
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TEMP TABLE replica (LIKE accounts)")
            with connection.cursor().copy("COPY replica FROM STDIN") as copy:
                for row in self.rows.values():
                    copy.write_row(tuple(row.values()))
            found = connection.execute(
                "SELECT count(*) FROM ((TABLE accounts EXCEPT ALL TABLE replica) UNION ALL "
                "(TABLE replica EXCEPT ALL TABLE accounts)) AS different"
            ).fetchone()
        assert found is not None
        return int(found[0])
