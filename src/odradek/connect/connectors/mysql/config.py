"""The options of `mysql-cdc`: Debezium's names, defaults and meanings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from odradek.connect.connectors.heartbeats import TOPIC
from odradek.connect.options import Secret, at_least, not_empty, one_of, option, patterns, topic_part

SNAPSHOT = "Snapshot"
TYPES = "Types"
OPERATIONS = one_of({"c", "u", "d", "none"}, "operations are c, u, d or none")


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlCdcConfig:
    database_hostname: str = option("The address of the server.", importance="HIGH", check=not_empty)
    database_port: int = option("Its port.", default=3306, importance="HIGH", check=at_least(1))
    database_user: str = option(
        "A user with REPLICATION SLAVE and REPLICATION CLIENT (MariaDB: BINLOG MONITOR), who may read the tables.",
        importance="HIGH",
        check=not_empty,
    )
    database_password: Secret | None = option("The user's password.", default=None, importance="HIGH")
    database_server_id: int = option(
        "A number for this connector that no replica of the server has.", importance="HIGH", check=at_least(1)
    )
    database_ssl_mode: Literal["disabled", "required", "verify_ca", "verify_identity"] = option(
        "Whether the connection is encrypted, and what of the server's certificate is checked.", default="disabled"
    )
    database_ssl_ca: str | None = option("The file of trusted certificates, in PEM format.", default=None)
    connect_timeout_ms: int = option("How long a connection may take.", default=30_000, check=at_least(1))
    topic_prefix: str = option("Topics are PREFIX.DATABASE.TABLE.", importance="HIGH", check=topic_part)
    database_include_list: list[str] = option("Regular expressions of databases.", default=[], check=patterns)
    database_exclude_list: list[str] = option(
        "Regular expressions of databases that are left out.", default=[], check=patterns
    )
    table_include_list: list[str] = option(
        "Regular expressions of DATABASE.TABLE; the default is all tables.", default=[], check=patterns
    )
    table_exclude_list: list[str] = option(
        "Regular expressions of DATABASE.TABLE that are left out.", default=[], check=patterns
    )
    column_include_list: list[str] = option("Regular expressions of DATABASE.TABLE.COLUMN.", default=[], check=patterns)
    column_exclude_list: list[str] = option(
        "Regular expressions of DATABASE.TABLE.COLUMN that are left out.", default=[], check=patterns
    )
    snapshot_mode: Literal["initial", "no_data"] = option(
        "initial: first all rows, then changes. no_data: only changes from now on.", default="initial", group=SNAPSHOT
    )
    snapshot_fetch_size: int = option("Rows that are read at once.", default=2_000, group=SNAPSHOT, check=at_least(1))
    tombstones_on_delete: bool = option("Write a tombstone after each delete.", default=True)
    skipped_operations: list[str] = option(
        "Operations that are left out: c, u, d, or none.", default=["none"], check=OPERATIONS
    )
    heartbeat_interval_ms: int = option(
        "How often an event goes to the topic of heartbeats; 0: never.", default=0, check=at_least(0)
    )
    heartbeat_action_query: str | None = option("SQL that is executed with each heartbeat.", default=None)
    topic_heartbeat_prefix: str = option(
        "The topic of heartbeats is this, a dot and topic.prefix.", default=TOPIC, check=topic_part
    )
    include_schema_changes: Literal["false"] = option(
        "Changes of tables are followed, but not written to a topic of their own.", default="false"
    )
    decimal_handling_mode: Literal["precise", "double", "string"] = option(
        "How DECIMAL is written.", default="precise", group=TYPES
    )
    bigint_unsigned_handling_mode: Literal["long", "precise"] = option(
        "How BIGINT UNSIGNED is written; long: as a number with sign.", default="long", group=TYPES
    )
    time_precision_mode: Literal["adaptive_time_microseconds", "connect"] = option(
        "How dates and times are written.", default="adaptive_time_microseconds", group=TYPES
    )
    binary_handling_mode: Literal["bytes", "base64", "base64-url-safe", "hex"] = option(
        "How BLOB and BINARY are written.", default="bytes", group=TYPES
    )

    def covers_table(self, database: str, table: str) -> bool:
        if database in SYSTEM_DATABASES:
            return False
        return _is_wanted(database, self.database_include_list, self.database_exclude_list) and _is_wanted(
            f"{database}.{table}", self.table_include_list, self.table_exclude_list
        )

    def covers_column(self, database: str, table: str, column: str) -> bool:
        return _is_wanted(f"{database}.{table}.{column}", self.column_include_list, self.column_exclude_list)


SYSTEM_DATABASES = frozenset({"mysql", "information_schema", "performance_schema", "sys"})


def _is_wanted(name: str, included: list[str], excluded: list[str]) -> bool:
    def found(patterns: list[str]) -> bool:
        return any(re.fullmatch(each, name, re.IGNORECASE) for each in patterns)

    return (not included or found(included)) and not found(excluded)
