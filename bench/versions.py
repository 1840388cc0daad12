"""Compares two variants of Odradek, by turns, on one machine, with one client: another commit, or another setting.

    python bench/versions.py --before ab0cb0a                  this tree, and a commit
    python bench/versions.py --without metrics.enable=false    this tree, without and with a broker setting
    python bench/versions.py --before ab0cb0a --with metrics.enable=false    a commit, and this tree with a setting

Prints, per row, CPU per request and throughput as ratios of each pair of runs: the median and the interval that
contains it with 95 % confidence. Below 1.00 means that this tree uses less. --json keeps the figures. Needs gcc.

--instructions counts the instructions of the node's process per request instead, with valgrind: almost the same count
on a busy machine as on an idle one. It counts what happens between the arrival of bytes and the write of the replies,
and leaves out the event loop and the kernel. Under valgrind a node handles far fewer requests per second, so the work
per second would count too much: fewer requests are measured. How many requests a node finds in one read depends on the
machine's other work, so the median of several turns is taken. Needs valgrind and its header files.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from math import comb
from pathlib import Path

from conditions import conditions
from measure import CountedRun, QuietMoments, Report, RowRun, start_to_first_acknowledged_s, warm_up
from native import OUT, compiled
from rows import MB, ROWS, Row
from servers import Odradek

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_ROWS = "small-1 small-50 fetch-100-one produce-1k-1mb"
CONFIDENCE = 0.95
CONSOLE_OFF = "--no-console"
# Starts the command line after two changes. Instructions are counted while received bytes are handled. The numbers of
# requests that are measured, per second and of a burst, are divided by how much slower the node runs; a commit that
# measures no requests has no such numbers.
COUNTING = """
import ctypes, runpy, sys
counted = ctypes.PyDLL(sys.argv.pop(1)).counted
counted.restype, counted.argtypes = ctypes.py_object, [ctypes.py_object] * 3
try:
    from odradek.server.network.connection import ClientConnection
except ImportError:
    from odradek.server.connection import ClientConnection
try:
    from odradek.server.network import life_cycle
    life_cycle.MEASURED_PER_SECOND /= 100
    life_cycle.MEASURED_BEFORE_DOUBLING = life_cycle.MEASURED_BEFORE_DOUBLING_AGAIN = 1
except (ImportError, AttributeError):
    pass
handle = ClientConnection.buffer_updated
ClientConnection.buffer_updated = lambda connection, size: counted(handle, connection, size)
runpy.run_module("odradek.cli", run_name="__main__", alter_sys=True)
"""


class Variant(Odradek):
    """A node that runs the source in `tree`, with additional broker settings."""

    def __init__(self, directory: Path, tree: Path, settings: list[str]) -> None:
        super().__init__(directory)
        self._tree = tree
        self._settings = settings

    def command(self, node_id: int) -> list[str]:
        source = ["env", f"PYTHONPATH={self._tree / 'src'}"]
        command = [option for option in super().command(node_id) if self._has(option)]
        return [*source, *command, *(f"--config={setting}" for setting in self._settings)]

    def _has(self, option: str) -> bool:
        """Older commits have no console that could be left out."""
        return option != CONSOLE_OFF or CONSOLE_OFF in (self._tree / "src/odradek/cli/up.py").read_text()


class Counted(Variant):
    """The same under valgrind, which counts instructions."""

    def command(self, node_id: int) -> list[str]:
        source, path, python, *odradek = super().command(node_id)
        library = compiled("counted", "-shared", "-fPIC")
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no"]
        dump = f"--callgrind-out-file={self._dump}"
        return [source, path, *valgrind, dump, python, "-c", COUNTING, str(library), *odradek[2:]]

    @property
    def _dump(self) -> Path:
        return self.directory.parent / f"{self.directory.name}.callgrind"

    def await_ready(self, within_s: float = 600.0) -> None:
        """Begins to count only when the node is ready: counting makes a start ten times as slow."""
        super().await_ready(within_s)
        self._control("--instr=on")

    def zero(self) -> None:
        self._control("--zero")

    def instructions(self) -> int:
        """The instructions since `zero`."""
        self._control("--dump")
        newest = max(self._dump.parent.glob(f"{self._dump.name}.*"), key=lambda path: int(path.suffix[1:]))
        return int(re.findall(r"^totals: (\d+)", newest.read_text(), re.MULTILINE)[-1])

    def _control(self, verb: str) -> None:
        subprocess.run(["callgrind_control", verb, str(self.pids[0])], check=True, capture_output=True)


def main() -> int:
    options = parsed()
    # As after an installation with pip: servers find compiled modules. Without them a start takes twice as long.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compiled("loadgen")
    OUT.mkdir(exist_ok=True)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="versions-", dir=OUT)))
        other = ROOT
        if options.before:
            other = place / "before"
            git("worktree", "add", "--detach", str(other), options.before)
            stack.callback(git, "worktree", "remove", "--force", str(other))
        kind = Counted if options.instructions else Variant
        variants = {"before": kind(place / "a", other, options.without), "now": kind(place / "b", ROOT, options.having)}
        results = counted(variants, options) if options.instructions else measured(variants, options)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="COMMIT", help="compare with this commit; default: this tree itself")
    parser.add_argument(
        "--without", action="append", default=[], metavar="KEY=VALUE", help="broker setting of the other variant"
    )
    parser.add_argument(
        "--with", action="append", default=[], metavar="KEY=VALUE", dest="having", help="broker setting of this tree"
    )
    parser.add_argument("--rows", default=os.environ.get("ROWS", DEFAULT_ROWS), help="names, separated by blanks")
    parser.add_argument("--pairs", type=int, help="pairs of runs per row (20; 5 with --instructions)")
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds of one run")
    parser.add_argument("--starts", type=int, default=5, help="pairs of starts; 0 leaves them out")
    parser.add_argument("--patience", type=float, default=60.0, help="total seconds to wait for an idle machine")
    parser.add_argument("--instructions", action="store_true", help="count instructions, with valgrind")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()
    options.pairs = options.pairs or (5 if options.instructions else 20)
    options.rows = [row for row in ROWS if row.key in options.rows.split()]
    return options


def git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True)


def measured(variants: dict[str, Variant], options: argparse.Namespace) -> dict[str, object]:
    results: dict[str, object] = {"conditions": conditions(), "rows": {}}
    quiet = QuietMoments(options.patience)
    if options.starts:
        results["start"] = measured_starts(variants, options.starts, quiet)
    for server in variants.values():
        server.start()
        server.await_ready()
    try:
        for server in variants.values():
            warm_up(server, 6.0)
        results["rows"] = {row.key: measured_row(row, variants, options, quiet) for row in options.rows}
    finally:
        for server in variants.values():
            server.stop()
            server.wipe()
    return results


def measured_starts(variants: dict[str, Variant], starts: int, quiet: QuietMoments) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(starts):
        for name in in_turn(variants, turn):
            server = variants[name]
            quiet.wait()
            try:
                taken[name].append(start_to_first_acknowledged_s(server))
            finally:
                server.stop()
                server.wipe()
    text = ", ".join(f"{name} {statistics.median(times):.3f} s" for name, times in taken.items())
    print(f"start to first acknowledged record: {text}", flush=True)
    return taken


def measured_row(
    row: Row, variants: dict[str, Variant], options: argparse.Namespace, quiet: QuietMoments
) -> dict[str, list[Report]]:
    runs = {name: RowRun(row, server, options.seconds) for name, server in variants.items()}
    taken: dict[str, list[Report]] = {name: [] for name in variants}
    for turn in range(options.pairs):
        for name in in_turn(variants, turn):
            taken[name].append(quiet.measured(runs[name]))
    for run in runs.values():
        run.close()
    print(f"{row.key}: CPU per request {ratios(taken, cpu_per_request)}; throughput {ratios(taken, rate)}", flush=True)
    return taken


def counted(variants: dict[str, Counted], options: argparse.Namespace) -> dict[str, object]:
    taken: dict[str, dict[str, list[float]]] = {row.key: {name: [] for name in variants} for row in options.rows}
    with ExitStack() as stack:
        for server in variants.values():
            stack.callback(server.wipe)
            server.start()
            stack.callback(server.stop)
            server.await_ready()
        for row in options.rows:
            for turn in range(options.pairs):
                for name in in_turn(variants, turn):
                    taken[row.key][name].append(instructions_per_request(row, variants[name]))
                print(row.key, *(f"{name} {each[-1]:,.0f}" for name, each in taken[row.key].items()), file=sys.stderr)
            before, now = (statistics.median(taken[row.key][name]) for name in ("before", "now"))
            print(f"{row.key}: {before:,.0f} → {now:,.0f} instructions per request, {now / before:.3f}", flush=True)
    return {"conditions": conditions(), "instructions": taken}


def instructions_per_request(row: Row, server: Counted) -> float:
    run = CountedRun(row, server)
    few, many = (row_requests // (50 if row.batch_bytes == MB else 1) for row_requests in (500, 2_000))
    run.load(few)
    server.zero()
    run.load(many)
    counted = server.instructions()
    run.close()
    return counted / many


def in_turn(variants: dict[str, Variant], turn: int) -> list[str]:
    return list(variants) if turn % 2 == 0 else list(variants)[::-1]


def cpu_per_request(report: Report) -> float:
    return report["server_cpu_s"] / report["requests"]


def rate(report: Report) -> float:
    return report["requests_per_s"]


def ratios(taken: dict[str, list[Report]], figure: Callable[[Report], float]) -> str:
    pairs = sorted(figure(now) / figure(before) for before, now in zip(taken["before"], taken["now"], strict=True))
    below = order_below(len(pairs))
    return f"{statistics.median(pairs):.3f} ({pairs[below]:.3f} to {pairs[-1 - below]:.3f})"


def order_below(count: int) -> int:
    """How many of the smallest pairs lie outside the interval of the median, by the sign test."""
    tail, index = 0.0, 0
    while index < count // 2:
        tail += comb(count, index) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            break
        index += 1
    return max(0, index - 1)


if __name__ == "__main__":
    sys.exit(main())
