"""A million commits of ten offsets: the size of `__consumer_offsets`, the restart time, the delay of other clients.

    python bench/commits.py [--commits N] [--segment-bytes N]

One connection sends the commits, many in flight. Another client sends a small request every few milliseconds and
measures the response time, once with compaction and once without. The difference is the cost of compaction for other
clients. Restarts alternate between after a kill and after a clean stop. Each is measured until the broker returns the
group's offsets, in wall time and in CPU time, because other work on the machine makes the wall time longer.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from servers import Odradek
from wire import Client, string

GROUP, TOPIC, KEYS = "readers", "events", 10
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
UNDER_WAY = 50
NOTE = "x" * 40  # so that a segment fills in reasonable time
BACKOFF_MS = 1000
RESTARTS = 5


class Broker(Odradek):
    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        super().__init__(directory)
        self.settings = settings

    def command(self, node_id: int) -> list[str]:
        command = super().command(node_id)
        return [*command, *(f"--config={key}={value}" for key, value in self.settings.items())]


def commit(number: int) -> bytes:
    body = string(GROUP) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
    body += struct.pack(">i", 1) + string(TOPIC) + struct.pack(">iiq", 1, number % KEYS, number) + string(NOTE)
    header = struct.pack(">hhi", OFFSET_COMMIT, 2, number) + string("bench")
    return struct.pack(">i", len(header) + len(body)) + header + body


def commit_all(port: int, commits: int) -> float:
    reply_bytes = 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4 + 2
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for first in range(0, commits, UNDER_WAY):
            numbers = range(first, min(commits, first + UNDER_WAY))
            connection.sendall(b"".join(map(commit, numbers)))
            wanted, reply = reply_bytes * len(numbers), bytearray()
            while len(reply) < wanted:
                reply += connection.recv(wanted - len(reply))
            if any(struct.unpack_from(">h", reply, end - 2)[0] for end in range(reply_bytes, wanted + 1, reply_bytes)):
                raise RuntimeError("a commit was refused")
    return time.monotonic() - begin


def committed(port: int) -> list[int]:
    """The offsets, or nothing while they are being loaded."""
    partitions = struct.pack(f">i{KEYS}i", KEYS, *range(KEYS))
    body = string(GROUP) + struct.pack(">i", 1) + string(TOPIC) + partitions
    with Client(port) as client:
        client.request(FIND_COORDINATOR, 0, string(GROUP))
        reply = client.request(OFFSET_FETCH, 1, body)
    position, offsets = 4 + 2 + len(TOPIC) + 4, []
    for _ in range(KEYS):
        _index, offset, length = struct.unpack_from(">iqh", reply, position)
        position += 14 + max(0, length)
        (code,) = struct.unpack_from(">h", reply, position)
        position += 2
        if code:
            return []
        offsets.append(offset)
    return offsets


# In a separate process, because this one is busy with the commits.
ASKING = """
import signal, sys, time
sys.path.insert(0, sys.argv[1])
from wire import Client
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
taken = []  # told at the end: nobody reads before, and a pipe holds little
try:
    with Client(int(sys.argv[2])) as client:
        print("asking", flush=True)
        while True:
            time.sleep(0.003)
            begin = time.perf_counter()
            client.request(18, 0, b"")
            taken.append(time.perf_counter() - begin)
finally:
    print(*taken, sep="\\n")
"""


def bystander(port: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", ASKING, str(Path(__file__).parent), str(port)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def waits(process: subprocess.Popen[str]) -> dict[str, float]:
    process.terminate()
    assert process.stdout is not None
    taken = sorted(1000 * float(line) for line in process.stdout.read().splitlines())
    process.wait()
    return {
        "asked": len(taken),
        "p50_ms": statistics.median(taken),
        "p99_ms": taken[len(taken) * 99 // 100],
        "p999_ms": taken[len(taken) * 999 // 1000],
        "max_ms": taken[-1],
    }


def stored(data: Path) -> dict[str, float]:
    logs = [path for path in data.glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    return {"segments": len(logs), "mb": sum(path.stat().st_size for path in logs) / 1e6}


def restart(broker: Broker, wanted: list[int], *, kill: bool) -> dict[str, float]:
    broker.stop_node(1, signal.SIGKILL if kill else signal.SIGTERM)
    begin = time.monotonic()
    broker.start()
    ready = 0.0
    while True:
        try:
            found = committed(broker.port)
            ready = ready or time.monotonic() - begin
            if found:
                break
        except OSError:
            pass
        time.sleep(0.005)
    if found != wanted:
        raise RuntimeError(f"committed {wanted}, found {found}")
    offsets = time.monotonic() - begin
    return {"answers_s": ready, "offsets_s": offsets, "cpu_s": _cpu_seconds(*broker.pids)}


def _cpu_seconds(pid: int) -> float:
    """The CPU time of a process since its start."""
    user, system = Path(f"/proc/{pid}/stat").read_text().split()[13:15]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def restarts(broker: Broker, wanted: list[int]) -> dict[str, object]:
    taken: dict[str, list[dict[str, float]]] = {"after_a_kill": [], "after_a_stop": []}
    for _ in range(RESTARTS):
        taken["after_a_kill"].append(restart(broker, wanted, kill=True))
        taken["after_a_stop"].append(restart(broker, wanted, kill=False))
    return {
        how: {
            "median": {name: statistics.median(each[name] for each in several) for name in several[0]},
            "worst": {name: max(each[name] for each in several) for name in several[0]},
        }
        for how, several in taken.items()
    }


def run(commits: int, settings: dict[str, str]) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as place:
        broker = Broker(Path(place) / "data", settings)
        broker.start()
        broker.await_ready()
        broker.create_topic(TOPIC, KEYS)
        with Client(broker.port) as client:
            client.request(FIND_COORDINATOR, 0, string(GROUP))
        while not committed(broker.port):
            time.sleep(0.01)
        watching = bystander(broker.port)
        seconds = commit_all(broker.port, commits)
        waited = waits(watching)
        wanted = committed(broker.port)
        assert max(wanted) == commits - 1
        before = stored(broker.directory)
        time.sleep(3 * BACKOFF_MS / 1000)
        result: dict[str, object] = {
            "commits_per_s": commits / seconds,
            "bystander": waited,
            "stored_at_the_end": before,
            "stored_soon_after": stored(broker.directory),
        }
        if settings["log.cleaner.enable"] == "true":
            result |= restarts(broker, wanted)
        broker.stop()
    return result


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--commits", type=int, default=1_000_000)
    options.add_argument("--segment-bytes", type=int, default=8 << 20)
    chosen = options.parse_args()
    # As after an installation with pip: brokers find compiled modules.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for enabled in ("true", "false"):
        settings = {
            "log.cleaner.enable": enabled,
            "log.cleaner.backoff.ms": str(BACKOFF_MS),
            "offsets.topic.segment.bytes": str(chosen.segment_bytes),
            "offsets.topic.num.partitions": "1",
        }
        # The run without compaction is needed only for the response times of the other client.
        commits = chosen.commits if enabled == "true" else chosen.commits // 4
        print(json.dumps({"compaction": enabled, "commits": commits, **run(commits, settings)}, indent=2), flush=True)


if __name__ == "__main__":
    main()
