"""`python bench/scale.py`: the start time of an embedded broker, and the cost of many partitions and connections.

start         an embedded broker in this process, until it serves clients: median of 10, in memory and on disk
partitions    5,000 partitions, each written and read; then a clean stop and a start that finds all of them
connections   5,000 idle connections after one request each: resident memory of the broker per connection
stored        appends and fetches with 50 KB and with 20 GB of stored data, and a restart; only on request, because it
              needs the disk space and some minutes

Adds a line to bench/history.jsonl; `make bench DOCS=1` shows the newest figures.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import history
from conditions import conditions
from native import OUT
from servers import Odradek
from stored import stored, write_each
from wire import Client

API_VERSIONS = 18


def embedded_start(count: int, data: Callable[[int], Path | None]) -> list[float]:
    taken = []
    for number in range(count):
        begin = time.perf_counter()
        from odradek.testing import Embedded

        with Embedded(data=data(number)):
            taken.append(1000 * (time.perf_counter() - begin))
    return taken


def start(place: Path) -> dict[str, float]:
    first = embedded_start(1, lambda _: None)  # pays for the imports
    memory = embedded_start(10, lambda _: None)
    disk = embedded_start(10, lambda number: place / f"embedded-{number}")
    return {
        "first_of_process_ms": first[0],
        "memory_ms": statistics.median(memory),
        "disk_ms": statistics.median(disk),
        "worst_ms": max(memory + disk),
    }


def partitions(place: Path, count: int) -> dict[str, float]:
    server = Odradek(place / "partitions")
    server.start()
    try:
        server.await_ready()
        before = server.resident_mb()
        created_s = timed(lambda: server.create_topic("many", count))
        written_s = timed(lambda: write_each(server, count))
        check_ends(server, count)
        grown = server.resident_mb() - before
        stop_s = timed(server.stop)
        restart_s = timed(lambda: (server.start(), server.await_ready()))
        check_ends(server, count)
        return {
            "partitions": count,
            "create_s": created_s,
            "write_each_s": written_s,
            "kb_each": grown * 1000 / count,
            "stop_s": stop_s,
            "restart_s": restart_s,
        }
    finally:
        server.stop()


def check_ends(server: Odradek, count: int) -> None:
    with Client(server.port) as client:
        wrong = [index for index in range(count) if client.end_offset("many", index) != 1]
    if wrong:
        raise RuntimeError(f"{len(wrong)} partitions do not end at 1, the first is {wrong[0]}")


def connections(place: Path, count: int) -> dict[str, float]:
    server = Odradek(place / "connections")
    server.start()
    clients: list[Client] = []
    try:
        server.await_ready()
        open_and_ask(server, clients, 50)
        before = server.resident_mb()
        taken_s = timed(lambda: open_and_ask(server, clients, count))
        return {
            "connections": count,
            "kb_each": (server.resident_mb() - before) * 1000 / count,
            "open_and_ask_per_s": count / taken_s,
        }
    finally:
        for client in clients:
            client.close()
        server.stop()


def open_and_ask(server: Odradek, clients: list[Client], count: int) -> None:
    for _ in range(count):
        client = Client(server.port)
        client.request(API_VERSIONS, 0, b"")
        clients.append(client)


def timed(act: Callable[[], object]) -> float:
    begin = time.monotonic()
    act()
    return time.monotonic() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["start", "partitions", "connections"])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--gigabytes", type=float, default=20.0)
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="scale-", dir=OUT))
    measures: dict[str, Callable[[], dict[str, float]]] = {
        "start": lambda: start(place),
        "partitions": lambda: partitions(place, options.count),
        "connections": lambda: connections(place, options.count),
        "stored": lambda: stored(place, options.gigabytes, options.count),
    }
    results = {}
    try:
        for name in options.what:
            results[name] = {key: round(value, 3) for key, value in measures[name]().items()}
            print(f"{name}: " + ", ".join(f"{key} {value:g}" for key, value in results[name].items()), flush=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    history.keep({"conditions": conditions(), "rows": {}, "scale": results, "failures": []})
    return 0


if __name__ == "__main__":
    sys.exit(main())
