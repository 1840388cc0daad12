"""What the clients of a run saw, and the faults of the cluster: one JSON object per line, one file per process.

Every line has `t` (seconds since the run began, the same clock for all), `who` and `what`. By what:

    acked       place, records: [[offset, number], …]         a writer's records are stored there; -1: somewhere
    failed      place, numbers, why                           they may be stored or not
    fatal       code, why                                     the producer had a fatal error
    assigned    place, assignment, at                         a reader begins to read at this offset
    polled      place, assignment, at, values                 consecutive records from this offset on
    lost        place, why                                    a reader's position does not exist (any more)
    damaged     place, at                                     a value that no writer wrote
    committing  place, group, commit, offset                  a commit is about to be sent
    committed   commit                                        acknowledged
    uncommitted commit, why                                   refused for certain
    fetched     place, group, began, offset                   what is committed, -1: nothing
    written     place, runs: [[at, end, id, epoch], …]        the producer of each run, from the files after the run
    fault, healed, died, healthy, stalled                     the nemesis and what it saw

A value reads `writer:number:padding`; the padding follows from the number, so that damage is detected.
"""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def value_of(writer: str, number: int) -> bytes:
    return b"%s:%d:%s" % (writer.encode(), number, b"%x" % number * (1 + number % 40))


def identity_of(value: bytes | None) -> str | None:
    """`writer:number`, or None when no writer wrote that."""
    try:
        writer, number, _ = (value or b"").split(b":")
        whole = value_of(writer.decode(), int(number)) == value
    except ValueError:
        return None
    return f"{writer.decode()}:{int(number)}" if whole else None


class Diary:
    """The file of one process. Each line is written when `note` returns: it survives a kill of the process."""

    def __init__(self, directory: Path, who: str, began: float) -> None:
        self.who = who
        self._began = began
        self._file = (directory / f"{who}.jsonl").open("a")

    def now(self) -> float:
        return round(time.monotonic() - self._began, 4)

    def note(self, what: str, **more: object) -> None:
        self._file.write(json.dumps({"t": self.now(), "who": self.who, "what": what, **more}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_history(directory: Path) -> Iterator[Event]:
    """The events of all processes, in the order of time."""
    return heapq.merge(*(_lines(path) for path in sorted(directory.glob("*.jsonl"))), key=lambda event: event["t"])


def _lines(path: Path) -> Iterator[Event]:
    with path.open() as file:
        for line in file:
            if line.endswith("\n"):  # a killed process may have left half a line
                yield json.loads(line)
