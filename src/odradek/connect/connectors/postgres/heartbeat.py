"""The statement that is executed with each heartbeat.

The slot advances without heartbeats while captured tables are idle. The statement can keep a database busy whose
server writes no log at all.
"""

from __future__ import annotations

import logging

import psycopg

# The changes wait meanwhile, for example if another session has locked the statement's table.
STATEMENT_S = 5

_log = logging.getLogger("odradek.connect.postgres")


def act(connection: psycopg.Connection, query: str | None) -> None:
    """A failure of the statement stops no capture: it is logged. Raises only if the connection is lost."""
    if not query:
        return
    try:
        connection.execute(f"SET statement_timeout = '{STATEMENT_S}s'".encode())
        try:
            connection.execute(query.encode())
        finally:
            if not connection.closed:
                connection.execute("RESET statement_timeout")
    except psycopg.Error as failed:
        if connection.closed:
            raise
        _log.warning("heartbeat.action.query failed: %s", failed)
