"""The interface of connectors: `Source`, `Sink`, and two decorators for small ones.

A connector is a class with a name and a dataclass of options. An entry point makes it a plug-in:

[project.entry-points."odradek.connectors"]
counter = "counters:Counter"
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from odradek.connect.records import Offset, Partition, Record, SourcePlace

C = TypeVar("C")
TopicPartition = tuple[str, int]

WHOLE: Partition = {}
"""The partition of a source that has only one."""


class RetriableError(Exception):
    """The other system is unavailable for the moment: the same call may succeed later. No record is to blame."""


class NeedsUser(Exception):
    """A state that no restart mends: the task stops at once, and its trace says what a user has to do."""


class BadRecord(Exception):
    """A record that the other system refuses. With `errors.tolerance=all` it is skipped or becomes a dead letter."""

    def __init__(self, record: Record, why: str) -> None:
        super().__init__(why)
        self.record = record


class Source(ABC, Generic[C]):
    """Brings data into topics. Created on the driver to list partitions and look for news, and in a task to read."""

    Config: ClassVar[type]
    version: ClassVar[str] = "1.0"
    # The format of keys and values when the config names none.
    converter: ClassVar[str] = "plain-json"
    connector: str = ""  # the name of the connector; in a task only

    def __init__(self, config: C) -> None:
        self.config = config

    def partitions(self) -> Sequence[Partition]:
        """The parts that have offsets of their own, and that tasks can read in parallel. Asked again from time to time.

        Runs on the driver. The values are stored as JSON; a partition keeps its offset as long as it is the same dict.
        """
        return [WHOLE]

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:
        """Whether `read` would yield a record now. Asked on the driver while no task reads, so it must be quick.

        The default reads one record and forgets it: override it if reading has side effects or is slow to begin.
        """
        reading = iter(self.read(partition, offset))
        try:
            return next(reading, None) is not None
        finally:
            if hasattr(reading, "close"):
                reading.close()

    def levels(self) -> Mapping[str, float]:
        """Numbers about the other system, by the names in `connect/service/metering.py`. Asked on the driver."""
        return {}

    @abstractmethod
    def read(self, partition: Partition, offset: Offset | None) -> Iterator[Record | list[Record] | SourcePlace | None]:
        """Yields the records after `offset` in order; each has a `SourcePlace`. None of them may be skipped.

        Records without a place belong to the next one that has one: they are written in the same transaction.

        `offset` is None for a partition that was never read. The iterator ends when there is nothing more now; the
        next one begins at the last offset. One that waits for data instead yields None at least every 100 ms.
        A SourcePlace alone moves the offset without a record. A list of records is cheaper than one at a time.
        """

    def is_connected(self) -> bool:
        """False while the other system has not answered for the first time: a task without records is not idle then."""
        return True

    def stays(self) -> bool:
        """Whether a task without records goes on running, because the source has something to do: heartbeats."""
        return False

    def tracked(self, records: Sequence[Record]) -> Sequence[Record]:  # noqa: ARG002 (for those that override it)
        """The records of a batch whose offsets in their topics the source needs: `stored` is called with them."""
        return ()

    def stored(self, record: Record, offset: int) -> None:
        """Called in the task with the offset of a record in its topic, before `committed`. It may still be aborted."""

    def committed(self, partition: Partition, offset: Offset) -> None:
        """Called in the task when all records up to `offset` are durable in their topics."""

    def close(self) -> None:
        """Releases connections and files. Called once, also after an error."""


class Sink(ABC, Generic[C]):
    """Takes records out of topics. Created in a task only, which sets `connector` to the connector's name."""

    Config: ClassVar[type]
    version: ClassVar[str] = "1.0"
    # The format of keys and values when the config names none.
    converter: ClassVar[str] = "plain-json"
    connector: str = ""

    def __init__(self, config: C) -> None:
        self.config = config
        # What the consumer group has committed, kept up to date by the task; None: nothing yet.
        self.group_offsets: dict[TopicPartition, int | None] = {}

    def positions(
        self,
        committed: Mapping[TopicPartition, int | None],  # noqa: ARG002 (for those that override it)
    ) -> Mapping[TopicPartition, int]:
        """For a target that stores offsets with its data: where to continue, if not at the committed offset.

        `committed` are the offsets of the consumer group. A group that is behind the target by one batch is a crash
        between the two; any other difference is a user who has set the group's offsets.
        """
        return {}

    @abstractmethod
    def write(self, records: Sequence[Record]) -> None:
        """Makes the records durable before it returns, unless the sink has a `flush`.

        The next call, possibly in another process, may repeat them.

        They are in order for each partition of a topic. RetriableError: the batch is tried again. BadRecord, or any
        other error: with `errors.tolerance=all`, the framework divides the batch to find the records to blame.
        """

    def flush(self, *, now: bool) -> bool:  # noqa: ARG002 (for those that override it)
        """For a sink that gathers records: makes them durable if it is time to, or if it must be done `now`.

        Returns whether all records are durable: then the group's offsets are committed. Called after each `write`,
        several times a second while no records arrive, and with `now` before the run ends.
        """
        return True

    def close(self) -> None:
        """Releases connections and files. Called once, also after an error."""


def source(
    config: type[C], *, version: str = "1.0"
) -> Callable[[Callable[[C, Offset | None], Iterator[Record]]], type[Source[C]]]:
    """Makes a source of one partition out of a generator function: `@source(Config)`.

    @source(Counting)
    def counter(config: Counting, offset: Offset | None) -> Iterator[Record]:
        at = offset["at"] if offset else 0
        yield Record(topic=config.topic, value={"n": at}, place=SourcePlace({}, {"at": at + 1}))
    """

    _require_options("source", config)

    def decorate(read: Callable[[C, Offset | None], Iterator[Record]]) -> type[Source[C]]:
        def reading(self: Source[C], _: Partition, offset: Offset | None) -> Iterator[Record]:
            return read(self.config, offset)

        made: type[Source[C]] = _class(Source, read, {"Config": config, "version": version, "read": reading})
        return made

    return decorate


def sink(config: type[C], *, version: str = "1.0") -> Callable[[Callable[[C, Sequence[Record]], None]], type[Sink[C]]]:
    """Makes a sink out of a function that makes a batch of records durable: `@sink(Config)`."""

    _require_options("sink", config)

    def decorate(write: Callable[[C, Sequence[Record]], None]) -> type[Sink[C]]:
        def writing(self: Sink[C], records: Sequence[Record]) -> None:
            write(self.config, records)

        made: type[Sink[C]] = _class(Sink, write, {"Config": config, "version": version, "write": writing})
        return made

    return decorate


def _require_options(decorator: str, config: object) -> None:
    if not dataclasses.is_dataclass(config):
        raise TypeError(f"@{decorator} needs the dataclass of the options: @{decorator}(Config)")


def _class(base: type, function: Callable[..., Any], members: dict[str, Any]) -> Any:  # noqa: ANN401
    known = {"__doc__": function.__doc__, "__module__": function.__module__, "__qualname__": function.__qualname__}
    return type(function.__name__, (base,), members | known)
