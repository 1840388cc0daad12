"""Measures how fast a view loads a million keys, its memory, its response time, and its restart.

    python bench/views.py [--keys 1000000] [--value-bytes 100]

Prints one JSON document. Keys come in random order, as they would from a real changelog.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from confluent_kafka import Producer

from odradek.client.admin import Cluster
from odradek.streams.run.views import View
from odradek.streams.run.views.http import view_routes
from odradek.testing import Embedded
from odradek.web.application import application
from odradek.web.server import HttpServer

TOPIC = "bench-changelog"
LOOKUPS = 20_000


def fill(bootstrap: str, keys: int, value_bytes: int) -> float:
    Cluster(bootstrap).create_topic(TOPIC, 4, {"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000})
    order = list(range(keys))
    random.Random(7).shuffle(order)
    value = json.dumps({"padding": "x" * (value_bytes - 14)})
    started = time.perf_counter()
    for number in order:
        while True:
            try:
                producer.produce(TOPIC, key=key_of(number), value=value)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return time.perf_counter() - started


def key_of(number: int) -> str:
    return f"driver-{number:09}"


def lookups_us(ask, keys: int) -> dict[str, float]:
    chooser, took = random.Random(8), []
    for _ in range(LOOKUPS):
        key = key_of(chooser.randrange(keys))
        started = time.perf_counter_ns()
        answer = ask(key)
        took.append((time.perf_counter_ns() - started) / 1000)
        if answer is None:
            sys.exit(f"{key} is missing")
    took.sort()
    return {
        "median_us": round(took[len(took) // 2], 1),
        "p99_us": round(took[len(took) * 99 // 100], 1),
        "max_us": round(took[-1], 1),
    }


def peak_memory_mb() -> int:
    """The peak memory of this program only: ru_maxrss would include that of the parent."""
    status = Path("/proc/self/status").read_text()
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1024)


def measure(bootstrap: str, path: Path, keys: int) -> dict[str, object]:
    """Runs in a separate process, so that its memory is the memory of the view."""
    before_mb = peak_memory_mb()
    started = time.perf_counter()
    with View(bootstrap, TOPIC, path, name="bench") as view:
        view.wait_caught_up(600)
        ready_s = time.perf_counter() - started
        figures: dict[str, object] = {
            "ready_s": round(ready_s, 2),
            "ready_cpu_s": round(time.process_time(), 2),
            "peak_memory_mb": peak_memory_mb(),
            "of_which_before_mb": before_mb,
            "store_mb": round(path.stat().st_size / 1e6),
            "get": lookups_us(view.get, keys),
        }
        started = time.perf_counter()
        figures["rows"] = view.count()
        figures["count_ms"] = round(1000 * (time.perf_counter() - started), 1)
        started = time.perf_counter()
        scanned = sum(1 for _ in view.scan("driver-0000001"))
        figures["scan_rows_per_s"] = round(scanned / (time.perf_counter() - started))
        with HttpServer(application(view_routes([view]))) as server, httpx.Client() as client:
            url = f"{server.url}/views/bench"
            figures["http_get"] = lookups_us(lambda key: client.get(f"{url}/{key}").raise_for_status(), keys)
    return figures


def in_own_process(*arguments: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE)
    figures: dict[str, object] = json.loads(done.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--measure", nargs=2, metavar=("BOOTSTRAP", "STORE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure[0], Path(options.measure[1]), options.keys)))
        return
    with tempfile.TemporaryDirectory() as folder, Embedded(data=Path(folder) / "broker") as broker:
        produced_s = fill(broker.bootstrap_servers, options.keys, options.value_bytes)
        again = ("--keys", str(options.keys), "--measure", broker.bootstrap_servers, str(Path(folder) / "view.db"))
        report = {
            "keys": options.keys,
            "value_bytes": options.value_bytes,
            "produced_s": round(produced_s, 2),
            "first_start": in_own_process(*again),
            "restart": in_own_process(*again),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
