"""The console against many topics and groups: how fast pages are, how old their data is, what the console costs.

    python bench/console_load.py [--topics N] [--groups N] [--nodes N] [--seconds N]

Commits offsets for each group in one of the topics, writes to a tenth of the topics, and starts the console.
Then it requests pages one after another. The age is the time between the answer and the reading that it shows.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from conditions import commit as commit_id
from conditions import date, machine
from confluent_kafka import Producer

from odradek.client.admin import Admin
from odradek.testing import Embedded

TOPICS_PER_REQUEST = 250
PAGES = ("/", "/topics", "/groups", "/groups?sort=-lag&page=3", "/brokers")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAUSE_S = 0.25
BASE_S, REQUESTS = 10.0, 50


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as directory, Embedded(brokers=options.nodes, data=Path(directory)) as cluster:
        bootstrap = cluster.bootstrap_servers
        names = [f"topic-{number:05}" for number in range(options.topics)]
        _fill(bootstrap, names, options.groups)
        over = threading.Event()
        writer = threading.Thread(target=_write, args=[bootstrap, names[::10], over])
        writer.start()
        try:
            _measure(bootstrap, options.seconds, options.topics, options.groups)
        finally:
            over.set()
            writer.join()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=5_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40.0)
    return parser.parse_args()


def _fill(bootstrap: str, names: Sequence[str], groups: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    began_s = time.monotonic()
    client = AdminClient({"bootstrap.servers": bootstrap})
    for first in range(0, len(names), TOPICS_PER_REQUEST):
        wanted = [NewTopic(name, 1, 1) for name in names[first : first + TOPICS_PER_REQUEST]]
        for done in client.create_topics(wanted, request_timeout=120).values():
            done.result()
    admin = Admin(bootstrap)
    for number in range(groups):
        admin.set_committed(f"group-{number:05}", {(names[number % len(names)], 0): 0})
    print(f"{len(names):,} topics and {groups:,} groups made in {time.monotonic() - began_s:.0f} s", flush=True)


def _write(bootstrap: str, names: Sequence[str], over: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    while not over.wait(1.0):
        for name in names:
            producer.produce(name, b"x" * 100)
            producer.poll(0)
    producer.flush(10)


def _measure(bootstrap: str, seconds: float, topics: int, groups: int) -> None:
    command = [sys.executable, "-m", "odradek.cli", "console", "-b", bootstrap, "--port", "0"]
    console = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        began_s = time.monotonic()
        url = re.search(r"http://\S+", console.stdout.readline() if console.stdout else "")[0].rstrip("/")
        while f"{topics:,}" not in _get(f"{url}/")[1] and time.monotonic() - began_s < 120:
            time.sleep(PAUSE_S)
        print(f"the overview is complete {time.monotonic() - began_s:.1f} s after the start", flush=True)
        _settle(url, groups)
        _pages(url, console.pid, seconds)
    finally:
        console.terminate()
        console.wait()
    print(f"{date()}, {commit_id()}, {machine()}")


def _settle(url: str, groups: int) -> None:
    """The commits of all groups have been read."""
    deadline_s = time.monotonic() + 120
    while "OK" not in _get(f"{url}/groups?q=group-{groups - 1:05}")[1] and time.monotonic() < deadline_s:
        time.sleep(PAUSE_S)


def _pages(url: str, pid: int, seconds: float) -> None:
    took: dict[str, list[float]] = {page: [] for page in PAGES}
    ages: list[float] = []
    began_s = time.monotonic()
    while time.monotonic() - began_s < seconds:
        for page in PAGES:
            asked_s = time.monotonic()
            _, text = _get(url + page)
            took[page].append(time.monotonic() - asked_s)
            ages.append(time.time() - int(re.search(r'data-at="(\d+)"', text)[1]) / 1000)
            time.sleep(PAUSE_S)
    for page, times in took.items():
        worst = sorted(times)[int(len(times) * 0.95)]
        print(f"{page:32} median {statistics.median(times) * 1000:5.0f} ms, 95 % {worst * 1000:5.0f} ms")
    print(f"age of the data: median {statistics.median(ages):.1f} s, at most {max(ages):.1f} s")
    idle_share = _cpu_share(pid, BASE_S)
    cpu_s, began_s = _cpu_s(pid), time.monotonic()
    for _ in range(REQUESTS):
        _get(f"{url}/")
    of_pages_s = max(_cpu_s(pid) - cpu_s - idle_share * (time.monotonic() - began_s), 0.0)
    print(f"CPU: one overview {of_pages_s / REQUESTS * 1000:.0f} ms; without requests {idle_share:.0%} of a core")
    print(f"memory: {_resident_bytes(pid) / 2**20:.0f} MB")


def _get(url: str) -> tuple[int, str]:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"accept": "text/html"}), timeout=60) as answer:
        return answer.status, answer.read().decode()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _cpu_share(pid: int, seconds: float) -> float:
    cpu_s, began_s = _cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return (_cpu_s(pid) - cpu_s) / (time.monotonic() - began_s)


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


main()
