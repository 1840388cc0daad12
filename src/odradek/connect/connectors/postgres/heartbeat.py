"""The statement that is executed with each heartbeat.

The slot advances without heartbeats while captured tables are idle. The statement can keep a database busy whose
server writes no log at all.
"""

from __future__ import annotations

import logging

import psycopg

_log = logging.getLogger("odradek.connect.postgres")


def act(connection: psycopg.Connection, query: str | None) -> None:
    """A failure of the statement stops no capture: it is logged."""
    if not query:
        return
    try:
        connection.execute(query.encode())
    except psycopg.OperationalError:
        raise
    except psycopg.Error as failed:
        _log.warning("heartbeat.action.query failed: %s", failed)
