"""`files-sink`: records as JSON lines, one file for each partition of a topic, each record exactly once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from odradek.connect.interface import Sink, TopicPartition
from odradek.connect.options import not_empty, option
from odradek.connect.records import Record, TopicPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSinkConfig:
    path: str = option("The directory to write to; it is created if it is missing.", importance="HIGH", check=not_empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Progress:
    """How much of a file counts: `length` bytes, with the records before the offset `end`.

    The last batch began at the offset `begin`, the first one since the file follows the group at `first`.
    """

    length: int
    first: int
    begin: int
    end: int

    def continues_at(self, committed: int | None) -> int | None:
        """The offset after the data, unless a user has set the group's offset: then None."""
        is_first_batch = committed is None and self.begin == self.first
        return self.end if is_first_batch or committed in (self.begin, self.end) else None


class FilesSink(Sink[FilesSinkConfig]):
    """Beside each file is its progress, replaced after each batch. A restart cuts off what came after it."""

    Config: ClassVar[type] = FilesSinkConfig

    def __init__(self, config: FilesSinkConfig) -> None:
        super().__init__(config)
        self._folder = Path(config.path)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._known: dict[TopicPartition, _Progress] = {}

    def positions(self, committed: Mapping[TopicPartition, int | None]) -> Mapping[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for place, offset in committed.items():
            progress = _read_progress(self._progress_file(place))
            if progress is None:
                continue
            self._known[place] = progress
            at = progress.continues_at(offset)
            if at is None:  # the user's offset begins a new history
                self._known[place] = _Progress(length=progress.length, first=-1, begin=-1, end=-1)
            else:
                found[place] = at
        return found

    def write(self, records: Sequence[Record]) -> None:
        for (topic, partition), some in groupby(records, _place):
            self._append((topic, partition), list(some))

    def _append(self, place: TopicPartition, records: list[Record]) -> None:
        known = self._known.get(place, _Progress(length=0, first=-1, begin=-1, end=-1))
        begin, end = _offset(records[0]), _offset(records[-1]) + 1
        lines = b"".join(_lines(records))
        path = self._data_file(place)
        with path.open("r+b" if path.exists() else "w+b") as file:
            # What lies after the known length was written by a run that ended before its batch was complete.
            file.truncate(known.length)
            file.seek(known.length)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        progress = _Progress(
            length=known.length + len(lines), first=begin if known.first < 0 else known.first, begin=begin, end=end
        )
        _write_progress(self._progress_file(place), progress)
        self._known[place] = progress

    def _data_file(self, place: TopicPartition) -> Path:
        return self._folder / f"{place[0]}-{place[1]}.jsonl"

    def _progress_file(self, place: TopicPartition) -> Path:
        return self._folder / f".{place[0]}-{place[1]}.progress"


def _place(record: Record) -> TopicPartition:
    if not isinstance(record.place, TopicPlace):
        raise TypeError(f"a record for a sink has the place {record.place!r}")
    return record.place.topic, record.place.partition


def _offset(record: Record) -> int:
    return record.place.offset if isinstance(record.place, TopicPlace) else -1


def _lines(records: list[Record]) -> Iterator[bytes]:
    for record in records:
        yield json.dumps(record.value, default=str, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _read_progress(path: Path) -> _Progress | None:
    try:
        return _Progress(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def _write_progress(path: Path, progress: _Progress) -> None:
    told = {"length": progress.length, "first": progress.first, "begin": progress.begin, "end": progress.end}
    new = path.with_suffix(".new")
    with new.open("w") as file:
        file.write(json.dumps(told))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
