"""Heartbeats: an event and a statement in the database at a steady interval, by Debezium's names.

The slot advances without them while captured tables are idle. They show that the connector is alive, and the
statement can keep a database busy whose server writes no log at all.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

import psycopg

from odradek.connect import records
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.records import INT64, STRING, Record

_log = logging.getLogger("odradek.connect.postgres")

KEY = replace(records.struct({"serverName": STRING}, name="io.debezium.connector.common.ServerNameKey"), version=1)
VALUE = replace(records.struct({"ts_ms": INT64}, name="io.debezium.connector.common.Heartbeat"), version=1)


class Heartbeat:
    def __init__(self, config: PostgresCdcConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._interval_s = config.heartbeat_interval_ms / 1_000
        self._due_s = clock() + self._interval_s

    def is_due(self) -> bool:
        return self._interval_s > 0 and self._clock() >= self._due_s

    def beat(self, connection: psycopg.Connection) -> Record:
        """Runs the statement. Its failure stops no capture: it is logged."""
        self._due_s = self._clock() + self._interval_s
        if self._config.heartbeat_action_query:
            try:
                connection.execute(self._config.heartbeat_action_query.encode())
            except psycopg.OperationalError:
                raise
            except psycopg.Error as failed:
                _log.warning("heartbeat.action.query failed: %s", failed)
        return Record(
            topic=f"{self._config.topic_heartbeat_prefix}.{self._config.topic_prefix}",
            key={"serverName": self._config.topic_prefix},
            key_schema=KEY,
            value={"ts_ms": time.time_ns() // 1_000_000},
            value_schema=VALUE,
        )
