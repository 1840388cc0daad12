"""A guest: other work in the process and the Spark session of an application, such as a connect service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Guest(Protocol):
    """The application calls `prepare`, creates the session, calls `use`, and in the end `leave`, in this order."""

    @property
    def slots(self) -> int:
        """How many tasks of Spark it runs at once, beside those of the queries."""
        ...

    @property
    def worker_modules(self) -> Sequence[str]:
        """What its tasks import."""
        ...

    def prepare(self) -> None:
        """Begins what needs no session yet. Returns at once."""
        ...

    def use(self, session: SparkSession) -> None: ...

    def leave(self) -> None:
        """Returns when it no longer uses the session. Also called if there never was one."""
        ...
