"""The files in which rows wait for a table, as the driver sees them: what is committed, how much it is, how old."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.pipeline.durable import sync
from odradek.streams.compile.gathering import SUFFIX
from odradek.streams.engine.store import Run

if TYPE_CHECKING:
    import pyarrow as pa

TAKEN_BYTES_MAX = 64 * 1024 * 1024
"""Of rows in memory that are appended at once."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The rows of one micro-batch."""

    batch: int
    folder: Path

    @property
    def files(self) -> list[Path]:
        """Tasks write to names that begin with a dot."""
        return sorted(path for path in self.folder.glob(f"*{SUFFIX}") if not path.name.startswith("."))

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.files)

    @property
    def age_s(self) -> float:
        return time.time() - self.folder.stat().st_mtime

    def rows(self) -> list[pa.Table]:
        import pyarrow as pa

        found = []
        for path in self.files:
            with pa.ipc.open_stream(path) as reader:
                found.append(reader.read_all())
        return found


@dataclass(frozen=True, slots=True)
class Gathered:
    """`folder`: of one sink, with a folder for each run of the query."""

    folder: Path

    def begin(self, run: Run) -> None:
        """Deletes what earlier runs have not committed, and makes the folder of this run."""
        first = run.committed + 1
        for began, path in self._runs():
            if began >= first:
                shutil.rmtree(path)
        new = self.folder / f"{first}-{run.name}"
        new.mkdir(parents=True)
        for made in (self.folder, self.folder.parent, self.folder.parent.parent):
            sync(made)

    def waiting(self, begin: int, committed: int) -> list[Waiting]:
        """The micro-batches from `begin` to `committed` that have rows. Each is of the last run that began before."""
        runs = self._runs()
        found = []
        for number, (first, path) in enumerate(runs):
            last = runs[number + 1][0] - 1 if number + 1 < len(runs) else committed
            found += [
                Waiting(batch, folder)
                for batch, folder in _numbered(path)
                if max(first, begin) <= batch <= min(last, committed)
            ]
        return sorted(found, key=lambda waiting: waiting.batch)

    def forget(self, end: int) -> None:
        """Deletes the rows before a micro-batch: the table has them."""
        runs = self._runs()
        for number, (_, path) in enumerate(runs):
            for batch, folder in _numbered(path):
                if batch < end:
                    shutil.rmtree(folder)
            if number + 1 < len(runs) and runs[number + 1][0] <= end:
                shutil.rmtree(path)  # of a run that is over

    def _runs(self) -> list[tuple[int, Path]]:
        """With the first micro-batch of each."""
        found = self.folder.glob("*-*") if self.folder.is_dir() else ()
        return sorted((int(path.name.partition("-")[0]), path) for path in found)


def _numbered(run: Path) -> list[tuple[int, Path]]:
    return sorted((int(path.name), path) for path in run.glob("[0-9]*"))


def first_of(waiting: Sequence[Waiting], bytes_max: int) -> list[Waiting]:
    """The oldest micro-batches that have this size together, at least one."""
    taken: list[Waiting] = []
    size = 0
    for one in waiting:
        size += one.bytes
        if taken and size > bytes_max:
            break
        taken.append(one)
    return taken
