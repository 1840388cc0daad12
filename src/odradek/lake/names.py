"""Formats, paths and options of tables. The options have the names of the connector `lake`. Imports no library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Format = Literal["parquet", "delta", "iceberg"]
FORMATS: tuple[str, ...] = get_args(Format)
CATALOG = "iceberg.catalog."
OPTIONS = (
    "delta.compact.every",
    "iceberg.compact.every",
    "iceberg.namespace",
    "s3.access.key.id",
    "s3.endpoint",
    "s3.region",
    "s3.secret.access.key",
)


def divided(path: str) -> tuple[str, str]:
    """The folder of a table, and the table's name. The name is empty if there is none."""
    scheme, mark, rest = path.rstrip("/").rpartition("://")
    folder, slash, name = rest.rpartition("/")
    if mark:
        return f"{scheme}{mark}{folder}", name if folder else ""
    return folder or slash or ".", name


def unknown_options(options: Mapping[str, str]) -> list[str]:
    return [name for name in options if name not in OPTIONS and not name.startswith(CATALOG)]
