"""`python bench/scrape.py`: how long a scrape of a node with 5,000 partitions holds up its clients.

A client sends a small request each millisecond and notes how long the reply takes, by turns with and without a scraper
that asks for /metrics again and again. On a machine with other work the largest times are those of the machine, with
and without scrapes: compare the two. --partition-metrics adds the metrics of single partitions, 55,000 series.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from conditions import conditions
from native import OUT
from servers import Odradek, free_port
from wire import Client

TOPICS, PARTITIONS = 50, 100
API_VERSIONS = 18
EVERY_S = 0.001
SCRAPER = """
import sys, time, urllib.request
while True:
    began = time.monotonic()
    with urllib.request.urlopen(sys.argv[1]) as answer:
        size = len(answer.read())
    print(size, time.monotonic() - began, flush=True)
"""


class Observed(Odradek):
    def __init__(self, directory: Path, settings: list[str]) -> None:
        super().__init__(directory)
        self.http = f"127.0.0.1:{free_port()}"
        self._settings = [f"http.listener={self.http}", *settings]

    def command(self, node_id: int) -> list[str]:
        return [*super().command(node_id), *(f"--config={setting}" for setting in self._settings)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of one turn")
    parser.add_argument("--turns", type=int, default=4, help="with and without scrapes, each")
    parser.add_argument("--partition-metrics", action="store_true")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scrape-", dir=OUT) as place:
        settings = ["metrics.partitions.enable=true"] if options.partition_metrics else []
        server = Observed(Path(place) / "data", settings)
        server.start()
        try:
            server.await_ready()
            for number in range(TOPICS):
                server.create_topic(f"t{number}", PARTITIONS)
            measure(server, options.turns, options.seconds)
        finally:
            server.stop()
    print(conditions())
    return 0


def measure(server: Observed, turns: int, seconds: float) -> None:
    url = f"http://{server.http}/metrics"
    taken: dict[str, list[float]] = {"without scrapes": [], "with scrapes": []}
    scrapes: list[tuple[int, float]] = []
    for _ in range(turns):
        taken["without scrapes"] += replies(server.port, seconds)
        with scraped(url, scrapes):
            taken["with scrapes"] += replies(server.port, seconds)
    sizes, times = zip(*scrapes, strict=True)
    print(f"{len(scrapes)} scrapes of {max(sizes):,} bytes, {sum(times) / len(times):.2f} s each")
    for name, each in taken.items():
        each.sort()
        shares = " ".join(f"p{100 * share:g} {1000 * each[int(share * len(each))]:.2f}" for share in (0.5, 0.99, 0.999))
        print(f"{name}: {len(each)} requests, ms: {shares} max {1000 * each[-1]:.2f}")


def replies(port: int, seconds: float) -> list[float]:
    taken = []
    with Client(port) as client:
        due = time.monotonic()
        end = due + seconds
        while due < end:
            began = time.perf_counter()
            client.request(API_VERSIONS, 0, b"")
            taken.append(time.perf_counter() - began)
            due = max(due + EVERY_S, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
    return taken


@contextlib.contextmanager
def scraped(url: str, scrapes: list[tuple[int, float]]) -> Iterator[None]:
    scraper = subprocess.Popen([sys.executable, "-c", SCRAPER, url], stdout=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        scraper.terminate()
        told, _ = scraper.communicate()
        scrapes += [(int(size), float(took_s)) for size, took_s in map(str.split, told.splitlines())]


if __name__ == "__main__":
    sys.exit(main())
