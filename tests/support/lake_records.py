"""Records for the lake sink, and what its tables hold."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset as ds

from odradek.connect.connectors.lake_sink import LakeSink, LakeSinkConfig
from odradek.connect.records import Record, TopicPlace

NOON_MS = int(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp() * 1000)


def lake_sink(path: object, form: str, *, committed: int | None, **more: object) -> LakeSink:
    sink = LakeSink(LakeSinkConfig(path=str(path), format=form, **more))
    sink.connector = "lake"
    sink.group_offsets = {("t", 0): committed}
    assert sink.positions(sink.group_offsets) == {}
    return sink


def row(n: int, **more: object) -> Record:
    value = {"n": n, "parity": "odd" if n % 2 else "even", **more}
    return Record(topic="t", value=value, place=TopicPlace("t", 0, n), timestamp_ms=NOON_MS)


def rows(begin: int, end: int) -> list[Record]:
    return [row(n) for n in range(begin, end)]


def stored(path: object, form: str, table: str = "t") -> list[dict[str, object]]:
    """The rows of a table on a local disk, ordered by `n`."""
    if form == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(f"{path}/{table}").to_pyarrow_table()
    elif form == "iceberg":
        from pyiceberg.catalog import load_catalog

        with load_catalog("odradek", type="sql", uri=f"sqlite:///{path}/catalog.db") as catalog:
            found = catalog.load_table(f"lake.{table}").scan().to_arrow()
    else:
        files = [str(file) for file in Path(path, table).rglob("*.parquet") if "_odradek" not in file.parts]
        found = ds.dataset(files, partitioning=ds.partitioning(flavor="hive"), partition_base_dir=f"{path}/{table}")
        found = found.to_table()
    return sorted(found.to_pylist(), key=lambda each: each["n"])
