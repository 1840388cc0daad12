"""The options of `postgres-cdc`: Debezium's names, defaults and meanings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from odradek.connect.connectors.heartbeats import TOPIC
from odradek.connect.options import Secret, at_least, not_empty, one_of, option, patterns, topic_part

SNAPSHOT = "Snapshot"
TYPES = "Types"
SLOT = "Replication"
SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")
OPERATIONS = one_of({"c", "u", "d", "t", "none"}, "operations are c, u, d, t or none")


def _slot_name(name: str) -> str | None:
    return None if SLOT_NAME.fullmatch(name) else "must consist of a-z, 0-9 and _, 63 characters at most"


def _table(text: str | None) -> str | None:
    return None if text is None or text.count(".") == 1 else "must be SCHEMA.TABLE"


def _channels(found: list[str]) -> str | None:
    return None if found == ["source"] else "can only be source: signals are rows of signal.data.collection"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresCdcConfig:
    database_hostname: str = option("The address of the PostgreSQL server.", importance="HIGH", check=not_empty)
    database_port: int = option("Its port.", default=5432, importance="HIGH", check=at_least(1))
    database_user: str = option(
        "A user with the attribute REPLICATION, who may read the tables.", importance="HIGH", check=not_empty
    )
    database_password: Secret | None = option("The user's password.", default=None, importance="HIGH")
    database_dbname: str = option("The database to capture.", importance="HIGH", check=not_empty)
    database_sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] = option(
        "Whether the connection is encrypted.", default="prefer"
    )
    database_sslcert: str | None = option("The file of the client's certificate.", default=None)
    database_sslkey: str | None = option("The file of the client's key.", default=None)
    database_sslrootcert: str | None = option("The file of trusted certificates.", default=None)
    topic_prefix: str = option("Topics are PREFIX.SCHEMA.TABLE.", importance="HIGH", check=topic_part)
    schema_include_list: list[str] = option("Regular expressions of schemas.", default=[], check=patterns)
    schema_exclude_list: list[str] = option(
        "Regular expressions of schemas that are left out.", default=[], check=patterns
    )
    table_include_list: list[str] = option(
        "Regular expressions of SCHEMA.TABLE; the default is all tables.", default=[], check=patterns
    )
    table_exclude_list: list[str] = option(
        "Regular expressions of SCHEMA.TABLE that are left out.", default=[], check=patterns
    )
    column_include_list: list[str] = option("Regular expressions of SCHEMA.TABLE.COLUMN.", default=[], check=patterns)
    column_exclude_list: list[str] = option(
        "Regular expressions of SCHEMA.TABLE.COLUMN that are left out.", default=[], check=patterns
    )
    plugin_name: Literal["pgoutput"] = option(
        "The decoder in the server; pgoutput is part of PostgreSQL.", default="pgoutput", group=SLOT
    )
    slot_name: str = option(
        "The replication slot. It belongs to this connector alone.", default="debezium", group=SLOT, check=_slot_name
    )
    publication_name: str = option("The publication.", default="dbz_publication", group=SLOT, check=not_empty)
    publication_autocreate_mode: Literal["all_tables", "disabled", "filtered"] = option(
        "What a missing publication is created for: all tables, or those that are captured then.",
        default="all_tables",
        group=SLOT,
    )
    publish_via_partition_root: bool = option(
        "Changes of partitions go to the topic of the partitioned table. Used when the publication is created.",
        default=False,
        group=SLOT,
    )
    snapshot_mode: Literal["initial", "no_data"] = option(
        "initial: first all rows, then changes. no_data: only changes from now on.",
        default="initial",
        group=SNAPSHOT,
    )
    snapshot_fetch_size: int = option("Rows that are read at once.", default=10_240, group=SNAPSHOT, check=at_least(1))
    snapshot_max_threads: int = option(
        "Connections that read rows at the same time: chunks of large tables, by their keys.",
        default=1,
        group=SNAPSHOT,
        check=at_least(1),
    )
    signal_data_collection: str | None = option(
        "SCHEMA.TABLE with the columns id, type and data. Rows that are inserted there are signals.",
        default=None,
        group=SNAPSHOT,
        check=_table,
    )
    signal_enabled_channels: list[str] = option(
        "Where signals come from: source is the table.", default=["source"], group=SNAPSHOT, check=_channels
    )
    incremental_snapshot_chunk_size: int = option(
        "Rows that an incremental snapshot reads at once.", default=1_024, group=SNAPSHOT, check=at_least(1)
    )
    heartbeat_interval_ms: int = option(
        "How often an event goes to the topic of heartbeats; 0: never.", default=0, group=SLOT, check=at_least(0)
    )
    heartbeat_action_query: str | None = option("SQL that is executed with each heartbeat.", default=None, group=SLOT)
    topic_heartbeat_prefix: str = option(
        "The topic of heartbeats is this, a dot and topic.prefix.",
        default=TOPIC,
        group=SLOT,
        check=topic_part,
    )
    provide_transaction_metadata: bool = option(
        "Write an event at the begin and the end of each transaction, and number the events in between.", default=False
    )
    topic_transaction: str = option(
        "The topic of these events, after topic.prefix and a dot.", default="transaction", check=topic_part
    )
    message_prefix_include_list: list[str] = option(
        "Regular expressions of the prefixes of logical messages; the default is all.", default=[], check=patterns
    )
    message_prefix_exclude_list: list[str] = option(
        "Regular expressions of prefixes that are left out.", default=[], check=patterns
    )
    tombstones_on_delete: bool = option("Write a tombstone after each delete.", default=True)
    skipped_operations: list[str] = option(
        "Operations that are left out: c, u, d, t (truncate), or none.", default=["t"], check=OPERATIONS
    )
    decimal_handling_mode: Literal["precise", "double", "string"] = option(
        "How numeric is written.", default="precise", group=TYPES
    )
    time_precision_mode: Literal["adaptive", "adaptive_time_microseconds", "connect"] = option(
        "How dates and times are written.", default="adaptive", group=TYPES
    )
    binary_handling_mode: Literal["bytes", "base64", "base64-url-safe", "hex"] = option(
        "How bytea is written.", default="bytes", group=TYPES
    )
    interval_handling_mode: Literal["numeric", "string"] = option(
        "How intervals are written: as microseconds, with months of 30.4375 days, or as ISO 8601.",
        default="numeric",
        group=TYPES,
    )
    hstore_handling_mode: Literal["json", "map"] = option("How hstore is written.", default="json", group=TYPES)
    money_fraction_digits: int = option(
        "Digits after the point of money, with decimal.handling.mode=precise.",
        default=2,
        group=TYPES,
        check=at_least(0),
    )
    include_unknown_datatypes: bool = option(
        "Write columns of other types as the bytes of their text. Without it they are left out.",
        default=False,
        group=TYPES,
    )
    unavailable_value_placeholder: str = option(
        "What stands for a large value that an update did not change, and that the server does not send.",
        default="__debezium_unavailable_value",
        group=TYPES,
    )
    status_update_interval_ms: int = option(
        "How often the server gets a sign of life.", default=10_000, group=SLOT, check=at_least(1)
    )

    def covers_table(self, schema: str, table: str) -> bool:
        name = f"{schema}.{table}"
        return _is_wanted(schema, self.schema_include_list, self.schema_exclude_list) and _is_wanted(
            name, self.table_include_list, self.table_exclude_list
        )

    def covers_column(self, schema: str, table: str, column: str) -> bool:
        return _is_wanted(f"{schema}.{table}.{column}", self.column_include_list, self.column_exclude_list)


def _is_wanted(name: str, included: list[str], excluded: list[str]) -> bool:
    def found(patterns: list[str]) -> bool:
        return any(re.fullmatch(each, name, re.IGNORECASE) for each in patterns)

    return (not included or found(included)) and not found(excluded)
