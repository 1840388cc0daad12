"""`postgres-cdc`: every change of a PostgreSQL database as Debezium's change events, after a snapshot of its rows."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import ClassVar

import psycopg

from odradek.connect.connectors.debezium import ChangeEvents
from odradek.connect.connectors.heartbeats import Heartbeats
from odradek.connect.connectors.postgres import slot
from odradek.connect.connectors.postgres.catalog import Catalog, TableName
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.heartbeat import act
from odradek.connect.connectors.postgres.snapshot import Snapshot
from odradek.connect.connectors.postgres.tables import Tables
from odradek.connect.connectors.postgres.transactions import Transactions, lsn_of
from odradek.connect.connectors.postgres.wal_stream import Keepalive, WalStream, connected, lsn_number
from odradek.connect.interface import RetriableError, Source
from odradek.connect.records import Offset, Partition, Record, SourcePlace

WAIT_S = 0.1
# An idle position is stored after this time, so that the slot does not hold back the log of other tables.
IDLE_S = 1.0

Yielded = list[Record] | SourcePlace | None
Reading = Iterator[Yielded]


class PostgresCdc(Source[PostgresCdcConfig]):
    """One partition: the log of one slot. A snapshot that was interrupted begins again, with a new slot."""

    Config: ClassVar[type] = PostgresCdcConfig

    def __init__(self, config: PostgresCdcConfig) -> None:
        super().__init__(config)
        self._looking: psycopg.Connection | None = None
        self._stream: WalStream | None = None
        self._events = ChangeEvents(tombstones=config.tombstones_on_delete)

    def partitions(self) -> Sequence[Partition]:
        return [{"server": self.config.topic_prefix}]

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:  # noqa: ARG002
        """Whether the server has written anything to its log: only decoding tells whether it is of our tables."""
        if not _is_streaming(offset) or self.config.heartbeat_interval_ms:
            return True
        found = self._driver_connection().execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        return found is not None and lsn_number(found[0]) > lsn_of(offset)

    def stays(self) -> bool:
        return self.config.heartbeat_interval_ms > 0

    def _heartbeats(self) -> Heartbeats:
        config = self.config
        return Heartbeats(config.heartbeat_interval_ms, topic=config.topic_heartbeat_prefix, server=config.topic_prefix)

    def levels(self) -> Mapping[str, float]:
        return slot.levels(self._driver_connection(), self.config)

    def _driver_connection(self) -> psycopg.Connection:
        if self._looking is None or self._looking.closed:
            self._looking = connected(self.config)
        return self._looking

    def committed(self, partition: Partition, offset: Offset) -> None:  # noqa: ARG002
        if self._stream is not None and _is_streaming(offset):
            self._stream.confirm(lsn_of(offset))

    def close(self) -> None:
        if self._looking is not None:
            self._looking.close()
        if self._stream is not None:
            self._stream.close()

    def read(self, partition: Partition, offset: Offset | None) -> Reading:
        try:
            with closing(connected(self.config)) as connection:
                tables = Tables(self.config, Catalog(connection))
                slot.ensure_publication(connection, self.config, self._published(connection))
                is_first = not _is_streaming(offset)
                if offset is not None and not is_first:
                    slot.check_slot(connection, self.config, lsn_of(offset), self.connector)
                elif self.config.snapshot_mode == "initial":
                    slot.drop_slot(connection, self.config)
                    offset = yield from self._snapshot(partition)
                else:
                    offset = yield from self._from_now(connection, partition)
                slot.check_signals(connection, self.config)
                transactions = Transactions(self.config, tables, self._events, partition, offset, is_first=is_first)
                yield from self._changes(connection, transactions, partition)
        except psycopg.OperationalError as broken:
            raise RetriableError(f"the connection to PostgreSQL broke: {broken}") from broken

    def _from_now(self, connection: psycopg.Connection, partition: Partition) -> Generator[Yielded, None, Offset]:
        """Without a snapshot: from the slot's position, or from a new slot on."""
        lsn = slot.confirmed_lsn(connection, self.config, self.connector)
        if lsn is None:
            with closing(connected(self.config, replication=True)) as replication:
                lsn = slot.create_slot(replication, self.config).lsn
        offset = {"lsn": lsn}
        yield SourcePlace(partition, offset)
        return offset

    def _published(self, connection: psycopg.Connection) -> list[TableName]:
        signals = self.config.signal_data_collection
        found = Catalog(connection).tables(roots=self.config.publish_via_partition_root)
        return [
            each
            for each in found
            if self.config.covers_table(each.schema, each.table) or f"{each.schema}.{each.table}" == signals
        ]

    def _tables(self, connection: psycopg.Connection) -> list[TableName]:
        found = Catalog(connection).tables(roots=self.config.publish_via_partition_root)
        return [table for table in found if self.config.covers_table(table.schema, table.table)]

    def _snapshot(self, partition: Partition) -> Generator[Yielded, None, Offset]:
        with closing(connected(self.config, replication=True)) as replication, closing(connected(self.config)) as other:
            snapshot = Snapshot(self.config, self._events, partition, slot.create_slot(replication, self.config))
            is_empty = True
            for rows in snapshot.records(self._tables(other)):
                yield rows
                is_empty = is_empty and not rows
        if is_empty:
            yield SourcePlace(partition, snapshot.done)
        return snapshot.done

    def _changes(self, connection: psycopg.Connection, transactions: Transactions, partition: Partition) -> Reading:
        self._stream = stream = WalStream(self.config, transactions.end)
        try:
            pace, heartbeats = _Pace(transactions.end), self._heartbeats()
            while True:
                found = stream.messages(pace.wait_s)
                passed = transactions.feed(each for each in found if isinstance(each, tuple))
                if passed is not None:
                    yield passed
                if ready := transactions.take():
                    yield ready
                    pace.moved(transactions.end)
                elif not found:
                    yield None
                pace.is_quiet = not found
                if transactions.is_open:
                    continue
                transactions.continue_snapshot(connection)
                if heartbeats.is_due():
                    act(connection, self.config.heartbeat_action_query)
                    yield [heartbeats.event(SourcePlace(partition, transactions.offset()))]
                if found and isinstance(found[-1], Keepalive):
                    transactions.end = max(transactions.end, found[-1].end)
                if pace.is_idle_after(transactions.end):
                    pace.moved(transactions.end)
                    yield SourcePlace(partition, transactions.offset())
                elif not found and pace.may_ask():
                    stream.ask()
        finally:
            stream.close()
            self._stream = None


class _Pace:
    """When to wait for messages, to store a position without records, and to ask the server for its position."""

    def __init__(self, end: int) -> None:
        self.is_quiet = False
        self._end = end
        self._moved_s = self._asked_s = time.monotonic()

    @property
    def wait_s(self) -> float:
        return WAIT_S if self.is_quiet else 0.0

    def moved(self, end: int) -> None:
        self._end, self._moved_s = end, time.monotonic()

    def is_idle_after(self, end: int) -> bool:
        return end > self._end and time.monotonic() - self._moved_s > IDLE_S

    def may_ask(self) -> bool:
        now = time.monotonic()
        if now - max(self._asked_s, self._moved_s) <= IDLE_S:
            return False
        self._asked_s = now
        return True


def _is_streaming(offset: Offset | None) -> bool:
    return offset is not None and "lsn" in offset and "snapshot" not in offset
