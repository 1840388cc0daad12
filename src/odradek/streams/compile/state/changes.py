"""What joins with tables have in common."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column

from odradek.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pandas as pd

RESERVED = ("_key", "_time", "_deleted")


def refuse_clashes(left: set[str], right: set[str]) -> None:
    if clashes := sorted(left & right):
        raise PipelineError(
            f"both sides of the join have {', '.join(clashes)}",
            why="the result would have two columns of one name",
            instead="a name of its own on one side, with select or with_columns",
        )


def any_null(columns: list[Column]) -> Column:
    return reduce(Column.__or__, [column.isNull() for column in columns])


def tuples(batch: pd.DataFrame, columns: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*[batch[name].tolist() for name in columns], strict=True))
