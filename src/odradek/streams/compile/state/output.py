"""Rows on their way out of a processor."""

from __future__ import annotations

from typing import Any


class Output(dict[str, Any]):
    """A row by its column names. Spark's worker asks each row for a dict, and a Row takes long to make one."""

    def asDict(self, recursive: bool) -> dict[str, Any]:  # noqa: ARG002, N802
        return self
