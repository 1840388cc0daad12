"""Events of logical messages, which applications write into the log with `pg_logical_emit_message`."""

from __future__ import annotations

import re
import time
from dataclasses import replace

from odradek.connect import records
from odradek.connect.connectors.debezium import BLOCK, Row
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.pgoutput import Begin, LogicalMessage
from odradek.connect.connectors.postgres.tables import SOURCE, source_of
from odradek.connect.connectors.postgres.types import binary
from odradek.connect.records import INT64, STRING, Record, Schema

NAME = "io.debezium.connector.postgresql"


class Messages:
    """A message has the operation `m`, no row, and the topic PREFIX.message."""

    def __init__(self, config: PostgresCdcConfig) -> None:
        self._config = config
        self._content = binary(config.binary_handling_mode)
        self._key_schema = _named({"prefix": STRING.or_null()}, "MessageKey")
        content = {"prefix": STRING.or_null(), "content": self._content.schema.or_null()}
        self._schema = _named(
            {
                "op": STRING,
                "ts_ms": INT64.or_null(),
                "source": SOURCE,
                "transaction": BLOCK,
                "message": _named(content, "Message"),
            },
            "MessageValue",
        )

    def record(self, message: LogicalMessage, begin: Begin | None, sequence: str, block: Row | None) -> Record | None:
        """None for a prefix that the options leave out. A message outside of a transaction has the time of today."""
        if not self._covers(message.prefix):
            return None
        now = time.time_ns()
        at_us = begin.committed_us if begin is not None and message.is_transactional else now // 1_000
        source = source_of(self._config, "", "", at_us, "false")
        source |= {"sequence": sequence, "lsn": message.lsn}
        if begin is not None and message.is_transactional:
            source["txId"] = begin.xid
        return Record(
            topic=f"{self._config.topic_prefix}.message",
            key={"prefix": message.prefix},
            key_schema=self._key_schema,
            value={
                "op": "m",
                "ts_ms": now // 1_000_000,
                "source": source,
                "transaction": block,
                "message": {"prefix": message.prefix, "content": self._content.decode(_hex(message.content))},
            },
            value_schema=self._schema,
        )

    def _covers(self, prefix: str) -> bool:
        included, excluded = self._config.message_prefix_include_list, self._config.message_prefix_exclude_list
        if included:
            return any(re.fullmatch(each, prefix, re.IGNORECASE) for each in included)
        return not any(re.fullmatch(each, prefix, re.IGNORECASE) for each in excluded)


def _named(fields: dict[str, Schema], name: str) -> Schema:
    return replace(records.struct(fields, name=f"{NAME}.{name}"), version=1)


def _hex(content: bytes) -> bytes:
    """As PostgreSQL writes bytea."""
    return b"\\x" + content.hex().encode()
