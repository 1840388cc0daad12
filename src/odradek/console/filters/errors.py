"""The error of a filter that cannot be used."""

from __future__ import annotations


class BadFilter(ValueError):
    """What is wrong with a filter. `column` counts from 1."""

    def __init__(self, column: int, what: str) -> None:
        self.column, self.what = column, what
        super().__init__(f"column {column}: {what}")
