"""The replicas of each partition, file by file: after the run and a clean stop they hold the same bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

# Base offset, length, leader epoch: how far a reader must look to find the next batch.
_BATCH = struct.Struct(">qii")
_LAST_DELTA = struct.Struct(">i")
_LAST_DELTA_AT = 23
_PRODUCER = struct.Struct(">qh")
_PRODUCER_AT = 43


def batches_of(directory: Path) -> Iterator[tuple[int, int, bytes]]:
    """First offset, next offset, all bytes of each batch."""
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        position = 0
        while position + _BATCH.size <= len(data):
            base, length, _ = _BATCH.unpack_from(data, position)
            end = position + 12 + length
            if length <= 0 or end > len(data):
                return
            (last_delta,) = _LAST_DELTA.unpack_from(data, position + _LAST_DELTA_AT)
            yield base, base + last_delta + 1, data[position:end]
            position = end


def compare(nodes: Sequence[Path], replicas: Mapping[str, Sequence[int]]) -> tuple[int, list[str]]:
    """How many bytes were compared, and what differs. `replicas`: of each partition, numbers of nodes from 1 on.

    The metadata log, and a log that begins later on one node, are compared where both nodes have records.
    """
    compared = 0
    differences: list[str] = []
    for name in sorted(replicas):
        held = {
            node: {base: (end, data) for base, end, data in batches_of(nodes[node - 1] / name)}
            for node in replicas[name]
        }
        first, *others = sorted(held)
        start = max((min(each, default=0) for each in held.values()), default=0)
        expected = {base: batch for base, batch in held[first].items() if base >= start}
        for other in others:
            found = {base: batch for base, batch in held[other].items() if base >= start}
            different = sorted(base for base in expected.keys() | found.keys() if expected.get(base) != found.get(base))
            compared += sum(len(data) for _, data in found.values())
            if different:
                differences.append(
                    f"{name}: nodes {first} and {other} differ in {len(different)} batches, the first at {different[0]}"
                )
    return compared, differences


def producers_of(directory: Path) -> list[tuple[int, int, int, int]]:
    """Which producer wrote what: first offset, next offset, its id and epoch; neighbours of one producer as one."""
    runs: list[tuple[int, int, int, int]] = []
    for base, end, data in batches_of(directory):
        producer = _PRODUCER.unpack_from(data, _PRODUCER_AT)
        if runs and runs[-1][1:] == (base, *producer):
            runs[-1] = (runs[-1][0], end, *producer)
        else:
            runs.append((base, end, *producer))
    return runs
