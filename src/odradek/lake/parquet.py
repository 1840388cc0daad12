"""A table of Parquet files in Hive's directories: `orders/day=2026-11-18/orders+0+00000000000000000100.parquet`.

An append writes its files into a folder that readers ignore, then a manifest with the span and the list of the files.
The manifest is the commit. After it, the files move to their places; a crash in between is completed by the next start.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odradek.lake.storage import Files, Storage
from odradek.lake.table import Part, Span, TableUnavailable

NULL = "__HIVE_DEFAULT_PARTITION__"
SCHEMA = "_odradek/schema.arrow"


@dataclass(frozen=True, slots=True)
class _Manifest:
    """The last append of a source: its span, and its files by their names in the table."""

    span: Span
    files: list[str]


class ParquetTable:
    """Each source has files and a manifest of its own, so several tasks can append at the same time."""

    def __init__(self, storage: Storage, name: str, partition_by: Sequence[str]) -> None:
        self._files: Files = storage.files(name)
        self._by = list(partition_by)

    def columns(self) -> pa.Schema | None:
        try:
            told = self._files.read_text(SCHEMA)
            return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(told))) if told else self._columns_of_a_file()
        except OSError as failed:
            raise TableUnavailable(str(failed)) from failed

    def _columns_of_a_file(self) -> pa.Schema | None:
        """The columns of files that another program has written."""
        path = self._files.a_file(".parquet")
        return pq.read_schema(path, filesystem=self._files.system).remove_metadata() if path else None

    def span(self, source: str) -> Span | None:
        try:
            manifest = self._manifest(source)
            if manifest is not None:
                self._move(source, manifest.files)
            self._files.remove_all(_staged(source))
        except OSError as failed:
            raise TableUnavailable(str(failed)) from failed
        return manifest.span if manifest is not None else None

    def append(self, parts: Sequence[Part], columns: pa.Schema) -> None:
        try:
            known = self.columns() or pa.schema([])
            if set(columns.names) - set(known.names):
                merged = pa.unify_schemas([known, columns], promote_options="permissive")
                self._files.write_text(SCHEMA, merged.serialize().to_pybytes().hex())
            for part in parts:
                self._append(part)
        except OSError as failed:
            raise TableUnavailable(str(failed)) from failed

    def rows(self) -> pa.Table:
        columns = self.columns()
        if columns is None:
            return pa.table({})
        import pyarrow.dataset as ds

        folders = ds.partitioning(pa.schema([columns.field(name) for name in self._by]), flavor="hive")
        found = ds.dataset(
            self._files.root, filesystem=self._files.system, schema=columns, partitioning=folders, format="parquet"
        )
        return found.to_table()

    def _append(self, part: Part) -> None:
        manifest = self._manifest(part.source)
        if manifest is not None and manifest.span == part.span:
            self._move(part.source, manifest.files)  # the last attempt got as far as the commit
            return
        first = max(part.span.begin, 0)
        name = f"{quote(part.source.replace('/', '+'), safe='+.')}+{first:020}-{part.span.end:020}.parquet"
        files = []
        for folder, rows in self._divided(part.rows):
            files.append(folder + name)
            self._files.write_rows(f"{_staged(part.source)}/{folder}{name}", rows)
        self._files.write_text(_manifest(part.source), json.dumps(asdict(_Manifest(part.span, files))))
        self._move(part.source, files)

    def _manifest(self, source: str) -> _Manifest | None:
        text = self._files.read_text(_manifest(source))
        if text is None:
            return None
        told = json.loads(text)
        return _Manifest(Span(**told["span"]), told["files"])

    def _move(self, source: str, files: Sequence[str]) -> None:
        for file in files:
            self._files.move(f"{_staged(source)}/{file}", file)

    def _divided(self, rows: pa.Table) -> list[tuple[str, pa.Table]]:
        """The rows of each directory, without the columns that the directory's name holds."""
        if not self._by:
            return [("", rows)]
        found = []
        for values in rows.select(self._by).group_by(self._by).aggregate([]).to_pylist():
            same = None
            for column, value in values.items():
                here = pc.is_null(rows[column]) if value is None else pc.equal(rows[column], value)
                here = pc.fill_null(here, False)
                same = here if same is None else pc.and_(same, here)
            folder = "".join(f"{column}={_text(value)}/" for column, value in values.items())
            found.append((folder, rows.filter(same).drop_columns(self._by)))
        return found


def _text(value: object) -> str:
    return NULL if value is None else quote(str(value), safe=" +-_.,@")


def _staged(source: str) -> str:
    return f"_odradek/staged/{quote(source, safe='')}"


def _manifest(source: str) -> str:
    return f"_odradek/{quote(source, safe='')}.json"
