"""Three nodes as processes, clients, the lag monitor and a Streams application, all with /metrics."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from odradek.node.local_cluster import LocalNode, local_nodes
from support.broker_process import free_port
from support.prometheus_process import wait_for

SMALL_DISK_MIB = 96
TESTS = Path(__file__).parents[2]
ODRADEK = [sys.executable, "-m", "odradek.cli"]
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # The disk of this test is small.
    "log.segment.bytes": str(4 << 20),
    "log.index.size.max.bytes": str(1 << 16),
}
MONITOR = """
[http]
address = "{address}"
[cluster.local]
servers = {servers}
offset-refresh = 1
topic-refresh = 2
[cluster.dead]
servers = ["127.0.0.1:{nowhere}"]
offset-refresh = 1
[lag]
partition-metrics = true
"""
CLIENTS = """
import sys, threading, time
from odradek.client import Consumer, Producer, SendFailed, export_metrics

bootstrap, port = sys.argv[1], int(sys.argv[2])
export_metrics(port=port)
producer = Producer(bootstrap, statistics_interval_ms=1000, message_timeout_ms=3000, linger_ms=5)

def produce(topic, every_s):
    while True:
        producer.send(topic, b"x" * 200).add_done_callback(lambda done: done.exception())
        time.sleep(every_s)

def consume(group, topic, pause_s):
    with Consumer(topic, bootstrap=bootstrap, group=group, auto_commit=False, statistics_interval_ms=1000) as consumer:
        for record in consumer:
            consumer.commit(record)
            time.sleep(pause_s)

for topic in ("orders", "fragile", "strict"):
    threading.Thread(target=produce, args=(topic, 0.02), daemon=True).start()
threading.Thread(target=consume, args=("quick", "orders", 0), daemon=True).start()
threading.Thread(target=consume, args=("slow", "orders", 1), daemon=True).start()
threading.Thread(target=consume, args=("stopping", "orders", 0.1), daemon=True).start()
print("running", flush=True)
for line in sys.stdin:
    pass
"""
STREAMS = """
import time
from odradek.streams import App, F

app = App("slow", every="1 second")

def keep(row):
    time.sleep(0.4)

events = app.stream("events", schema="n int", dlq="events.dead")
events.foreach(keep)
events.group_by("n").agg(count=F.count("*")).materialize("counts")
"""

CONNECT = [sys.executable, "-m", "support.connect_process"]


class Processes:
    """Everything that the test starts, stopped at its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str], ready: str, patience_s: float = 60) -> str:
        """The first match of `ready` in what the process prints."""
        log = self.folder / f"{name}.out"
        before = log.stat().st_size if log.exists() else 0
        with log.open("ab") as out:
            self._running[name] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd=self.folder,
                env=os.environ | {"PYTHONPATH": str(TESTS)},
            )

        def said() -> re.Match[str] | None:
            assert self._running[name].poll() is None, log.read_text()
            return re.search(ready, log.read_text()[before:])

        wait_for(f"{name} says {ready}", said, patience_s)
        match = said()
        assert match is not None
        return match[1] if match.groups() else match[0]

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def signal(self, name: str, number: int) -> None:
        self._running[name].send_signal(number)

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def stop_all(self) -> None:
        for name in list(self._running):
            self.kill(name)


class ObservedCluster:
    def __init__(self, folder: Path, processes: Processes) -> None:
        self._processes = processes
        self.data = folder / "data"
        self.small_disk = self._mounted(self.data / "3")
        ports = {node_id: free_port() for node_id in (1, 2, 3)}
        self.http = {node_id: f"127.0.0.1:{port}" for node_id, port in ports.items()}
        self.nodes: dict[int, LocalNode] = {
            node.node_id: node
            for node in local_nodes(
                3,
                self.data,
                None,
                0,
                SETTINGS,
                own={node_id: {"http.listener": address} for node_id, address in self.http.items()},
            )
        }

    def _mounted(self, place: Path) -> bool:
        place.mkdir(parents=True)
        if os.geteuid() != 0:
            return False
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_MIB}m", "odradek-observed", str(place)]
        return subprocess.run(mount, capture_output=True, check=False).returncode == 0

    def unmount(self) -> None:
        if self.small_disk:
            subprocess.run(["umount", "--lazy", str(self.data / "3")], check=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(str(node.clients) for node in self.nodes.values())

    def begin(self, *node_ids: int) -> None:
        for node_id in node_ids:
            command = [*ODRADEK, "node", "start", "--config", str(self.nodes[node_id].properties)]
            self._processes.start(f"node-{node_id}", command, "" if len(node_ids) > 1 else "Metrics: ")
        for node_id in node_ids:
            log = self._processes.folder / f"node-{node_id}.out"
            wait_for(f"node {node_id} is ready", lambda log=log: "Metrics: " in log.read_text(), 60)

    def kill(self, node_id: int) -> None:
        self._processes.kill(f"node-{node_id}")

    def pid(self, node_id: int) -> int:
        return self._processes.pid(f"node-{node_id}")

    def odradek(self, *arguments: str) -> str:
        done = subprocess.run(
            [*ODRADEK, *arguments, "-b", self.bootstrap], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fill_disk(self) -> None:
        with (self.data / "3" / "balloon").open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(65536)):
                pass
        time.sleep(0.5)
        with (self.data / "3" / "balloon").open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(512)):
                pass

    def empty_disk(self) -> None:
        (self.data / "3" / "balloon").unlink()
