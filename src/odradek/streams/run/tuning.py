"""How Spark plans the micro-batches of a query of the engine: with as little work as their size allows.

Spark plans each micro-batch from the beginning. Rules that were applied to the plan once (`condensing`) find nothing
more, and are left out. The text of the generated code is written anew each time, and only then found to be compiled
already: worth it for large micro-batches, half of the JVM's work for small ones, whose expressions are interpreted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from odradek.streams.compile.topology.condensing import DONE

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ROWS_MANY = 20_000
ROWS_FEW = 10_000
ALWAYS: Mapping[str, str] = {
    "spark.sql.optimizer.excludedRules": ",".join(DONE),
    "spark.sql.exchange.reuse": "false",  # no two exchanges of a line are the same
}
SMALL: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
LARGE: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


class Tuning:
    """Of one query: begins as the session has it."""

    def __init__(self) -> None:
        self._is_large: bool | None = None

    def suit(self, query: StreamingQuery) -> None:
        """By the size of the last micro-batch, for the next ones."""
        progress = query.lastProgress
        if progress is None:
            return
        rows = progress["numInputRows"]
        is_large = rows >= ROWS_MANY if not self._is_large else rows > ROWS_FEW
        if is_large is self._is_large:
            return
        execution: Any = query._jsq.streamingQuery()  # noqa: SLF001 the only way to it
        conf = execution.sparkSessionForStream().conf()
        for name, value in {**ALWAYS, **(LARGE if is_large else SMALL)}.items():
            conf.set(name, value)
        self._is_large = is_large
