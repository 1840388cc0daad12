"""Reads segment files batch by batch, and finds problems in them and their indexes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from odradek.log.transactions import ABORTED_ENTRY
from odradek.protocol.batch import HEADER_BYTES, BatchHeader, has_valid_checksum, read_header
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.txn_marker import read_marker

OFFSET_ENTRY = Struct(">II")  # offset - base offset, position
TIME_ENTRY = Struct(">qI")  # timestamp, offset - base offset


class Finding(NamedTuple):
    file: Path
    position: int
    problem: str


class _Batch(NamedTuple):
    position: int
    last_offset: int
    max_timestamp: int
    aborts: int | None  # the producer whose transaction it aborts


class BrokenSegment(MalformedRecords):
    """The position of the first invalid batch of a file, and what is wrong with it."""

    def __init__(self, segment: Path, position: int, problem: str) -> None:
        super().__init__(f"{segment} at {position}: {problem}")
        self.position = position
        self.problem = problem


def segments_of(path: Path) -> list[Path]:
    found = sorted(path.glob("*.log")) if path.is_dir() else [path] if path.is_file() else []
    return [segment for segment in found if segment.suffix == ".log" and segment.stem.isdigit()]


def batches_of(segment: Path) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """Position, header and bytes of each batch. Raises BrokenSegment at the first invalid one."""
    with segment.open("rb") as file:
        position = 0
        while head := file.read(HEADER_BYTES):
            try:
                header = read_header(head)
            except MalformedRecords as broken:
                raise BrokenSegment(segment, position, str(broken)) from None
            rest = file.read(header.size_bytes - HEADER_BYTES)
            if len(head) + len(rest) < header.size_bytes:
                there = len(head) + len(rest)
                raise BrokenSegment(segment, position, f"a batch of {header.size_bytes} bytes ends after {there}")
            yield position, header, head + rest
            position += header.size_bytes


def verify_partition(path: Path) -> tuple[int, list[Finding]]:
    """The number of batches, and the problems. Gaps between offsets are no problem: compaction leaves them."""
    findings: list[Finding] = []
    count, next_offset = 0, -1
    for segment in segments_of(path):
        base = int(segment.stem)
        batches: list[_Batch] = []
        if base < next_offset:
            findings.append(Finding(segment, 0, f"begins at {base}, but the previous segment ends at {next_offset}"))
        try:
            for position, header, data in batches_of(segment):
                if not has_valid_checksum(data):
                    findings.append(Finding(segment, position, "the checksum does not match"))
                if header.base_offset < max(next_offset, base):
                    findings.append(
                        Finding(segment, position, f"offset {header.base_offset} is below {max(next_offset, base)}")
                    )
                next_offset = max(next_offset, header.next_offset)
                batches.append(_Batch(position, header.last_offset, header.max_timestamp, _aborts(header, data)))
        except BrokenSegment as broken:
            findings.append(Finding(segment, broken.position, broken.problem))
        except MalformedRecords as broken:
            findings.append(Finding(segment, position, str(broken)))
        findings += _index_findings(segment, base, batches)
        count += len(batches)
    return count, findings


def _index_findings(segment: Path, base: int, batches: list[_Batch]) -> list[Finding]:
    places = {batch.last_offset: batch.position for batch in batches}
    findings = []
    index = segment.with_suffix(".index")
    for at, (relative, position) in _entries(index, OFFSET_ENTRY):
        if (relative or position) and places.get(base + relative) != position:
            findings.append(Finding(index, at, f"offset {base + relative} is not in the batch at {position}"))
    times = segment.with_suffix(".timeindex")
    newest, known = -1, iter(batches)
    batch = next(known, None)
    for at, (timestamp, relative) in _entries(times, TIME_ENTRY):
        while batch is not None and batch.last_offset <= base + relative:
            newest = max(newest, batch.max_timestamp)
            batch = next(known, None)
        if (timestamp or relative) and timestamp != newest:
            findings.append(
                Finding(times, at, f"timestamp {timestamp} up to offset {base + relative}, but the log has {newest}")
            )
    return findings + _transaction_findings(segment, batches)


def _transaction_findings(segment: Path, batches: list[_Batch]) -> list[Finding]:
    markers = {batch.last_offset: batch.aborts for batch in batches if batch.aborts is not None}
    index = segment.with_suffix(".txnindex")
    return [
        Finding(index, at, f"no marker at offset {last_offset} aborts a transaction of producer {producer_id}")
        for at, (_, producer_id, _, last_offset, _) in _entries(index, ABORTED_ENTRY)
        if markers.get(last_offset) != producer_id
    ]


def _aborts(header: BatchHeader, data: bytes) -> int | None:
    marker = read_marker(header, memoryview(data)) if header.is_control else None
    return marker.producer_id if marker is not None and not marker.committed else None


def _entries(index: Path, form: Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    data = index.read_bytes() if index.exists() else b""
    for at in range(0, len(data) - len(data) % form.size, form.size):
        yield at, form.unpack_from(data, at)
