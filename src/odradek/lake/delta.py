"""A Delta Lake table. Spans are application transactions of its log, so rows and spans are one commit."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from odradek.lake.storage import Storage
from odradek.lake.table import PackageMissing, Part, Span, TableUnavailable, commit_or_retry

try:
    import deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
except ImportError:
    raise PackageMissing("delta", "deltalake") from None

_log = logging.getLogger("odradek.lake")


class DeltaTable:
    """The transaction `SOURCE` has the end of a span as its version, the transaction `SOURCE#begin` its begin."""

    def __init__(self, storage: Storage, name: str, partition_by: Sequence[str], compact_every: int = 0) -> None:
        self._uri = storage.of(name)
        self._options = storage.delta_options()
        self._by = list(partition_by)
        self._compact_every = compact_every
        self._appends = 0
        self._known: dict[str, Span | None] = {}

    def _open(self) -> Any:  # noqa: ANN401 (a table of the library, or None)
        try:
            return deltalake.DeltaTable(self._uri, storage_options=self._options)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as failed:
            raise TableUnavailable(f"{self._uri}: {failed}") from failed

    def columns(self) -> pa.Schema | None:
        table = self._open()
        return None if table is None else pa.schema(table.schema().to_arrow())

    def span(self, source: str) -> Span | None:
        self._known[source] = found = _span(self._open(), source)
        return found

    def append(self, parts: Sequence[Part], columns: pa.Schema) -> None:  # noqa: ARG002 (the rows have them)
        rows = pa.concat_tables([part.rows for part in parts])
        transactions = [
            deltalake.Transaction(name, version)
            for part in parts
            for name, version in ((part.source, part.span.end), (_begin(part.source), part.span.begin))
        ]
        table: Any = None

        def stored() -> Mapping[str, Span | None]:
            nonlocal table
            table = self._open()
            return {part.source: _span(table, part.source) for part in parts}

        def attempt() -> None:
            deltalake.write_deltalake(
                table if table is not None else self._uri,
                rows,
                mode="append",
                schema_mode="merge",
                partition_by=self._by or None,
                storage_options=self._options,
                commit_properties=deltalake.CommitProperties(app_transactions=transactions, max_commit_retries=0),
            )

        try:
            commit_or_retry(attempt, stored, self._known, parts, CommitFailedError)
        except (DeltaError, OSError) as failed:
            raise TableUnavailable(f"{self._uri}: {failed}") from failed
        self._appends += 1
        if self._compact_every and self._appends % self._compact_every == 0:
            self._compact()

    def rows(self) -> pa.Table:
        table = self._open()
        return pa.table({}) if table is None else table.to_pyarrow_table()

    def _compact(self) -> None:
        """Joins small files. Another writer may be faster: then a later append does it."""
        try:
            done = self._open().optimize.compact()
        except CommitFailedError as lost:
            _log.info("compacting %s: another writer was faster: %s", self._uri, lost)
        else:
            _log.info("compacted %s: %s files into %s", self._uri, done["numFilesRemoved"], done["numFilesAdded"])


def _begin(source: str) -> str:
    return f"{source}#begin"


def _span(table: Any, source: str) -> Span | None:  # noqa: ANN401
    end = None if table is None else table.transaction_version(source)
    if end is None:
        return None
    begin = table.transaction_version(_begin(source))
    return Span(-1 if begin is None else begin, end)
