"""Runs of tasks as Spark jobs, one job with one Spark task for each run. Spark chooses the executor."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from odradek.connect.tasks.spec import Ending, Outcome, TaskSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("odradek.connect")

TRACE_CHARS_MAX = 4_000

Ended = Callable[[str, Outcome], None]


class Jobs(Protocol):
    """Where runs of tasks run. `slots`: how many at once."""

    @property
    def slots(self) -> int: ...

    def launch(self, spec: TaskSpec) -> None: ...

    def kill(self, run: str) -> None: ...


class SparkJobs:
    """`ended` is called on a thread of the run with the run and its outcome."""

    def __init__(self, session: SparkSession, ended: Ended) -> None:
        self._context = session.sparkContext
        self._ended = ended

    @property
    def slots(self) -> int:
        return self._context.defaultParallelism

    def launch(self, spec: TaskSpec) -> None:
        from pyspark import InheritableThread

        InheritableThread(target=self._run, args=[spec], name=spec.run, daemon=True).start()

    def kill(self, run: str) -> None:
        """For a run that does not stop by itself: Spark ends its Python worker."""
        self._context.cancelJobGroup(run)

    def _run(self, spec: TaskSpec) -> None:
        from odradek.connect.tasks.running import run_task

        try:
            self._context.setJobGroup(spec.run, f"{spec.connector}-{spec.task}", interruptOnCancel=True)
            (outcome,) = self._context.parallelize([spec], 1).mapPartitions(run_task).collect()
        except Exception as failed:  # noqa: BLE001 (the JVM's errors arrive as many types; the fleet decides)
            _log.warning("the run %s of %s-%s was lost: %s", spec.run, spec.connector, spec.task, _first_line(failed))
            outcome = Outcome(ending=Ending.LOST, trace=f"Spark lost the task: {str(failed)[:TRACE_CHARS_MAX]}")
        self._ended(spec.run, outcome)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
