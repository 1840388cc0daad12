"""`make bench`: compares Odradek with the raw limit and with Apache Kafka, by turns, on one machine, with one client.

    make bench                       everything, about sixteen minutes
    make bench QUICK=1               fewer and shorter runs, under five minutes
    make bench ROWS='small-* fetch*' some rows; starts and memory are rows too
    make bench DOCS=1                also rewrites docs/performance.md, with the newest of each row
    make bench DOCS=1 ROWS=none      only that

Writes bench/out/results.json, results.md and ratios.svg, and adds a line to bench/history.jsonl unless the run was a
quick one. Needs gcc, Java 17 and Maven.
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

import history
import report
from apache_kafka import ApacheKafka
from conditions import conditions
from kafka_jars import jars
from measure import QuietMoments, Report, RowRun, start_to_first_acknowledged_s, warm_up
from native import OUT, compiled
from rows import ROWS, Row
from servers import Limit, Odradek, Server

COSTS = (
    ("cpu_us_per_request", "requests", 1e6),
    ("cpu_s_per_gb", "bytes", 1e9),
)
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
    taken = history.entry(results)
    if results["rows"] and not options.quick:
        history.keep(taken)
    text = report.markdown(history.newest([taken]))
    (OUT / "results.md").write_text(text)
    (OUT / "ratios.svg").write_text(report.svg(history.newest([taken])))
    print("\n" + text)
    if options.docs:
        report.write_docs(history.newest(history.kept()))
    return 1 if results["failures"] else 0


def parse_options() -> argparse.Namespace:
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=os.environ.get("ROWS", "*"), help="names with wildcards, separated by blanks")
    parser.add_argument("--servers", default=os.environ.get("SERVERS", "odradek kafka limit"))
    parser.add_argument("--turns", type=int, default=int(os.environ.get("TURNS", "2" if quick else "5")))
    parser.add_argument("--seconds", type=float, default=0.4 if quick else 1.0, help="seconds of one run")
    parser.add_argument("--warm-up", type=float, default=4.0 if quick else 24.0, help="seconds, for each node")
    parser.add_argument("--starts", type=int, default=1 if quick else 3)
    parser.add_argument(
        "--patience", type=float, default=3.0 if quick else 60.0, help="total seconds to wait for an idle machine"
    )
    parser.add_argument("--docs", action="store_true", default=os.environ.get("DOCS", "") not in ("", "0"))
    options = parser.parse_args()
    options.quick = quick
    options.servers = options.servers.split()
    options.globs = options.rows.split()
    options.rows = [row for row in ROWS if is_wanted(row.key, options)]
    return options


def is_wanted(key: str, options: argparse.Namespace) -> bool:
    return any(fnmatch.fnmatch(key, glob) for glob in options.globs)


def measure_everything(options: argparse.Namespace, place: Path) -> dict[str, Any]:
    results: dict[str, Any] = {"conditions": conditions(), "rows": {}, "failures": []}
    quiet = QuietMoments(options.patience)
    if is_wanted("start", options):
        results["rows"]["start"] = measure_starts(options, place, quiet)
    for nodes in sorted({row.nodes for row in options.rows}):
        measure_together(nodes, options, place, quiet, results)
    return results


def measure_together(
    nodes: int, options: argparse.Namespace, place: Path, quiet: QuietMoments, results: dict[str, Any]
) -> None:
    """All rows for servers with this number of nodes, which run side by side."""
    rows = [row for row in options.rows if row.nodes == nodes]
    names = [name for name in options.servers if any(takes_part(row, name) for row in rows)]
    running = {name: SERVERS[name](place / f"{name}-{nodes}", nodes) for name in names}
    try:
        for server in running.values():
            server.start()
            server.await_ready()
        idle = {name: server.resident_mb() for name, server in running.items()}
        if any(row.mode != "failover" for row in rows):
            warm_up_all(running, options.warm_up * nodes)
        for row in rows:
            try:
                results["rows"][row.key] = measure_row(row, running, options, quiet)
            except RuntimeError as failure:
                say(f"{row.key}: FAILED: {failure}")
                results["failures"].append(f"{row.key}: {failure}")
        if nodes == 1 and is_wanted("memory", options):
            results["rows"]["memory-idle"] = {"median": {name: {"mb": idle[name]} for name in running}}
            most = {name: {"mb": server.resident_mb("VmHWM")} for name, server in running.items()}
            results["rows"]["memory-loaded"] = {"median": most}
    finally:
        for server in running.values():
            server.stop()
            server.wipe()


def warm_up_all(running: dict[str, Server], seconds: float) -> None:
    for server in running.values():
        if server.warm_up_share:
            say(f"warming up {server.name}")
            warm_up(server, seconds * server.warm_up_share)


def measure_starts(options: argparse.Namespace, place: Path, quiet: QuietMoments) -> dict[str, Any]:
    reports: dict[str, list[Report]] = {name: [] for name in options.servers if name != "limit"}
    for turn in range(options.starts):
        for name, taken in reports.items():
            server = SERVERS[name](place / f"start-{name}-{turn}")
            quiet.wait()
            try:
                taken.append({"start_s": start_to_first_acknowledged_s(server)})
            finally:
                server.stop()
                server.wipe()
    medians = {name: median_report(taken) for name, taken in reports.items()}
    say("start to first acknowledged record: " + ", ".join(f"{n} {m['start_s']:.2f} s" for n, m in medians.items()))
    return {"runs": reports, "median": medians}


def measure_row(
    row: Row, running: dict[str, Server], options: argparse.Namespace, quiet: QuietMoments
) -> dict[str, Any]:
    runs = {name: RowRun(row, server, options.seconds) for name, server in running.items() if takes_part(row, name)}
    reports: dict[str, list[Report]] = {name: [] for name in runs}
    for turn in range(options.starts if row.mode == "failover" else options.turns):
        for name in alternating(runs, turn):
            reports[name].append(quiet.measured(runs[name]))
    for run in runs.values():
        run.close()
    medians = {name: median_report(taken) for name, taken in reports.items()}
    say(f"{row.key}: " + ", ".join(f"{name} {report.figure(row, medians[name])}" for name in medians))
    return {"runs": reports, "median": medians}


def takes_part(row: Row, name: str) -> bool:
    return row.prototype is not None if name == "limit" else name == "odradek" or row.kafka


def alternating(names: Iterable[str], turn: int) -> list[str]:
    """A/B, B/A, A/B: no server always runs after the same other server."""
    return list(names) if turn % 2 == 0 else list(names)[::-1]


def median_report(taken: list[Report]) -> Report:
    result = {key: statistics.median(one[key] for one in taken) for key in taken[0]}
    if "server_cpu_s" in result:
        for name, per, scale in COSTS:
            result[name] = statistics.median(scale * one["server_cpu_s"] / one[per] for one in taken)
    return result


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
