"""Writes with the lake sink and kills itself at a point: `python -m support.killed_lake_writer PATH FORMAT POINT`.

The points: `files`, when the data files are written and nothing is committed; `commit`, right after the commit;
`joined-files` and `joined-commit`, the same in the compaction after the append.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from support.lake_records import lake_sink, rows


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(path: str, form: str, point: str) -> None:
    match form, point:
        case "parquet", "files":
            from odradek.lake.storage import Files

            Files.write_text = die
        case "parquet", "commit":
            from odradek.lake.storage import Files

            Files.move = die
        case "delta", _:
            import deltalake

            write = deltalake.write_deltalake

            def written(*given: object, **more: object) -> None:
                write(*given, **more)
                if point == "files":
                    max(Path(path).glob("t/_delta_log/*.json")).unlink()
                die()

            deltalake.write_deltalake = written
        case "iceberg", _:
            from pyiceberg.table import Table

            commit = Table._do_commit

            calls = []

            def committed(*given: object, **more: object) -> None:
                calls.append(1)
                if point.startswith("joined") and len(calls) == 1:
                    commit(*given, **more)  # the append
                    return
                if point.endswith("commit"):
                    commit(*given, **more)
                die()

            Table._do_commit = committed


if __name__ == "__main__":
    path, form, point = sys.argv[1:]
    sink = lake_sink(path, form, committed=None, iceberg_compact_every=1 if point.startswith("joined") else 0)
    sink.write(rows(0, 10))
    sink.flush(now=True)
    sink.group_offsets = {("t", 0): 10}
    sink.write(rows(10, 20))
    arm(path, form, point)
    sink.flush(now=True)
