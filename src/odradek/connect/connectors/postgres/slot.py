"""The replication slot and the publication of a connector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from odradek.connect.connectors.postgres.catalog import TableName
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.wal_stream import lsn_number, lsn_text
from odradek.connect.interface import NeedsUser, RetriableError

SLOT = (
    "SELECT confirmed_flush_lsn::text, wal_status, active_pid, database FROM pg_replication_slots WHERE slot_name = %s"
)
LEVELS = """
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)
FROM pg_replication_slots WHERE slot_name = %s
"""


class SlotLost(NeedsUser):
    """Changes were lost with the slot: streaming cannot continue."""

    def __init__(self, what: str, connector: str) -> None:
        super().__init__(
            f"{what}. Take a new snapshot with: odradek connect stop {connector}; "
            f"odradek connect offsets {connector} --reset --yes; odradek connect resume {connector}"
        )


@dataclass(frozen=True, slots=True)
class NewSlot:
    lsn: int
    snapshot: str  # the name of the exported snapshot, valid as long as the connection does nothing else


def ensure_publication(connection: psycopg.Connection, config: PostgresCdcConfig, tables: Sequence[TableName]) -> None:
    name = config.publication_name
    if connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", [name]).fetchone() is not None:
        return
    if config.publication_autocreate_mode == "disabled":
        raise ValueError(f'there is no publication "{name}". Create it with: CREATE PUBLICATION "{name}" FOR TABLE …')
    if config.publication_autocreate_mode == "filtered" and not tables:
        raise ValueError("no table matches the options, so there is nothing to create a publication for")
    of_all = config.publication_autocreate_mode == "all_tables"
    listed = sql.SQL(", ").join(sql.Identifier(table.schema, table.table) for table in tables)
    what = sql.SQL("FOR ALL TABLES") if of_all else sql.SQL("FOR TABLE {}").format(listed)
    root = sql.Literal(config.publish_via_partition_root)
    create = sql.SQL("CREATE PUBLICATION {} {} WITH (publish_via_partition_root = {})")
    connection.execute(create.format(sql.Identifier(name), what, root))


def confirmed_lsn(connection: psycopg.Connection, config: PostgresCdcConfig, connector: str) -> int | None:
    """How far the slot was read; None if there is no slot. Raises SlotLost for one that the server has invalidated."""
    found = connection.execute(SLOT, [config.slot_name]).fetchone()
    if found is None:
        return None
    confirmed, status, _, database = found
    if database != config.database_dbname:
        raise ValueError(
            f"the slot {config.slot_name!r} belongs to the database {database!r}; choose another slot.name"
        )
    if status == "lost" or confirmed is None:
        raise SlotLost(f"PostgreSQL has invalidated the slot {config.slot_name!r} (wal_status {status})", connector)
    return lsn_number(confirmed)


def check_slot(connection: psycopg.Connection, config: PostgresCdcConfig, offset_lsn: int, connector: str) -> None:
    """Raises SlotLost unless the slot still has all changes after the offset.

    The connector confirms a position only after its offset is durable, so the slot is never ahead of the offset.
    """
    confirmed = confirmed_lsn(connection, config, connector)
    if confirmed is None:
        raise SlotLost(f"the slot {config.slot_name!r} does not exist any more", connector)
    if confirmed > offset_lsn:
        raise SlotLost(
            f"the slot {config.slot_name!r} is at {lsn_text(confirmed)}, after the offset {lsn_text(offset_lsn)}: "
            "it was created again or read by another program, and changes were lost",
            connector,
        )


def check_signals(connection: psycopg.Connection, config: PostgresCdcConfig) -> None:
    """Without this check, signals would be ignored without a word."""
    if config.signal_data_collection is None:
        return
    schema, _, table = config.signal_data_collection.partition(".")
    query = "SELECT 1 FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s"
    if connection.execute(query, [config.publication_name, schema, table]).fetchone() is None:
        raise NeedsUser(
            f"signal.data.collection is {config.signal_data_collection}, but there is no such table, or the "
            f"publication does not include it. Create it with: CREATE TABLE {config.signal_data_collection} (id "
            "varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)); include it with: "
            f'ALTER PUBLICATION "{config.publication_name}" ADD TABLE {config.signal_data_collection}'
        )


def levels(connection: psycopg.Connection, config: PostgresCdcConfig) -> dict[str, float]:
    """How much log the slot holds back, and how far the connector is behind; nothing without a slot."""
    found = connection.execute(LEVELS, [config.slot_name]).fetchone()
    if found is None or found[0] is None:
        return {}
    return {"slot.retained.bytes": float(found[0]), "slot.lag.bytes": float(found[1] or 0)}


def drop_slot(connection: psycopg.Connection, config: PostgresCdcConfig) -> None:
    """Drops the slot, if it exists. A killed task may still hold it for a moment."""
    query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
    try:
        connection.execute(query, [config.slot_name])
    except psycopg.errors.ObjectInUse as used:
        raise RetriableError(f"the slot {config.slot_name!r} is in use: {used}") from used


def create_slot(replication: psycopg.Connection, config: PostgresCdcConfig) -> NewSlot:
    create = sql.SQL("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput EXPORT_SNAPSHOT")
    answer = replication.pgconn.exec_(create.format(sql.Identifier(config.slot_name)).as_bytes(replication))
    lsn, snapshot = (
        answer.get_value(0, 1) if answer.ntuples else None,
        answer.get_value(0, 2) if answer.ntuples else None,
    )
    if lsn is None or snapshot is None:
        raise RetriableError(f"the slot {config.slot_name!r} was not created: {replication.pgconn.get_error_message()}")
    return NewSlot(lsn_number(lsn.decode()), snapshot.decode())
