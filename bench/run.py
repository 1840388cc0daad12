"""`make bench`: Odradek beside the raw limit and beside Apache Kafka, by turns, on one machine, with one client.

    make bench                       everything, about eight minutes
    make bench QUICK=1               fewer and shorter runs, under two minutes
    make bench ROWS='small-* fetch*' some rows
    make bench DOCS=1                also rewrites docs/performance.md

Writes bench/out/results.json, results.md and ratios.svg. Needs gcc, Java 17 and Maven.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import report
from apache_kafka import ApacheKafka
from conditions import conditions
from kafka_jars import jars
from measure import QuietMoments, Report, RowRun, start_to_first_acknowledged_s, warm_up
from native import OUT, compiled
from rows import ROWS, Row
from servers import Limit, Odradek, Server

SERVERS: dict[str, type[Server]] = {"odradek": Odradek, "kafka": ApacheKafka, "limit": Limit}


def main() -> int:
    options = parse_options()
    for name in ("loadgen", "limit"):
        compiled(name)
    if "kafka" in options.servers:
        jars()
    OUT.mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="data-", dir=OUT))
    try:
        results = measure_everything(options, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    (OUT / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    text = report.markdown(results)
    (OUT / "results.md").write_text(text)
    (OUT / "ratios.svg").write_text(report.svg(results))
    print("\n" + text)
    if options.docs:
        report.write_docs(results)
    return 1 if results["failures"] else 0


def parse_options() -> argparse.Namespace:
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=os.environ.get("ROWS", "*"), help="names with wildcards, blank between them")
    parser.add_argument("--servers", default=os.environ.get("SERVERS", "odradek kafka limit"))
    parser.add_argument("--turns", type=int, default=int(os.environ.get("TURNS", "2" if quick else "5")))
    parser.add_argument("--seconds", type=float, default=0.4 if quick else 1.0, help="of one run")
    parser.add_argument("--warm-up", type=float, default=4.0 if quick else 24.0, help="seconds, for each server")
    parser.add_argument("--starts", type=int, default=1 if quick else 3)
    parser.add_argument(
        "--patience", type=float, default=3.0 if quick else 60.0, help="seconds to wait for quiet, in all"
    )
    parser.add_argument("--docs", action="store_true", default=os.environ.get("DOCS", "") not in ("", "0"))
    options = parser.parse_args()
    options.servers = options.servers.split()
    options.rows = [row for row in ROWS if any(fnmatch.fnmatch(row.key, glob) for glob in options.rows.split())]
    return options


def measure_everything(options: argparse.Namespace, place: Path) -> dict[str, Any]:
    results: dict[str, Any] = {"conditions": conditions(), "rows": {}, "start_s": {}, "resident_mb": {}, "failures": []}
    quiet = QuietMoments(options.patience)
    results["start_s"] = measure_starts(options, place, quiet)
    running = {name: SERVERS[name](place / name) for name in options.servers}
    try:
        for name, server in running.items():
            server.start()
            if name != "limit":
                server.await_ready()
        idle = {name: server.resident_mb() for name, server in running.items()}
        for name, server in running.items():
            if name != "limit":
                say(f"warming up {server.name}")
                warm_up(server, options.warm_up)
        for row in options.rows:
            try:
                results["rows"][row.key] = measure_row(row, running, options, quiet)
            except RuntimeError as failure:
                say(f"{row.key}: FAILED: {failure}")
                results["failures"].append(f"{row.key}: {failure}")
        results["resident_mb"] = {
            name: {"idle": idle[name], "loaded": server.resident_mb()} for name, server in running.items()
        }
    finally:
        for server in running.values():
            server.stop()
    return results


def measure_starts(options: argparse.Namespace, place: Path, quiet: QuietMoments) -> dict[str, list[float]]:
    names = [name for name in options.servers if name != "limit"]
    taken: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(options.starts):
        for name in names:
            server = SERVERS[name](place / f"start-{name}-{turn}")
            if isinstance(server, ApacheKafka):
                server.format()
            quiet.wait()
            try:
                taken[name].append(start_to_first_acknowledged_s(server))
            finally:
                server.stop()
                server.wipe()
    say(
        "start to first acknowledged record: "
        + ", ".join(f"{n} {statistics.median(t):.2f} s" for n, t in taken.items())
    )
    return taken


def measure_row(
    row: Row, running: dict[str, Server], options: argparse.Namespace, quiet: QuietMoments
) -> dict[str, Any]:
    runs = {name: RowRun(row, server, options.seconds) for name, server in running.items() if takes_part(row, name)}
    reports: dict[str, list[Report]] = {name: [] for name in runs}
    for turn in range(options.turns):
        for name in alternating(runs, turn):
            reports[name].append(quiet.measured(runs[name]))
    for run in runs.values():
        run.close()
    medians = {name: median_report(taken) for name, taken in reports.items()}
    say(f"{row.key}: " + ", ".join(f"{name} {report.figure(row, medians[name])}" for name in medians))
    return {"runs": reports, "median": medians}


def takes_part(row: Row, name: str) -> bool:
    return name == "odradek" or (row.kafka if name == "kafka" else row.prototype is not None)


def alternating(names: Iterable[str], turn: int) -> list[str]:
    """A/B, B/A, A/B: nobody always runs after the same neighbour."""
    return list(names) if turn % 2 == 0 else list(names)[::-1]


def median_report(taken: list[Report]) -> Report:
    result = {key: statistics.median(one[key] for one in taken) for key in taken[0]}
    result["cpu_us_per_request"] = statistics.median(1e6 * one["server_cpu_s"] / one["requests"] for one in taken)
    result["cpu_s_per_gb"] = statistics.median(1e9 * one["server_cpu_s"] / one["bytes"] for one in taken)
    return result


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
