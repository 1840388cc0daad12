"""Joins the small files of an Iceberg table: one snapshot removes them and adds the larger ones, so that no reader sees
rows twice or misses them. A crash before the commit leaves files that no snapshot has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

SMALL_BYTES = 32 * 1024 * 1024
JOINED_BYTES_MAX = 128 * 1024 * 1024
"""Of files that become one: they are in memory together."""


def compact(table: Table) -> tuple[int, int]:
    """How many files were joined, and into how many."""
    groups = [group for group in _groups(table.scan().plan_files()) if len(group) > 1]
    if not groups:
        return 0, 0
    added = 0
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as snapshot:
        snapshot.delete_by_predicate(AlwaysTrue())  # any manifest may have the files; only they are removed
        for group in groups:
            for task in group:
                snapshot.delete_data_file(task.file)
            for file in _dataframe_to_data_files(table.metadata, scan.to_table(group), table.io):
                snapshot.append_data_file(file)
                added += 1
    return sum(map(len, groups)), added


def _groups(tasks: Iterable[FileScanTask]) -> list[list[FileScanTask]]:
    """Small files of the same partition that become one. Files with deleted rows are left alone."""
    partitions: dict[Any, list[FileScanTask]] = defaultdict(list)
    for task in tasks:
        if task.file.file_size_in_bytes < SMALL_BYTES and not task.delete_files:
            partitions[task.file.spec_id, repr(task.file.partition)].append(task)
    groups: list[list[FileScanTask]] = []
    for files in partitions.values():
        group: list[FileScanTask] = []
        size = 0
        for task in sorted(files, key=lambda task: task.file.file_path):
            if size + task.file.file_size_in_bytes > JOINED_BYTES_MAX:
                groups.append(group)
                group, size = [], 0
            group.append(task)
            size += task.file.file_size_in_bytes
        groups.append(group)
    return groups
