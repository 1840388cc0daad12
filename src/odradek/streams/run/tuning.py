"""How Spark plans the micro-batches of a query of the engine: with as little work as their size allows.

Spark plans each micro-batch from the beginning. Rules that were applied to the plan once (`condensing`) find nothing
more, and are left out. Spark generates the code of a plan each time before it finds the compiled code in its cache.
For small micro-batches that is half of the JVM's work, so their expressions are interpreted instead.
What the user sets stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from odradek.streams.compile.topology.condensing import DONE

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ROWS_MANY = 20_000
ROWS_FEW = 10_000
EXCLUDED = "spark.sql.optimizer.excludedRules"
ALWAYS: Mapping[str, str] = {
    EXCLUDED: ",".join(DONE),
    "spark.sql.exchange.reuse": "false",  # no two exchanges of a line are the same
}
SMALL: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
LARGE: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


class Tuning:
    """Of one query: begins as the session has it."""

    def __init__(self) -> None:
        self._is_large: bool | None = None
        self._theirs: Mapping[str, str] | None = None  # what the user has set

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
        session = execution.sparkSessionForStream()
        if self._theirs is None:
            self._theirs = explicit(session)
        for name, value in settings(self._theirs, is_large=is_large).items():
            session.conf().set(name, value)
        self._is_large = is_large


def explicit(session: Any) -> dict[str, str]:  # noqa: ANN401 a session of the JVM
    """The tuned settings that the user has set."""
    conf = session.sessionState().conf()
    return {name: conf.getConfString(name) for name in {**ALWAYS, **SMALL} if conf.contains(name)}


def settings(theirs: Mapping[str, str], *, is_large: bool) -> dict[str, str]:
    """What to set beside the user's own: `theirs` stay, and rules that they leave out are left out, too."""
    ours = {**ALWAYS, **(LARGE if is_large else SMALL)}
    found = {name: value for name, value in ours.items() if name not in theirs}
    if EXCLUDED in theirs:
        found[EXCLUDED] = ",".join([*(rule.strip() for rule in theirs[EXCLUDED].split(",")), *DONE])
    return found
