"""Searches and live tails as work of one request: what they send to the browser, and their limits.

messages   rows, in order                    progress   how far the search has come
problem    why it cannot run or go on        done       why it has ended, and where to continue
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from odradek.console.messages.query import BadQuery, Prepared, left_text
from odradek.console.messages.reading import CannotRead, reading_config, record_of
from odradek.console.messages.rows import row_of
from odradek.console.messages.searching import Progress, Range, Search, Wanted
from odradek.console.messages.seen import Seen
from odradek.console.messages.source import Source
from odradek.web.work import Line

AT_ONCE_MAX = 8
TAIL_RECORDS_AT_ONCE = 500
TAIL_POLL_S = 0.2
TAIL_ROWS_PER_S = 100
TAIL_REPORT_S = 1.0
TAIL_ROWS_AT_ONCE = 20

Prepare = Callable[[], tuple[Source, Prepared]]


class Places:
    """How many searches and tails run at once."""

    def __init__(self, at_once_max: int = AT_ONCE_MAX) -> None:
        self._max = at_once_max
        self._free = threading.Semaphore(at_once_max)
        self._lock = threading.Lock()
        self._running = 0

    @property
    def running(self) -> int:
        return self._running

    @contextmanager
    def one(self) -> Iterator[bool]:
        """False if all are taken."""
        if not self._free.acquire(blocking=False):
            yield False
            return
        with self._lock:
            self._running += 1
        try:
            yield True
        finally:
            with self._lock:
                self._running -= 1
            self._free.release()


def searching(places: Places, prepare: Prepare, line: Line) -> None:
    _run(places, line, prepare, _search)


def tailing(places: Places, prepare: Prepare, line: Line) -> None:
    _run(places, line, prepare, _tail)


def _run(places: Places, line: Line, prepare: Prepare, work: Callable[[Source, Prepared, Line], None]) -> None:
    with places.one() as free:
        if not free:
            line.send("problem", {"what": f"{AT_ONCE_MAX} searches run already; stop one of them, or try later"})
            return
        try:
            work(*prepare(), line)
        except BadQuery as wrong:
            line.send("problem", {"what": wrong.why, "field": wrong.name, "column": wrong.column})
        except CannotRead as problem:
            line.send("problem", {"what": str(problem)})


def _search(source: Source, prepared: Prepared, line: Line) -> None:
    query = prepared.query
    wanted = Wanted(
        limit=query.limit,
        newest_first=query.newest_first,
        decoders=prepared.decoders,
        show=partial(_row, prepared),
        matches=prepared.matches,
        needles=prepared.needles,
    )
    with source.reader(line.check, uncommitted=query.uncommitted) as reader:
        ranges = source.ranges(prepared)
        unread = [] if query.left else source.unread(query.partitions, ranges)
        if unread:
            line.send("note", {"what": _not_searched(unread)})
        search = Search(
            reader,
            ranges,
            wanted,
            check=line.check,
            report=lambda progress: _offer(line, progress),
        )
        for matches in search.rounds():
            if matches:
                line.send("messages", [match.shown for match in matches])
    line.send("progress", _told(search.progress))
    line.send("done", {"left": left_text(search.left), "found": search.progress.found})


def _not_searched(partitions: Sequence[int]) -> str:
    few = ", ".join(map(str, partitions[:10])) + (", …" if len(partitions) > 10 else "")
    if len(partitions) == 1:
        return f"Partition {few} is not searched: it has no leader that answers."
    return f"Partitions {few} are not searched: they have no leader that answers."


def _row(prepared: Prepared, seen: Seen) -> dict[str, Any]:
    return row_of(seen, prepared.decoders, prepared.columns)


def _offer(line: Line, progress: Progress) -> None:
    line.offer("progress", _told(progress))


def _told(progress: Progress) -> dict[str, Any]:
    return {
        "records": progress.records,
        "bytes": progress.size_bytes,
        "share": round(progress.share, 4),
        "seconds": round(progress.seconds, 2),
        "found": progress.found,
    }


# --- live


def _tail(source: Source, prepared: Prepared, line: Line) -> None:
    """From the ends of the partitions on. Joins no group, commits nothing. Rows above the rate are counted only."""
    query = prepared.query
    partitions = source.chosen(query.partitions)
    unread = source.unread(query.partitions, [Range(index, 0, 0) for index in partitions])
    if unread:
        line.send("note", {"what": _not_searched(unread)})
    consumer = Consumer(
        reading_config(source.bootstrap, read_committed=not query.uncommitted) | {"auto.offset.reset": "latest"}
    )
    try:
        consumer.assign([TopicPartition(source.name, index, OFFSET_END) for index in partitions])
        _Tail(consumer, prepared, line, partitions).run()
    except KafkaException as failed:
        raise CannotRead(f"{source.name}: {failed.args[0].str()}") from failed
    finally:
        consumer.close()


class _Tail:
    def __init__(self, consumer: Consumer, prepared: Prepared, line: Line, partitions: Sequence[int]) -> None:
        self._consumer = consumer
        self._prepared = prepared
        self._line = line
        self._records = self._bytes = self._shown = self._left_out = 0
        self._began_s = self._second_s = self._reported_s = time.monotonic()
        self._this_second = 0
        self._waiting = set(partitions)  # their ends are not known yet

    def run(self) -> None:
        while True:
            self._line.check()
            messages = self._consumer.consume(TAIL_RECORDS_AT_ONCE, TAIL_POLL_S)
            rows: list[dict[str, Any]] = []
            for message in messages:
                error = message.error()
                if error is not None:
                    self._on_error(error, message.partition() or 0)
                    continue
                record = record_of(message)
                self._records += 1
                self._bytes += len(record.key or b"") + len(record.value or b"")
                self._examine(Seen(message.partition() or 0, record, self._prepared.decoders), rows)
            self._send(rows)
            self._report()

    def _on_error(self, error: KafkaError, partition: int) -> None:
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 librdkafka names its own codes so
            if self._waiting:
                self._waiting.discard(partition)
                if not self._waiting:  # from now on no record is missed
                    self._line.send("ready", {})
        elif not error.retriable():
            raise CannotRead(error.str())

    def _examine(self, seen: Seen, rows: list[dict[str, Any]]) -> None:
        matches = self._prepared.matches
        if matches is not None and not matches(seen):
            return
        now_s = time.monotonic()
        if now_s - self._second_s >= 1.0:
            self._second_s, self._this_second = now_s, 0
        self._this_second += 1
        if self._this_second > TAIL_ROWS_PER_S:
            self._left_out += 1
            return
        rows.append(_row(self._prepared, seen))
        if len(rows) == TAIL_ROWS_AT_ONCE:
            self._send(rows)

    def _send(self, rows: list[dict[str, Any]]) -> None:
        if rows:
            if self._line.offer("messages", rows):
                self._shown += len(rows)
            else:  # the browser is too slow
                self._left_out += len(rows)
            rows.clear()

    def _report(self) -> None:
        now_s = time.monotonic()
        if now_s - self._reported_s >= TAIL_REPORT_S:
            self._reported_s = now_s
            told = {"records": self._records, "bytes": self._bytes, "found": self._shown, "left_out": self._left_out}
            self._line.offer("progress", {**told, "seconds": round(now_s - self._began_s, 1)})
