"""Committed transactions as records, each with the offset after it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg

from odradek.connect.connectors.debezium import Change, ChangeEvents
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.incremental import ChunkRow, IncrementalSnapshot
from odradek.connect.connectors.postgres.messages import Messages
from odradek.connect.connectors.postgres.pgoutput import (
    INSERT,
    ROW_MESSAGES,
    UNCHANGED,
    Begin,
    Commit,
    LogicalMessage,
    Relation,
    RowChange,
    Truncate,
    decoded,
    relation_of,
    row_change,
)
from odradek.connect.connectors.postgres.signals import Signal, signal
from odradek.connect.connectors.postgres.tables import CapturedTable, Tables, source_of
from odradek.connect.connectors.postgres.transaction_metadata import TransactionMetadata
from odradek.connect.connectors.postgres.wal_stream import WalData
from odradek.connect.records import Offset, Partition, Record, SourcePlace


class Transactions:
    """Feed it messages, then `take` the records that are ready.

    The offset `lsn` is the end of the last transaction that is complete in the topics. Inside a transaction the offset
    also has its id, and the place and number of the last change: a restart reads the transaction again and skips what
    was written.
    """

    def __init__(
        self, config: PostgresCdcConfig, tables: Tables, events: ChangeEvents, partition: Partition, offset: Offset,
        *, is_first: bool = False,
    ) -> None:  # fmt: skip
        self._config = config
        self._tables = tables
        self._events = events
        self._partition = partition
        self._messages = Messages(config)
        self._metadata = TransactionMetadata(config) if config.provide_transaction_metadata else None
        self._skipped = frozenset(config.skipped_operations)
        self._written: Offset | None = offset if "txId" in offset else None
        self._begin: Begin | None = None
        # The field `source` of each table, as far as it is the same for all changes of the transaction.
        self._sources: dict[int, dict[str, Any]] = {}
        self._ready: list[Record] = []
        self._signals: list[Signal] = []
        self._at: tuple[int, int] = (0, 0)
        self.end = lsn_of(offset)
        # For the field `sequence`: not known yet after a snapshot.
        self._last_commit = "null" if is_first else f'"{self.end}"'
        self.snapshot = IncrementalSnapshot(config, tables, offset)
        # More fields of every offset: those of an incremental snapshot.
        self.state: Mapping[str, object] = self.snapshot.state()

    @property
    def is_open(self) -> bool:
        return self._begin is not None

    def take(self) -> list[Record]:
        """The last record of an open transaction waits: if no other one follows, it gets the offset of the commit."""
        ready, self._ready = self._ready, []
        if self._begin is not None and ready:
            last = len(ready) - 1
            while last and ready[last - 1].place is None:
                last -= 1
            ready, self._ready = ready[:last], ready[last:]
        return ready

    def feed(self, found: Iterable[WalData]) -> SourcePlace | None:
        """Returns the place after a transaction all of whose records were written before a restart, but not its end."""
        passed = None
        for lsn, data in found:
            if data[0] in ROW_MESSAGES:
                self._row(lsn, data)
                continue
            match decoded(data):
                case Begin() as message:
                    self._begun(message, lsn)
                case Commit() as message:
                    passed = self._committed(message) or passed
                case Relation() as message:
                    self._tables.learn(message)
                case Truncate() as message:
                    self._truncated(message, lsn)
                case LogicalMessage() as message:
                    self._told(message)
        return passed

    def _begun(self, message: Begin, first_lsn: int) -> None:
        self._begin, self._at = message, (0, 0)
        self._sources.clear()
        self._signals.clear()
        if self._metadata is not None:
            record = self._metadata.begin(message, first_lsn)
            if self._is_new(self._at):
                self._add([record], self._at)

    def _committed(self, message: Commit) -> SourcePlace | None:
        begin = self._open()
        # The end may not go back: a transaction that is read again ended before.
        self.end = max(self.end, message.end_lsn)
        self._last_commit = f'"{self.end}"'
        self.snapshot.committed(begin.xid)
        written, self._written, self._begin = self._written, None, None
        if self._metadata is not None:
            self._ready.append(self._metadata.end(begin, message.end_lsn))
        chunks = [chunk for each in self._signals if (chunk := self._obey(each)) is not None]
        done = SourcePlace(self._partition, self.offset())
        if self._ready:
            self._ready[-1].place = done
        for table, rows in chunks:
            self._add_chunk(table, rows)
        return done if written is not None and not self._ready else None

    def _obey(self, signal: Signal) -> tuple[CapturedTable, list[ChunkRow]] | None:
        chunk = self.snapshot.ended(signal)
        if chunk is None:
            self.snapshot.take(signal)
            self.state = self.snapshot.state()
        return chunk

    def continue_snapshot(self, connection: psycopg.Connection) -> None:
        """Between transactions: reads the next chunk, if one is due."""
        if self.state:
            self.snapshot.step(connection)
            self.state = self.snapshot.state()

    def _add_chunk(self, table: CapturedTable, rows: list[ChunkRow]) -> None:
        """The rows of an incremental snapshot. A restart continues after the last row that was written."""
        source = source_of(self._config, table.schema, table.table, time.time_ns() // 1_000, "incremental")
        source["lsn"] = self.end
        for row in rows:
            event = Change(table=table.shape, operation="r", before=None, after=row.fields, source=source)
            offset = {"lsn": self.end, **self.snapshot.state(row.key)}
            self._ready += self._events.records(event, self._partition, offset)
        self.snapshot.passed()
        self.state = self.snapshot.state()

    def offset(self) -> dict[str, object]:
        return {"lsn": self.end, **self.state}

    def _open(self) -> Begin:
        if self._begin is None:
            raise ValueError("pgoutput sent a change outside of a transaction")
        return self._begin

    def _passes(self, lsn: int) -> tuple[int, int]:
        """The place and number of the next change: rows of one COPY have the same place in the log."""
        self._at = at = (lsn, self._at[1] + 1 if self._at[0] == lsn else 1)
        return at

    def _is_new(self, at: tuple[int, int]) -> bool:
        """Whether it was not written before a restart."""
        written = self._written
        return written is None or at > (int(str(written["event_lsn"])), int(str(written["event"])))

    def _add(self, records: list[Record], at: tuple[int, int]) -> None:
        begin = self._open()
        after = {"lsn": self.end, "txId": begin.xid, "event_lsn": at[0], "event": at[1], **self.state}
        records[-1].place = SourcePlace(self._partition, after)
        self._ready += records

    def _row(self, lsn: int, data: bytes) -> None:
        at = self._passes(lsn)
        oid = relation_of(data)
        table = self._tables.of(oid)
        if oid == self._tables.signals_oid and data[0] == INSERT:
            self._signalled(data)
        if table is None:
            return
        change = row_change(data, table.plan)
        if change.operation not in self._skipped:
            self._changed(oid, table, change, at)

    def _signalled(self, data: bytes) -> None:
        """Signals count when their transaction is committed, and so do their offsets."""
        row = row_change(data, self._tables.signals_plan).new or {}
        id_, kind, content = [*row.values(), None, None, None][:3]
        found = signal(str(id_), str(kind), content)
        if found is not None:
            self._signals.append(found)

    def _changed(self, oid: int, table: CapturedTable, change: RowChange, at: tuple[int, int]) -> None:
        begin, old, new = self._open(), change.old, change.new
        if old is not None and not change.is_old_full:
            old = table.identity(old)
        if new is not None and UNCHANGED in new.values():
            new = table.completed(new, old if change.is_old_full else None)
        if self.snapshot.has_chunk:
            self.snapshot.changed(oid, old)
            self.snapshot.changed(oid, new)
        source = self._sources.get(oid)
        if source is None:
            source = self._sources[oid] = self._source(table, begin)
        event = Change(
            table=table.shape,
            operation=change.operation,  # type: ignore[arg-type]  # c, u or d
            before=old,
            after=new,
            source={**source, "sequence": f'[{self._last_commit},"{at[0]}"]', "lsn": at[0]},
        )
        self._write(table, event, at)

    def _write(self, table: CapturedTable, event: Change, at: tuple[int, int]) -> None:
        begin = self._open()
        after = {"lsn": self.end, "txId": begin.xid, "event_lsn": at[0], "event": at[1], **self.state}
        order = None if self._metadata is None else self._metadata.order(begin, at[0], f"{table.schema}.{table.table}")
        records = self._events.records(event, self._partition, after, order)
        # Records that were written before are made all the same, because the metadata counts them.
        if self._written is None or self._is_new(at):
            self._ready += records

    def _truncated(self, message: Truncate, lsn: int) -> None:
        begin, at = self._open(), self._passes(lsn)
        for oid in message.relations:
            self.snapshot.truncated(oid)
        if "t" in self._skipped:
            return
        for number, oid in enumerate(message.relations):
            table = self._tables.of(oid)
            if table is not None:
                source = self._source(table, begin) | {"sequence": f'[{self._last_commit},"{lsn}"]', "lsn": lsn}
                event = Change(table=table.shape, operation="t", before=None, after=None, source=source)
                # Each of the tables has a number, as if it had a message of its own.
                self._write(table, event, at if number == 0 else self._passes(lsn))

    def _told(self, message: LogicalMessage) -> None:
        if not message.is_transactional:
            self._last_commit = f'"{message.lsn}"'
        sequence = f'[{self._last_commit},"{message.lsn}"]'
        block = None
        if self._metadata is not None and message.is_transactional:
            block = self._metadata.order(self._open(), message.lsn, "message")()
        record = self._messages.record(message, self._begin, sequence, block)
        if message.is_transactional:
            at = self._passes(message.lsn)
            if record is not None and self._is_new(at):
                self._add([record], at)
            return
        self.end = max(self.end, message.lsn + 1)
        if record is not None:
            record.place = SourcePlace(self._partition, self.offset())
            self._ready.append(record)

    def _source(self, table: CapturedTable, begin: Begin) -> dict[str, Any]:
        return source_of(self._config, table.schema, table.table, begin.committed_us, "false") | {"txId": begin.xid}


def lsn_of(offset: Offset | None) -> int:
    return int(str(offset["lsn"])) if offset is not None else 0
