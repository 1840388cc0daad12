"""Rows on their way into a table of files. Tasks write them to files here; the driver appends them to the table.

    <checkpoint>/tables/<sink>/<first micro-batch of the run>-<run>/<micro-batch>/<task>.arrow

The driver takes the files of a micro-batch when Spark has committed it. An interrupted micro-batch is run again by
another run, in another folder, and the driver deletes the folder of the first attempt.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from odradek.pipeline.durable import sync
from odradek.streams.engine.store import Run

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIX = ".arrow"


def run_folder(tables: str, sink: str, run: Run) -> str:
    """`tables`: the folder of all tables of a query; `sink`: that of the sink in it."""
    return f"{tables}/{sink}/{run.committed + 1}-{run.name}"


class RowFile:
    """The rows of one task. The file appears as a whole, and survives a crash of the machine; without rows there is
    none."""

    def __init__(self, run_folder: str, batch: int, task: str) -> None:
        self._folder = Path(run_folder) / str(batch)
        self._path = self._folder / f"{task}{SUFFIX}"
        self._aside = self._folder / f".{task}-{uuid4().hex}"
        self._file: Any = None
        self._writer: Any = None

    def write(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._writer is None:
            import pyarrow as pa

            # Without the run's folder this is a task of a run that has ended: it must fail.
            self._folder.mkdir(exist_ok=True)
            self._file = self._aside.open("wb")
            self._writer = pa.ipc.new_stream(self._file, rows.schema)
        self._writer.write_batch(rows)

    def finish(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._aside.replace(self._path)
        for folder in (self._folder, self._folder.parent):
            sync(folder)


@dataclass(frozen=True, slots=True)
class GatherRows:
    """A function for mapInArrow: the rows of a micro-batch into files. It gives none."""

    run_folder: str
    batch: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        file = RowFile(self.run_folder, self.batch, "0" if context is None else str(context.partitionId()))
        for rows in batches:
            file.write(rows)
        file.finish()
        yield from ()
