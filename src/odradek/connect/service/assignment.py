"""Distributes the partitions of a connector over its tasks, the same way every time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar

from odradek.connect.records import Partition
from odradek.connect.storage.offsets import partition_id

T = TypeVar("T")


def distributed(parts: Sequence[T], tasks_max: int) -> tuple[tuple[T, ...], ...]:
    """Round robin over at most `tasks_max` tasks; no task is empty."""
    count = min(tasks_max, len(parts))
    return tuple(tuple(parts[index::count]) for index in range(count))


def of_source(partitions: Sequence[Partition], tasks_max: int) -> tuple[tuple[Partition, ...], ...]:
    return distributed(sorted(partitions, key=partition_id), tasks_max)


def task_configs(given: Mapping[str, str], tasks: Sequence[Sequence[object]]) -> list[dict[str, str]]:
    """The configs of tasks as they are stored and shown: the connector's config, and the task's part of the work."""
    return [{**given, "task.partitions": json.dumps(parts, separators=(",", ":"))} for parts in tasks]
