"""One run of a source's task: read from its partitions in turn, convert, write with the offsets, report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from odradek.connect.conversion import Conversion, Encoded
from odradek.connect.interface import BadRecord, Source
from odradek.connect.records import Offset, Partition, Record, SourcePlace
from odradek.connect.storage.offsets import offset_entries, partition_id
from odradek.connect.tasks.dead_letters import dead_letter
from odradek.connect.tasks.leash import Leash
from odradek.connect.tasks.spec import Ending, Outcome, TaskSpec
from odradek.connect.tasks.tolerance import Failure, Stage, Tolerance, stage_of
from odradek.connect.tasks.writing import MissingTopics, Writer
from odradek.connect.transformation import Transforms

# A batch that is not full is written after this time.
GATHER_S = 0.05
REST_S = 0.1
# A run that is asked to stop and has had no data for this time is idle: its task need not run again at once.
QUIET_S = 0.5


Found = Record | list[Record] | SourcePlace | None
"""What a source yields."""


@dataclass(slots=True)
class Reader:
    """One partition. `offset` is the position after the last record that was read."""

    partition: Partition
    offset: Offset | None
    records: Iterator[Found] | None = None
    # The part of a list of records that did not fit into the last batch.
    rest: list[Record] = field(default_factory=list)
    again_s: float = 0.0

    def taken(self, count: int) -> list[Record]:
        """The next records of `rest`: more than `count` if the last one belongs to those after it."""
        end = max(count, 1)
        while end < len(self.rest) and self.rest[end - 1].place is None:
            end += 1
        taken, self.rest = self.rest[:end], self.rest[end:]
        return taken


@dataclass(slots=True, kw_only=True)
class SourceRun:
    """Drives a source until it has had no data for `linger_s`, or should stop."""

    spec: TaskSpec
    source: Source[Any]
    conversion: Conversion
    transforms: Transforms
    tolerance: Tolerance
    writer: Writer
    missing_topics: MissingTopics
    leash: Leash
    poll_interval_s: float
    clock: Callable[[], float] = time.monotonic
    _readers: list[Reader] = field(default_factory=list)
    _unasked: set[int] = field(default_factory=set)
    # Places without a record to write. They are passed when the batch is written.
    _passed: list[SourcePlace] = field(default_factory=list)
    # Raised after the records that were read before it are written.
    _failed: Exception | None = None

    def run(self) -> Outcome:
        self._readers = [Reader(partition, offset) for partition, offset in self.spec.partitions]
        self._unasked = set(map(id, self._readers))
        active_s = self.clock()
        while self.leash.stop_for is None:
            batch = self._gathered()
            if batch or self._passed:
                self._write(batch)
                active_s = self.clock() if batch else active_s
                if self._failed is not None:
                    raise self._failed
            elif self._failed is not None:
                raise self._failed
            elif self._unasked or self.source.stays() or not self.source.is_connected():
                # A source may need longer than `linger_s` for its first connection. A run that ended before would not
                # get any further, and neither would the next one.
                active_s = self.clock()
            elif self.clock() - active_s > self.spec.linger_s:
                return Outcome(ending=Ending.IDLE)
            else:
                self.leash.rest(self._pause())
        return Outcome(ending=Ending.IDLE if self.clock() - active_s > QUIET_S else Ending.STOPPED)

    def _pause(self) -> float:
        """Readers that wait for data have already waited. Others are asked again after the poll interval."""
        if any(reader.records is not None for reader in self._readers):
            return 0.0
        now = self.clock()
        return min([REST_S, *(max(reader.again_s - now, 0) for reader in self._readers)])

    def _gathered(self) -> list[Record]:
        rows_max = self.tolerance.options.batch_records_max
        batch: list[Record] = []
        deadline = self.clock() + GATHER_S
        for reader in self._readers:
            batch += self._read(reader, rows_max - len(batch), deadline)
            if self._failed is not None:
                break
        # The next batch begins with another partition, so that none of them waits for a busy one.
        self._readers = self._readers[1:] + self._readers[:1]
        return batch

    def _read(self, reader: Reader, rows_max: int, deadline: float) -> list[Record]:
        """Ends at a pause of the source: what was read before is not to wait for what comes after it."""
        if rows_max <= 0:
            return []
        read = reader.taken(rows_max)
        if reader.records is None:
            if self.clock() < reader.again_s:
                return read
            try:
                reader.records = iter(_iterable(self.source.read(reader.partition, reader.offset)))
            except Exception as failed:  # noqa: BLE001 (a connector may raise anything)
                self._fail_after(read, failed)
                return read
        try:
            if self._is_filled_to_a_place(reader, reader.records, read, rows_max, deadline):
                return read
        except StopIteration:
            reader.records = None
            reader.again_s = self.clock() + (0.0 if read else self.poll_interval_s)
        except BadRecord as bad:
            try:
                self.tolerance.bad(Failure(record=bad.record, stage=Stage.TASK_POLL, error=bad))
            except Exception as failed:  # noqa: BLE001 (it is raised later)
                self._fail_after(read, failed)
            else:
                self._passed.append(_place(bad.record))
                reader.offset, reader.records = _place(bad.record).offset, None
                return read
        except Exception as failed:  # noqa: BLE001 (a connector may raise anything)
            self._fail_after(read, failed)
        if read:
            reader.offset = _place(read[-1]).offset
        return read

    def _fail_after(self, read: list[Record], failed: Exception) -> None:
        """The records before an error are written, those of other partitions too.

        Without them a source that fails often would never get further.
        """
        while read and read[-1].place is None:
            read.pop()
        self._failed = failed

    def _is_filled_to_a_place(
        self, reader: Reader, records: Iterator[Found], read: list[Record], rows_max: int, deadline: float
    ) -> bool:
        """Adds records to `read`. Whether it ended at a place without a record, which is the reader's offset now."""
        is_first = id(reader) in self._unasked
        self._unasked.discard(id(reader))
        while (len(read) < rows_max and (is_first or self.clock() <= deadline)) or (read and read[-1].place is None):
            found = next(records)
            is_first = False
            if isinstance(found, Record):
                read.append(found)
            elif found is None:
                break
            elif isinstance(found, SourcePlace):
                self._passed.append(found)
                reader.offset = found.offset
                return True
            else:
                reader.rest = _records(found)
                read += reader.taken(rows_max - len(read))
        return False

    def _write(self, batch: Sequence[Record]) -> None:
        encoded = self._all_encoded(batch)
        skipped = len(self.tolerance.failures)
        encoded += self._dead_letters()
        positions = _positions([*(_place(each) for each in batch if each.place is not None), *self._passed])
        self._passed.clear()
        self.missing_topics.ensure({each.topic for each in encoded})
        self.leash.check()
        offsets = offset_entries(self.spec.connector, [(place.partition, place.offset) for place in positions])
        self.writer.write(encoded, self.spec.offsets_topic, offsets)
        for place in positions:
            self.source.committed(place.partition, place.offset)
        self.leash.report(
            {
                "polled": len(batch),
                "written": len(encoded),
                "skipped": skipped,
                "topics": sorted({each.topic for each in encoded}),
            }
        )

    def _all_encoded(self, batch: Sequence[Record]) -> list[Encoded]:
        """All at once, because a call for each record costs more than the encoding. One by one if a record fails."""
        encode = self.conversion.encoded
        tracked = {id(record) for record in self.source.tracked(batch)}
        if not self.transforms:
            with contextlib.suppress(Exception):
                encoded = [encode(record) for record in batch]
                if not tracked:
                    return encoded
                pairs = zip(batch, encoded, strict=True)
                return [self._reporting(record, each) if id(record) in tracked else each for record, each in pairs]
        return [each for record in batch for each in self._encoded(record, is_tracked=id(record) in tracked)]

    def _reporting(self, record: Record, encoded: Encoded) -> Encoded:
        return replace(encoded, stored=partial(self.source.stored, record))

    def _encoded(self, record: Record, *, is_tracked: bool) -> Iterator[Encoded]:
        stage = Stage.TRANSFORMATION
        try:
            changed = self.tolerance.attempt(lambda: self.transforms(record))
            if changed is None:
                return
            stage = Stage.VALUE_CONVERTER
            encoded = self.tolerance.attempt(lambda: self.conversion.encoded(changed))
            yield self._reporting(record, encoded) if is_tracked else encoded
        except Exception as failed:  # noqa: BLE001 (`bad` raises it unless it is tolerated)
            self.tolerance.bad(Failure(record=record, stage=stage_of(failed, stage), error=failed))

    def _dead_letters(self) -> list[Encoded]:
        options = self.tolerance.options
        topic = options.errors_deadletterqueue_topic_name
        failures = self.tolerance.taken()
        context = options.errors_deadletterqueue_context_headers_enable
        return [
            dead_letter(failure, topic, self.spec.connector, self.spec.task, context=context)
            for failure in failures
            if topic
        ]


def _iterable(found: object) -> Iterable[Any]:
    if not isinstance(found, Iterable):
        raise TypeError(f"read of a source returned {type(found).__name__}; it returns an iterator of records")
    return found


def _records(found: object) -> list[Record]:
    if not isinstance(found, list) or not all(isinstance(each, Record) for each in found):
        raise TypeError(
            f"a source yielded {type(found).__name__}; it yields Record, a list of Record, SourcePlace or None"
        )
    return found


def _place(record: Record) -> SourcePlace:
    place = record.place
    if not isinstance(place, SourcePlace):
        raise TypeError(f"a record of the source has the place {place!r}; every record needs a SourcePlace")
    return place


def _positions(places: Sequence[SourcePlace]) -> list[SourcePlace]:
    """The last position of each partition. Its object is mostly the same, and its id takes longer to make."""
    last = {id(place.partition): place for place in places}.values()
    return list({partition_id(place.partition): place for place in last}.values())
