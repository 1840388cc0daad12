"""Connections to PostgreSQL: ordinary ones, and one that streams the write-ahead log of a slot.

libpq's COPY_BOTH is used through psycopg's public wrapper of libpq, because psycopg has no replication API.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg import pq, sql

from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.pgoutput import EPOCH_US
from odradek.connect.interface import RetriableError

CONNECT_S = 10
# Messages that are decoded before the task may write them.
MESSAGES_MAX = 500
# The texts of values must not depend on the settings of the server or of the user.
SETTINGS = {
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "lc_monetary": "C",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}

_DATA = struct.Struct("!QQq")
_KEEPALIVE = struct.Struct("!QqB")
_STATUS = struct.Struct("!cQQQqB")


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def connected(config: PostgresCdcConfig, *, replication: bool = False) -> psycopg.Connection:
    """Raises RetriableError if the server does not answer."""
    password = config.database_password
    given = {
        "host": config.database_hostname,
        "port": config.database_port,
        "user": config.database_user,
        "password": password.reveal() if password is not None else None,
        "dbname": config.database_dbname,
        "sslmode": config.database_sslmode,
        "sslcert": config.database_sslcert,
        "sslkey": config.database_sslkey,
        "sslrootcert": config.database_sslrootcert,
        "connect_timeout": CONNECT_S,
        "application_name": f"odradek postgres-cdc {config.topic_prefix}",
        "client_encoding": "UTF8",
        "options": " ".join(f"-c {name}={value}" for name, value in SETTINGS.items()),
        "replication": "database" if replication else None,
    }
    try:
        # No prepared statements: a column that changes its type would make them fail.
        return psycopg.connect(
            **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
            autocommit=True,
            prepare_threshold=None,
        )
    except psycopg.OperationalError as failed:
        raise RetriableError(f"PostgreSQL at {config.database_hostname}:{config.database_port}: {failed}") from failed


WalData = tuple[int, bytes]
"""The place of a change in the log, and the message of pgoutput."""


@dataclass(frozen=True, slots=True)
class Keepalive:
    """All changes of transactions that committed before `end` have been sent."""

    end: int


class WalStream:
    """The changes of a slot from `start` on. The server keeps the log after the position that was confirmed."""

    def __init__(
        self,
        config: PostgresCdcConfig,
        start: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._interval_s = config.status_update_interval_ms / 1000
        self._received = self._confirmed = start
        self._connection = connected(config, replication=True)
        self._libpq = self._connection.pgconn
        self._begin(config, start)
        self._told_s = clock()

    def _begin(self, config: PostgresCdcConfig, start: int) -> None:
        start_it = sql.SQL(
            "START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {}, messages 'true')"
        ).format(
            sql.Identifier(config.slot_name),
            sql.SQL(lsn_text(start)),  # digits of a number
            sql.Literal(sql.Identifier(config.publication_name).as_string()),
        )
        answer = self._libpq.exec_(start_it.as_bytes(self._connection))
        if answer.status != pq.ExecStatus.COPY_BOTH:
            told = self._libpq.get_error_message().strip()
            self._connection.close()
            # For example: another connection still uses the slot, because the last task was killed a moment ago.
            raise RetriableError(f"replication from the slot {config.slot_name!r} did not start: {told}")
        self._libpq.nonblocking = 1

    def messages(self, wait_s: float) -> list[WalData | Keepalive]:
        """The next messages, in order; none if none arrive within `wait_s`."""
        if self._clock() - self._told_s > self._interval_s:
            self._tell()
        found = self._available()
        if not found:
            if wait_s > 0:
                select.select([self._libpq.socket], [], [], wait_s)
            self._libpq.consume_input()
            found = self._available()
        return found

    def _available(self) -> list[WalData | Keepalive]:
        """Those that libpq has read from the connection already."""
        found: list[WalData | Keepalive] = []
        get_copy_data = self._libpq.get_copy_data
        while len(found) < MESSAGES_MAX:
            count, data = get_copy_data(1)
            if count == 0:
                break
            if count < 0:
                if found:  # the next call meets the end again
                    break
                raise RetriableError(f"PostgreSQL ended the replication: {self._why_ended(count)}")
            found.append(self._message(bytes(data)))
        return found

    def _message(self, data: bytes) -> WalData | Keepalive:
        if data[0] == 119:  # w
            lsn, end, _ = _DATA.unpack_from(data, 1)
            if end > self._received:
                self._received = end
            return lsn, data[25:]
        end, _, wants_reply = _KEEPALIVE.unpack_from(data, 1)
        self._received = max(self._received, end)
        if wants_reply:
            self._tell()
        return Keepalive(end)

    def _why_ended(self, count: int) -> str:
        if count == -1:
            result = self._libpq.get_result()
            if result is not None and result.error_message:
                return result.error_message.decode(errors="replace").strip()
        return self._libpq.get_error_message().strip() or "the connection was closed"

    def confirm(self, lsn: int) -> None:
        """Everything before `lsn` is durable elsewhere: the server may remove it."""
        if lsn > self._confirmed:
            self._confirmed = lsn
            self._tell()

    def ask(self) -> None:
        """Makes the server send a Keepalive at once."""
        self._tell(wants_reply=1)

    def _tell(self, wants_reply: int = 0) -> None:
        now = time.time_ns() // 1_000 - EPOCH_US
        written = max(self._received, self._confirmed)
        told = _STATUS.pack(b"r", written, self._confirmed, self._confirmed, now, wants_reply)
        try:
            self._libpq.put_copy_data(told)
            while self._libpq.flush() == 1:
                select.select([], [self._libpq.socket], [], 1.0)
        except psycopg.Error as failed:
            raise RetriableError(f"the connection to PostgreSQL broke: {failed}") from failed
        self._told_s = self._clock()

    def close(self) -> None:
        self._connection.close()
