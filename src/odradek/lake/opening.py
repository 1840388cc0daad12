"""Tables by path, format and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odradek.lake.names import CATALOG
from odradek.lake.parquet import ParquetTable
from odradek.lake.storage import Storage
from odradek.lake.table import Table


@dataclass(slots=True, kw_only=True)
class Tables:
    """The tables in one place that have the same format. They share a catalog."""

    storage: Storage
    format: str
    partition_by: Sequence[str] = ()
    delta_compact_every: int = 0
    iceberg_compact_every: int = 0
    iceberg_namespace: str = "lake"
    iceberg_catalog: Mapping[str, str] = field(default_factory=dict)
    _catalog: Any = None

    def table(self, name: str) -> Table:
        """Raises PackageMissing, and ValueError for what cannot be."""
        self.storage.check()
        match self.format:
            case "delta":
                from odradek.lake.delta import DeltaTable

                return DeltaTable(self.storage, name, self.partition_by, self.delta_compact_every)
            case "iceberg":
                from odradek.lake.iceberg import IcebergTable, catalog_of

                if self._catalog is None:
                    self._catalog = catalog_of(self.storage, self.iceberg_catalog)
                return IcebergTable(
                    self._catalog, self.iceberg_namespace, name, self.partition_by, self.iceberg_compact_every
                )
            case _:
                return ParquetTable(self.storage, name, self.partition_by)


def tables_of(folder: str, form: str, partition_by: Sequence[str], options: Mapping[str, str]) -> Tables:
    return Tables(
        storage=Storage(
            path=folder,
            endpoint=options.get("s3.endpoint"),
            region=options.get("s3.region"),
            key_id=options.get("s3.access.key.id"),
            secret=options.get("s3.secret.access.key"),
        ),
        format=form,
        partition_by=partition_by,
        delta_compact_every=int(options.get("delta.compact.every", 0)),
        iceberg_compact_every=int(options.get("iceberg.compact.every", 0)),
        iceberg_namespace=options.get("iceberg.namespace", "lake"),
        iceberg_catalog={
            name.removeprefix(CATALOG): value for name, value in options.items() if name.startswith(CATALOG)
        },
    )
