"""Events at the begin and the end of each transaction, and the place of each change in its transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from odradek.connect import records
from odradek.connect.connectors.debezium import Row
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.pgoutput import Begin
from odradek.connect.records import INT64, STRING, Record

KEY = replace(records.struct({"id": STRING}, name="io.debezium.connector.common.TransactionMetadataKey"), version=1)
COLLECTION = replace(
    records.struct({"data_collection": STRING, "event_count": INT64}, name="event.collection"), version=1
)
VALUE = replace(
    records.struct(
        {
            "status": STRING,
            "id": STRING,
            "event_count": INT64.or_null(),
            "data_collections": records.array(COLLECTION.or_null()).or_null(),
            "ts_ms": INT64,
        },
        name="io.debezium.connector.common.TransactionMetadataValue",
    ),
    version=1,
)


class TransactionMetadata:
    """Counts the events of the open transaction: in all, and of each table."""

    def __init__(self, config: PostgresCdcConfig) -> None:
        self._topic = f"{config.topic_prefix}.{config.topic_transaction}"
        self._counts: dict[str, int] = {}

    def begin(self, begin: Begin, lsn: int) -> Record:
        self._counts.clear()
        return self._record("BEGIN", begin, lsn, None, None)

    def order(self, begin: Begin, lsn: int, name: str) -> Callable[[], Row]:
        """Returns the field `transaction` of the next event of a table, each time that it is called.

        As in Debezium, the id has the place of the event, so the events of a transaction share its first part alone.
        """

        def next_one() -> Row:
            self._counts[name] = self._counts.get(name, 0) + 1
            return {
                "id": f"{begin.xid}:{lsn}",
                "total_order": sum(self._counts.values()),
                "data_collection_order": self._counts[name],
            }

        return next_one

    def end(self, begin: Begin, lsn: int) -> Record:
        tables = [{"data_collection": name, "event_count": count} for name, count in self._counts.items()]
        return self._record("END", begin, lsn, sum(self._counts.values()), tables)

    def _record(
        self, status: str, begin: Begin, lsn: int, count: int | None, tables: list[dict[str, object]] | None
    ) -> Record:
        id_ = f"{begin.xid}:{lsn}"
        return Record(
            topic=self._topic,
            key={"id": id_},
            key_schema=KEY,
            value={
                "status": status,
                "id": id_,
                "event_count": count,
                "data_collections": tables,
                "ts_ms": begin.committed_us // 1_000,
            },
            value_schema=VALUE,
        )
