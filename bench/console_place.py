"""Where the console should run: in a thread of the broker's process, or in a process of its own.

    python bench/console_place.py [--topics N] [--seconds N] [--rounds N]

One producer sends one small record after another, and waits for each acknowledgement. Meanwhile a browser's worth of
requests reads the overview once a second. Compares a broker without a console, with one in its process, and with one
beside it, in turns.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from conditions import commit as commit_id
from conditions import date, machine
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PLACES = ("none", "thread", "process")
TOPICS_PER_REQUEST = 250
# `odradek up`, with a console on threads of the same process.
TOGETHER = """
import sys, threading
from odradek.cli import up
from odradek.cli.console_process import ConsoleProcess
def start(self, bootstrap):
    def serve():
        from odradek.console.service import running
        from odradek.console.settings import ConsoleSettings
        with running(ConsoleSettings(bootstrap=bootstrap, port=0)) as (_, server):
            print(f"Console: {server.url}/", flush=True)
            threading.Event().wait()
    threading.Thread(target=serve, daemon=True).start()
ConsoleProcess.start = start
up.command(["--memory", "--port", "0", "--console"])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    times: dict[str, list[float]] = {place: [] for place in PLACES}
    for _ in range(options.rounds):
        for place in PLACES:
            times[place] += _round(place, options.topics, options.seconds)
    for place, took in times.items():
        took.sort()
        print(
            f"console: {place:8} {len(took) / options.seconds / options.rounds:6.0f} records/s, "
            f"median {statistics.median(took) * 1000:.2f} ms, 99 % {took[int(len(took) * 0.99)] * 1000:.1f} ms, "
            f"99.9 % {took[int(len(took) * 0.999)] * 1000:.1f} ms"
        )
    print(f"{date()}, {commit_id()}, {machine()}")


@contextmanager
def _broker(place: str) -> Iterator[tuple[str, str | None]]:
    start = [sys.executable, "-c", TOGETHER] if place == "thread" else [sys.executable, "-m", "odradek.cli", "up"]
    flags = [] if place == "thread" else ["--memory", "--port", "0"]
    flags += {"none": ["--no-console"], "process": ["--console-port", "0"], "thread": []}[place]
    process = subprocess.Popen(
        [*start, *flags], stdout=subprocess.PIPE, text=True, env={**os.environ, "ODRADEK_CONSOLE": "1"}
    )
    try:
        bootstrap, url = "", None
        for line in process.stdout or ():
            if found := re.search(r"ready on (\S+),", line):
                bootstrap = found[1]
            if found := re.search(r"Console: (\S+)", line):
                url = found[1]
            if bootstrap and (url or (place == "none" and "Metrics" in line)):
                break
        yield bootstrap, url
    finally:
        process.terminate()
        process.communicate()


def _round(place: str, topics: int, seconds: float) -> list[float]:
    with _broker(place) as (bootstrap, url):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for first in range(0, topics, TOPICS_PER_REQUEST):
            names = [f"topic-{number}" for number in range(first, min(first + TOPICS_PER_REQUEST, topics))]
            for done in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
                done.result()
        over = threading.Event()
        reader = threading.Thread(target=_read, args=[url, over])
        reader.start()
        try:
            return _send(bootstrap, seconds)
        finally:
            over.set()
            reader.join()


def _read(url: str | None, over: threading.Event) -> None:
    while url is not None and not over.wait(1.0):
        with urllib.request.urlopen(url, timeout=30) as answer:
            answer.read()


def _send(bootstrap: str, seconds: float) -> list[float]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1})
    took: list[float] = []
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        began_s = time.monotonic()
        producer.produce("topic-0", b"x" * 100)
        producer.flush()
        took.append(time.monotonic() - began_s)
    return took


main()
