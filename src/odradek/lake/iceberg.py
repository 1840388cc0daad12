"""An Iceberg table in a catalog. Spans are properties of the table, set in the transaction that adds the rows."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from odradek.lake.storage import Storage
from odradek.lake.table import PackageMissing, Part, Span, TableUnavailable, commit_or_retry

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        NamespaceAlreadyExistsError,
        NoSuchTableError,
        TableAlreadyExistsError,
    )
    from sqlalchemy.exc import SQLAlchemyError
except ImportError:
    raise PackageMissing("iceberg", "pyiceberg") from None

# Every append adds a manifest and a metadata file: old ones are joined or deleted.
PROPERTIES = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}
PREFIX = "odradek.span."
_log = logging.getLogger("odradek.lake")
OUTAGES = (OSError, SQLAlchemyError)


def catalog_of(storage: Storage, options: Mapping[str, str]) -> Catalog:
    """The catalog that the options describe; by default an SQLite file in the tables' directory."""
    given = dict(options)
    if not given.keys() - {"name"}:
        if storage.is_s3:
            raise ValueError(
                "format=iceberg on S3 needs a catalog: set iceberg.catalog.uri, such as sqlite:////data/catalog.db"
            )
        folder = Path(storage.path).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        given["uri"] = f"sqlite:///{folder}/catalog.db"
    path = storage.path if storage.is_s3 else f"file://{Path(storage.path).absolute()}"
    # The name counts: several catalogs of different names can share one database.
    name = given.pop("name", "odradek")
    return load_catalog(name, **{"type": "sql", "warehouse": path, **storage.iceberg_options(), **given})


class IcebergTable:
    def __init__(
        self, catalog: Catalog, namespace: str, name: str, partition_by: Sequence[str], compact_every: int = 0
    ) -> None:
        self._catalog = catalog
        self._name = (namespace, name.replace(".", "_"))
        self._by = list(partition_by)
        self._compact_every = compact_every
        self._appends = 0
        self._known: dict[str, Span | None] = {}

    def _open(self) -> Any:  # noqa: ANN401 (a table of the library, or None)
        try:
            table = self._catalog.load_table(self._name)
        except NoSuchTableError:
            return None
        except OUTAGES as failed:
            raise TableUnavailable(f"{'.'.join(self._name)}: {failed}") from failed
        # The library would repeat a lost commit without a look at the spans.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        return table

    def columns(self) -> pa.Schema | None:
        table = self._open()
        return None if table is None else table.schema().as_arrow()

    def span(self, source: str) -> Span | None:
        self._known[source] = found = _span(self._open(), source)
        return found

    def append(self, parts: Sequence[Part], columns: pa.Schema) -> None:
        rows = pa.concat_tables([part.rows for part in parts])
        spans = {PREFIX + part.source: f"{part.span.begin},{part.span.end}" for part in parts}
        table: Any = None

        def stored() -> Mapping[str, Span | None]:
            nonlocal table
            table = self._open() or self._created(columns)
            return {part.source: _span(table, part.source) for part in parts}

        def attempt() -> None:
            with table.transaction() as transaction:
                if set(columns.names) - set(table.schema().column_names):
                    with transaction.update_schema() as update:
                        update.union_by_name(columns)
                transaction.append(rows, snapshot_properties=spans)
                transaction.set_properties(spans)

        try:
            commit_or_retry(attempt, stored, self._known, parts, CommitFailedException)
        except OUTAGES as failed:
            raise TableUnavailable(f"{'.'.join(self._name)}: {failed}") from failed
        self._appends += 1
        if self._compact_every and self._appends % self._compact_every == 0:
            self._compact()

    def _compact(self) -> None:
        """Another writer may be faster, or the storage may fail: then a later append does it."""
        from odradek.lake.iceberg_compaction import compact

        try:
            joined, added = compact(self._open())
        except (CommitFailedException, TableUnavailable, *OUTAGES) as failed:
            _log.info("compacting %s: %s", ".".join(self._name), failed)
        else:
            _log.info("compacted %s: %s files into %s", ".".join(self._name), joined, added)

    def rows(self) -> pa.Table:
        table = self._open()
        return pa.table({}) if table is None else table.scan().to_arrow()

    def _created(self, columns: pa.Schema) -> Any:  # noqa: ANN401
        with suppress(NamespaceAlreadyExistsError, TableAlreadyExistsError, CommitFailedException):  # by another task
            self._catalog.create_namespace_if_not_exists(self._name[0])
            creating = self._catalog.create_table_transaction(self._name, schema=columns, properties=PROPERTIES)
            with creating as creation, creation.update_spec() as spec:
                for column in self._by:
                    spec.add_identity(column)
        return self._open()


def _span(table: Any, source: str) -> Span | None:  # noqa: ANN401
    told = None if table is None else table.properties.get(PREFIX + source)
    if told is None:
        return None
    begin, end = told.split(",")
    return Span(int(begin), int(end))
