"""The cost of `odradek monitor`: CPU and memory for 1,000 groups of 100 partitions that commit all the time.

    python bench/lag.py [--groups N] [--partitions N] [--every SECONDS] [--seconds N] [--behind SHARE]

The groups share 50 topics. Each commits all its partitions in one request, every five seconds, as consumers do by
default: 20,000 offsets a second. A share of the groups is behind, so that Burrow's rules are evaluated for them. The
monitor first reads a backlog that fills all windows. Then its CPU time is measured while /metrics is scraped every 15
seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from commits import FIND_COORDINATOR, OFFSET_COMMIT
from conditions import commit as commit_id
from conditions import date, machine
from servers import Odradek
from wire import Client, one_record_batch, string

TOPICS = 50
RECORDS = 20  # in each partition
WINDOW = 10
UNDER_WAY = 8
SCRAPE_EVERY_S = 15.0


class Commits:
    """Sends commits of whole groups over one connection."""

    def __init__(self, port: int, groups: int, partitions: int, behind: float) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._groups, self._partitions, self._behind = groups, partitions, behind

    def send(self, group: int, offset: int) -> None:
        late = group < self._groups * self._behind
        body = string(f"group-{group:04}") + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
        body += struct.pack(">i", 1) + string(topic(group)) + struct.pack(">i", self._partitions)
        place = min(offset, RECORDS // 2) if late else RECORDS
        body += b"".join(struct.pack(">iq", each, place) + string("") for each in range(self._partitions))
        header = struct.pack(">hhi", OFFSET_COMMIT, 2, group) + string("bench")
        self._connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)

    def receive(self) -> None:
        size = struct.unpack(">i", self._exactly(4))[0]
        if struct.unpack(">h", self._exactly(size)[-2:])[0]:
            raise RuntimeError("a commit was refused")

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            parts += self._connection.recv(size - len(parts))
        return bytes(parts)

    def round(self, offset: int, over_s: float = 0.0) -> None:
        """One commit of every group, spread over a time."""
        begin = time.monotonic()
        for first in range(0, self._groups, UNDER_WAY):
            groups = range(first, min(first + UNDER_WAY, self._groups))
            for group in groups:
                self.send(group, offset)
            for _ in groups:
                self.receive()
            wait = begin + over_s * groups.stop / self._groups - time.monotonic()
            if wait > 0:
                time.sleep(wait)


def topic(group: int) -> str:
    return f"topic-{group % TOPICS:02}"


def cpu_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int, field: str) -> float:
    return int(re.search(rf"{field}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def prepare(broker: Odradek, partitions: int) -> None:
    with Client(broker.port) as client:
        for number in range(TOPICS):
            client.create_topic(topic(number), [[1]] * partitions)
    for number in range(TOPICS):
        broker.await_in_sync(topic(number), partitions)
    with Client(broker.port) as client:
        for number in range(TOPICS):
            for _ in range(RECORDS):
                client.produce(topic(number), [(each, one_record_batch(b"x")) for each in range(partitions)], acks=1)
        client.request(FIND_COORDINATOR, 0, string("group-0000"))


def monitor(bootstrap: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek.cli", "monitor", "-b", bootstrap, "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    for line in process.stdout:
        if line.startswith("Metrics:"):
            return process, line.split()[1]
    raise RuntimeError("the monitor did not start")


def await_ready(metrics: str) -> float:
    begin = time.monotonic()
    while True:
        try:
            urllib.request.urlopen(metrics.replace("/metrics", "/burrow/admin/ready"))
            return time.monotonic() - begin
        except OSError:
            time.sleep(0.1)


def scrape(metrics: str) -> tuple[float, str]:
    begin = time.monotonic()
    with urllib.request.urlopen(metrics) as answer:
        text = answer.read().decode()
    return time.monotonic() - begin, text


def run(groups: int, partitions: int, every_s: float, seconds: float, behind: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as place:
        broker = Odradek(Path(place) / "data")
        broker.start()
        broker.await_ready()
        try:
            prepare(broker, partitions)
            commits = Commits(broker.port, groups, partitions, behind)
            for offset in range(WINDOW):
                commits.round(offset)
            process, metrics = monitor(broker.bootstrap)
            try:
                return measured(process.pid, metrics, commits, every_s, seconds) | {"groups": groups, "behind": behind}
            finally:
                process.terminate()
                process.communicate()
        finally:
            broker.stop()


def measured(pid: int, metrics: str, commits: Commits, every_s: float, seconds: float) -> dict[str, object]:
    ready_s = await_ready(metrics)
    read = int(re.search(r"commitsread_total\S* (\d+)", scrape(metrics)[1])[1])
    start_cpu_s = cpu_seconds(pid)
    result: dict[str, object] = {"backlog_commits": read, "ready_s": ready_s, "start_cpu_s": start_cpu_s}
    begin = scraped = time.monotonic()
    offset, scrapes = WINDOW, []
    while time.monotonic() < begin + seconds:
        commits.round(offset, every_s)
        offset += 1
        if time.monotonic() - scraped >= SCRAPE_EVERY_S:
            scraped = time.monotonic()
            scrapes.append(scrape(metrics)[0])
    passed_s = time.monotonic() - begin
    used_s = cpu_seconds(pid) - start_cpu_s
    after = scrape(metrics)[1]
    done = int(re.search(r"commitsread_total\S* (\d+)", after)[1]) - read
    statuses = [int(each) for each in re.findall(r"^burrow_kafka_consumer_status\S* (\d)", after, flags=re.MULTILINE)]
    return result | {
        "commits_per_s": round(done / passed_s),
        "core_percent": round(100 * used_s / passed_s, 2),
        "us_per_commit": round(1e6 * used_s / done, 2),
        "rss_mb": round(memory_mb(pid, "VmRSS"), 1),
        "peak_rss_mb": round(memory_mb(pid, "VmHWM"), 1),
        "scrape_ms": [round(1000 * each) for each in scrapes],
        "statuses": {number: statuses.count(number) for number in sorted(set(statuses))},
    }


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--groups", type=int, default=1_000)
    options.add_argument("--partitions", type=int, default=100)
    options.add_argument("--every", type=float, default=5.0)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--behind", type=float, default=0.1)
    chosen = options.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    found = run(chosen.groups, chosen.partitions, chosen.every, chosen.seconds, chosen.behind)
    print(json.dumps({"date": date(), "commit": commit_id(), "machine": machine(), **found}, indent=2))


if __name__ == "__main__":
    main()
