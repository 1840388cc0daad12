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
from odradek.connect.progress import NEW, Progress
from odradek.connect.records import Record, TopicPlace
from odradek.pipeline.durable import replace_durably


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSinkConfig:
    path: str = option("The directory to write to; it is created if it is missing.", importance="HIGH", check=not_empty)


@dataclass(frozen=True, slots=True)
class _Written:
    """How much of a file counts, and the offsets of the records in it."""

    length: int
    progress: Progress


class FilesSink(Sink[FilesSinkConfig]):
    """Beside each file is its progress, replaced after each batch. A restart cuts off what came after it."""

    Config: ClassVar[type] = FilesSinkConfig

    def __init__(self, config: FilesSinkConfig) -> None:
        super().__init__(config)
        self._folder = Path(config.path)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._known: dict[TopicPartition, _Written] = {}

    def positions(self, committed: Mapping[TopicPartition, int | None]) -> Mapping[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for place, offset in committed.items():
            written = _read(self._progress_file(place))
            if written is None:
                continue
            at = written.progress.continues_at(offset)
            if at is None:  # the user's offset begins a new history
                written = _Written(written.length, NEW)
            else:
                found[place] = at
            self._known[place] = written
        return found

    def write(self, records: Sequence[Record]) -> None:
        for (topic, partition), some in groupby(records, _place):
            self._append((topic, partition), list(some))

    def _append(self, place: TopicPartition, records: list[Record]) -> None:
        known = self._known.get(place, _Written(0, NEW))
        lines = b"".join(_lines(records))
        path = self._data_file(place)
        with path.open("r+b" if path.exists() else "w+b") as file:
            # What lies after the known length was written by a run that ended before its batch was complete.
            file.truncate(known.length)
            file.seek(known.length)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        begin = self.group_offsets.get(place)
        progress = known.progress.after(_offset(records[0]) if begin is None else begin, _offset(records[-1]) + 1)
        written = _Written(known.length + len(lines), progress)
        _replace(self._progress_file(place), written)
        self._known[place] = written

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


def _read(path: Path) -> _Written | None:
    try:
        told = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return _Written(told.pop("length"), Progress(**told))


def _replace(path: Path, written: _Written) -> None:
    progress = written.progress
    told = {"length": written.length, "first": progress.first, "begin": progress.begin, "end": progress.end}
    replace_durably(path, json.dumps(told).encode())
