"""`files-source`: every line of files as a record; new files and new lines are found while it runs."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, Literal

from odradek.connect.interface import BadRecord, Source
from odradek.connect.options import not_empty, option
from odradek.connect.records import STRING, Offset, Partition, Record, SourcePlace

LINE_BYTES_MAX = 16 << 20
FILES_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSourceConfig:
    path: str = option("A file, or a pattern such as /data/*.jsonl.", importance="HIGH", check=not_empty)
    topic: str = option("The topic to write to.", importance="HIGH", check=not_empty)
    format: Literal["json", "text"] = option("What a line is: a JSON value, or text.", default="json")
    key_field: str | None = option("The field of a JSON object that becomes the record's key.", default=None)


class FilesSource(Source[FilesSourceConfig]):
    """Each file is a partition; its offset is a position in bytes. A file may grow; its lines may not change.

    A last line without a line end is read when its end arrives.
    """

    Config: ClassVar[type] = FilesSourceConfig

    def partitions(self) -> Sequence[Partition]:
        found = sorted(glob.glob(self.config.path, recursive=True))
        files = [name for name in found if Path(name).is_file()]
        if len(files) > FILES_MAX:
            raise ValueError(f"{self.config.path} matches {len(files)} files; a connector reads at most {FILES_MAX}")
        return [{"filename": name} for name in files]

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:
        try:
            with _opened(partition) as file:
                position = _position(offset)
                if file.seek(0, os.SEEK_END) < position:
                    return True  # `read` reports that the file was replaced
                file.seek(position)
                line = file.readline(LINE_BYTES_MAX)
                return line.endswith(b"\n") or len(line) >= LINE_BYTES_MAX
        except FileNotFoundError:
            return False  # the next list of partitions leaves it out

    def read(self, partition: Partition, offset: Offset | None) -> Iterator[Record | None]:
        position = _position(offset)
        with _opened(partition) as file:
            size = file.seek(0, os.SEEK_END)
            if size < position:
                raise ValueError(
                    f"{partition['filename']} has {size} bytes, but {position} were read already: the file was "
                    "replaced. Give new data a new file name, or stop the connector and reset its offsets"
                )
            file.seek(position)
            while line := file.readline(LINE_BYTES_MAX):
                if not line.endswith(b"\n"):
                    if len(line) >= LINE_BYTES_MAX:
                        raise ValueError(
                            f"{partition['filename']} has a line of more than {LINE_BYTES_MAX} bytes at {position}"
                        )
                    return
                position += len(line)
                yield self._record(line.rstrip(b"\r\n"), SourcePlace(partition, {"position": position}))

    def _record(self, line: bytes, place: SourcePlace) -> Record:
        record = Record(topic=self.config.topic, place=place)
        if self.config.format == "text":
            record.value, record.value_schema = line.decode(errors="replace"), STRING
            return record
        try:
            record.value = json.loads(line)
        except ValueError as wrong:
            raise BadLine(place, line, wrong) from wrong
        if self.config.key_field is not None and isinstance(record.value, dict):
            record.key = record.value.get(self.config.key_field)
        return record


def _opened(partition: Partition) -> BinaryIO:
    return Path(str(partition["filename"])).open("rb")


def _position(offset: Offset | None) -> int:
    return int(str(offset["position"])) if offset else 0


class BadLine(BadRecord):
    """A line that is not JSON."""

    def __init__(self, place: SourcePlace, line: bytes, why: ValueError) -> None:
        end = place.offset["position"]
        bad = Record(topic="", value=line.decode(errors="replace"), value_schema=STRING, place=place)
        super().__init__(bad, f"{place.partition['filename']}: the line that ends at byte {end} is not JSON: {why}")
