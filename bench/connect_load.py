"""50 idle and 10 busy connectors on one service: `python bench/connect_load.py`. Prints CPU and memory.

Half of the idle connectors are sources, half are sinks. A busy one generates 100 records/s. CPU and memory include
Spark, not the broker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from glob import glob
from pathlib import Path

from odradek.client.admin import Admin
from odradek.testing import Embedded

SETTLE_S = 40.0
BEGIN_S = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=50)
    parser.add_argument("--busy", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Embedded(config={"num.partitions": 1}) as broker,
        service(broker.bootstrap_servers) as (pid, url),
    ):
        time.sleep(5)
        before = figures(pid, given.seconds / 2)
        add_idle(url, Path(folder), broker.bootstrap_servers, given.idle)
        time.sleep(SETTLE_S)
        idle = figures(pid, given.seconds)
        for index in range(given.busy):
            create(url, f"busy-{index}", {"connector.class": "datagen", "topic": f"busy-{index}", "rate": "100"})
        time.sleep(BEGIN_S)
        busy = figures(pid, given.seconds)
        written = sum(sum(Admin(broker.bootstrap_servers).end_offsets(f"busy-{i}").values()) for i in range(given.busy))
        states = json.loads(urllib.request.urlopen(f"{url}/connectors?expand=status").read())
        wrong = [name for name, each in states.items() if "FAILED" in json.dumps(each)]
    per_idle = given.idle or 1
    print(
        json.dumps(
            {
                "service_cores": before[0],
                "service_mb": before[1],
                "idle_connector_percent_of_core": round(100 * (idle[0] - before[0]) / per_idle, 3),
                "idle_connector_mb": round((idle[1] - before[1]) / per_idle, 2),
                "all_cores": busy[0],
                "all_mb": busy[1],
                "busy_records": written,
                "failed": wrong,
            }
        )
    )


class service:  # noqa: N801 (a context manager)
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def __enter__(self) -> tuple[int, str]:
        command = [sys.executable, "-m", "odradek.cli", "connect", "serve", "-b", self._bootstrap, "--port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self._process.stdout:
            if "http://" in line:
                return self._process.pid, line.rpartition(" ")[2].strip()
        raise SystemExit("the service did not start")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def add_idle(url: str, folder: Path, bootstrap: str, count: int) -> None:
    admin = Admin(bootstrap)
    for index in range(count):
        if index % 2:
            admin.create_topic(f"quiet-{index}", 1)
            config = {"connector.class": "files-sink", "topics": f"quiet-{index}", "path": str(folder)}
        else:
            (folder / f"{index}.txt").write_text("one line\n")
            config = {"connector.class": "files-source", "format": "text", "topic": "lines"}
            config["path"] = str(folder / f"{index}.txt")
        create(url, f"idle-{index}", config)


def create(url: str, name: str, config: dict[str, str]) -> None:
    body = json.dumps({"name": name, "config": config}).encode()
    asked = urllib.request.Request(f"{url}/connectors", body, {"content-type": "application/json"})
    urllib.request.urlopen(asked).read()


def figures(pid: int, seconds: float) -> tuple[float, int]:
    """Cores used over some seconds, and megabytes (PSS) at their end, of a process and all below it."""
    cpu, began = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    cores = (cpu_seconds(pid) - cpu) / (time.monotonic() - began)
    return round(cores, 4), sum(map(pss_kb, tree(pid))) >> 10


def tree(pid: int) -> Iterator[int]:
    yield pid
    for task in glob(f"/proc/{pid}/task/*"):  # a child belongs to the thread that started it
        for child in proc(pid, f"task/{Path(task).name}/children").split():
            yield from tree(int(child))


def cpu_seconds(pid: int) -> float:
    ticks = 0
    for each in tree(pid):
        used = proc(each, "stat").rpartition(")")[2].split()
        ticks += sum(map(int, used[11:15]))  # with the children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


def pss_kb(pid: int) -> int:
    for line in proc(pid, "smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def proc(pid: int, file: str) -> str:
    """Empty if the process has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return ""


if __name__ == "__main__":
    main()
