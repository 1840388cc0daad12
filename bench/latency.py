"""Measures the latency of the trucking demo's results, their cost, and where the time is spent.

    PYTHONPATH=src python bench/latency.py --seconds 300 --json out.json --plot out.svg

Runs the application of `odradek demo trucking` with the demo's own processes and options, without the page. Latency is
measured from event time to the moment at which the broker appended the marker of the result's transaction, or the
result if it has none (the output topics use LogAppendTime).
It measures the source tree in PYTHONPATH. DOCS=1 also rewrites its part of docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import conditions
import flight
import history
import latency_plot
import spark_progress
from processes import CpuWatch, Process, processes, thread_groups
from report import table, write_part
from trucking_latency import MEANING, Latency, by_period, figures, latencies
from trucking_scene import Interrupted, Scene

import odradek
from odradek.demo.trucking import show, topics
from odradek.demo.trucking.truth import milliseconds

BEGIN, END = "<!-- latency: begin -->", "<!-- latency: end -->"
MINUTE_MS = 60_000
THREADS_SHOWN = 12
KINDS = ("java", "workers", "source runner", "driver", "broker", "bench")


def main() -> int:
    options = parsed()
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    folder = Path(tempfile.mkdtemp(prefix="odradek-latency-"))
    try:
        results = measured(options, folder, stopping)
    except Interrupted:
        print("interrupted: everything is stopped", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(told(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.keep:
        history.keep(kept(results))
    if options.docs:
        write_part(BEGIN, END, markdown(results))
    if options.jfr:
        print(flight.report(options.jfr))
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300, help="duration, from the start of the application")
    parser.add_argument("--trucks", type=int, default=30)
    parser.add_argument("--events-per-s", type=float, default=1.0, help="positions per truck; each has a speed")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="Spark setting, highest precedence"
    )
    parser.add_argument("--delivery", choices=["exactly-once", "at-least-once"], help="the default: exactly once")
    parser.add_argument("--java-options", metavar="=OPTIONS", help=f"instead of the demo's {show.QUICK_JAVA}")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw latency over the first five minutes")
    parser.add_argument("--jfr", type=Path, metavar="FILE.jfr", help="record the JVM and print its busiest stacks")
    parser.add_argument("--keep", action="store_true", help="add a line to bench/history.jsonl")
    parser.add_argument("--docs", action="store_true", default=os.environ.get("DOCS", "") not in ("", "0"))
    options = parser.parse_args()
    if any("=" not in one for one in options.conf):
        parser.error("--conf takes key=value")
    if options.plot and options.plot.suffix != ".svg":
        parser.error("--plot writes SVG: name the file something.svg")
    if options.jfr:
        options.jfr = options.jfr.absolute()
    return options


def measured(options: argparse.Namespace, folder: Path, stopping: threading.Event) -> dict[str, Any]:
    wishes = show.Wishes(
        duration_s=options.seconds, port=0, page_port=0, trucks=options.trucks, events_per_s=options.events_per_s
    )
    scene = Scene(wishes, folder, stopping)
    if options.java_options is not None:
        scene.set_java_options(options.java_options)
    if options.jfr:
        scene.add_java_options(flight.JAVA_OPTION)
    if options.conf or options.delivery:
        scene.set_application(dict(one.split("=", 1) for one in options.conf), options.delivery)
    print(f"measuring {Path(odradek.__file__).parent}\n{scene.described()}", flush=True)
    watch = CpuWatch(lambda process: kind_of(process, scene))
    threads: dict[str, float] = {}
    try:
        scene.start()
        watch.start()
        scene.run(options.seconds)
        threads = dict(java_threads(scene, options.jfr))
        watch.stop()
    finally:
        scene.shut()
    found = latencies(positions(scene), scene.results)
    if options.plot:
        periods = by_period(found, scene.started_ms, latency_plot.PERIOD_MS)
        options.plot.write_text(latency_plot.svg(periods, "event to result, median of every 5 s, since the start"))
    return collected(scene, watch, found, threads)


def positions(scene: Scene) -> list[tuple[int, int]]:
    found = []
    for record in scene.sent:
        if record.topic == topics.POSITIONS:
            try:
                event = json.loads(record.value)
            except ValueError:  # the fleet sends some truncated records
                continue
            found.append((event["driverId"], milliseconds(event["eventTime"])))
    return found


def kind_of(process: Process, scene: Scene) -> str | None:
    if process.pid == os.getpid():
        return "bench"
    if process.session == scene.broker_session:
        return "broker"
    if process.session != scene.application_session:
        return None
    if Path(process.command.split(" ", 1)[0]).name == "java":
        return "java"
    if "source_runner" in process.command:
        return "source runner"
    if "daemon" in process.command or "pyspark.worker" in process.command:
        return "workers"
    return "driver"


def java_threads(scene: Scene, recording: Path | None) -> list[tuple[str, float]]:
    """CPU of the JVM's threads, and its flight recording, while the JVM is running."""
    for process in processes():
        if kind_of(process, scene) == "java":
            if recording:
                flight.dump(process.pid, recording)
            return thread_groups(process.pid).most_common(THREADS_SHOWN)
    return []


def collected(scene: Scene, watch: CpuWatch, found: list[Latency], threads: dict[str, float]) -> dict[str, Any]:
    minutes = by_period(found, scene.started_ms, MINUTE_MS)
    progress = spark_progress.read(scene.folder)
    started, end = scene.started_ms / 1000, watch.samples[-1].at
    live = started + (scene.live_s or 0)
    steady_from = live + (end - live) / 2
    steady = [one for one in progress if milliseconds(one["timestamp"]) / 1000 >= steady_from]
    return {
        "conditions": {
            "date": conditions.date(),
            "commit": conditions.commit(Path(odradek.__file__).parent),
            "machine": conditions.machine(),
            "java": conditions.java_version(),
        },
        "application": scene.described(),
        "seconds": end - started,
        "live_s": scene.live_s,
        "first_record_s": scene.written_s,
        "latency_s": {
            row: {str(minute): figures(values) for minute, values in sorted(of.items())} for row, of in minutes.items()
        },
        "cpu_s": {kind: watch.samples[-1].cpu.get(kind, 0.0) for kind in KINDS},
        "cpu_s_until_live": {kind: cores * (live - started) for kind, cores in watch.cores(started, live).items()},
        "steady_from_s": steady_from - started,
        "steady_cores": watch.cores(steady_from),
        "rss_max_mb": watch.rss_max_bytes(*KINDS) / 1e6,
        "java_threads_cpu_s": threads,
        "batches": {name: spark_progress.summary(of) for name, of in spark_progress.by_query(progress).items()},
        "batches_steady": {name: spark_progress.summary(of) for name, of in spark_progress.by_query(steady).items()},
    }


def told(results: dict[str, Any]) -> str:
    live = results["live_s"]
    first = ", ".join(f"{topic} {seconds:.1f}" for topic, seconds in sorted(results["first_record_s"].items()))
    since = f"{results['steady_from_s']:.0f} s"
    return "\n\n".join(
        [
            f"live after {live:.1f} s" if live else "not live: a steady topic was never written",
            f"first record, seconds after the start of the application: {first}",
            latency_table(results["latency_s"]),
            "\n".join(f"{row}: {meaning}" for row, meaning in MEANING.items()),
            cpu_table(results, since),
            "busiest threads of the JVM, CPU s: "
            + ", ".join(f"{name} {used:.1f}" for name, used in results["java_threads_cpu_s"].items()),
            f"micro-batches since {since}, medians in ms\n{batch_table(results['batches_steady'])}",
        ]
    )


def markdown(results: dict[str, Any]) -> str:
    said = results["conditions"]
    live = f"live after {results['live_s']:.1f} s" if results["live_s"] else "never live"
    return "\n\n".join(
        [
            f"`python bench/latency.py`, {said['date']}, commit {said['commit']}; {said['machine']}, "
            f"Java {said['java']}.",
            f"The application was {live}. All processes together had {results['rss_max_mb']:,.0f} MB at most.",
            latency_table(results["latency_s"]),
            cpu_table(results, f"{results['steady_from_s']:.0f} s"),
            "Micro-batches of that time, medians in ms:\n\n" + batch_table(results["batches_steady"]),
        ]
    )


def kept(results: dict[str, Any]) -> dict[str, Any]:
    """A line of the history: the last complete minute of each topic, and the cost of the steady state."""
    minute = str(max(0, int(results["seconds"] // 60) - 1))
    latency = {
        f"{row} {name}_s": of[minute][name]
        for row, of in results["latency_s"].items()
        for name in ("p50", "p90", "max")
        if minute in of
    }
    costs = {f"{kind}_cores": cores for kind, cores in results["steady_cores"].items()}
    row = {"minute": float(minute) + 1, "live_s": results["live_s"] or 0.0, "rss_mb": results["rss_max_mb"]}
    medians = history.rounded({"odradek": {**row, **latency, **costs}})
    rows = {"demo-latency": medians}
    return {"bench": "latency", "conditions": results["conditions"], "rows": rows, "failures": []}


def latency_table(latency: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = [
        [row, f"{int(minute) + 1}", f"{of['n']:,}", *(f"{of[name]:.2f}" for name in ("p50", "p90", "max"))]
        for row, minutes in latency.items()
        for minute, of in minutes.items()
    ]
    lines += [[row, "", "0", "none", "", ""] for row, minutes in latency.items() if not minutes]
    return table(["output, s", "minute", "events", "p50", "p90", "max"], lines)


def cpu_table(results: dict[str, Any], since: str) -> str:
    used, steady = results["cpu_s"], results["steady_cores"]
    lines = [[kind, f"{used[kind]:.1f}", f"{steady.get(kind, 0):.2f}"] for kind in KINDS]
    lines.append(["all of these", f"{sum(used.values()):.1f}", f"{sum(steady.get(kind, 0) for kind in KINDS):.2f}"])
    lines.append(["others on this machine", "", f"{steady.get('others', 0):.2f}"])
    return table(["process", f"CPU s in {results['seconds']:.0f} s", f"cores since {since}"], lines)


def batch_table(batches: dict[str, dict[str, float]]) -> str:
    if not batches:
        return "none"
    names = list(next(iter(batches.values())))
    return table(["query", *names], [[query, *(f"{of[name]:.0f}" for name in names)] for query, of in batches.items()])


if __name__ == "__main__":
    sys.exit(main())
