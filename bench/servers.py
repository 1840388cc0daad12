"""The servers under test, one broker or a cluster, each node a process: start on a directory, measure cost, stop."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from native import compiled
from wire import Client, PartitionState, Refused, one_record_batch

STOP_WITHIN_S = 120.0
# Otherwise the files of a deleted topic would stay in the page cache for a minute and affect later measurements.
DELETE_SOON = {"log.segment.delete.delay.ms": "1000"}


class Server:
    """Nodes 1, 2, … with a Kafka port on 127.0.0.1 each."""

    name: str
    warm_up_share = 1.0  # share of the time that a just-in-time compiler needs

    def __init__(self, directory: Path, nodes: int = 1) -> None:
        self.directory = directory
        self.node_ids = list(range(1, nodes + 1))
        self._ports: dict[int, int] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def prepare(self) -> None:
        """Called once, before the first start."""
        raise NotImplementedError

    def command(self, node_id: int) -> Sequence[str | Path]:
        raise NotImplementedError

    @property
    def port(self) -> int:
        """The port of a running node."""
        return self._ports[next(iter(self._processes), self.node_ids[0])]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._ports[node_id]}" for node_id in self.node_ids)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes.values()]

    def start(self) -> None:
        if not self._ports:
            self.prepare()
        for node_id in self.node_ids:
            self.start_node(node_id)

    def start_node(self, node_id: int) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._processes[node_id] = subprocess.Popen(self.command(node_id), stdout=log, stderr=log)

    def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for node_id in list(self._processes):
            self.stop_node(node_id)

    def stop_node(self, node_id: int, by: signal.Signals = signal.SIGTERM) -> None:
        process = self._processes.pop(node_id)
        process.send_signal(by)
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wipe(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int = 1, brokers: Sequence[int] | None = None
    ) -> None:
        """Create a topic, spread over `brokers`: the first leads partition 0, the next partition 1, and so on."""
        among = brokers or self.node_ids
        placed = [[among[(index + copy) % len(among)] for copy in range(replicas)] for index in range(partitions)]
        with Client(self.port) as client:
            client.create_topic(name, placed)
        self.await_in_sync(name, partitions)
        if replicas > 1:
            self._await_followers(name)

    def delete_topic(self, name: str) -> None:
        with Client(self.port) as client:
            client.delete_topic(name)

    def leader_ports(self, topic: str) -> list[int]:
        with Client(self.port) as client:
            return [partition.leader_port for partition in client.partitions(topic)]

    def end_offset(self, topic: str, partition: int = 0) -> int:
        with Client(self.leader_ports(topic)[partition]) as client:
            return client.end_offset(topic, partition)

    def await_in_sync(self, topic: str, partitions: int, within_s: float = 60.0) -> None:
        """Waits until every replica is in sync and each leader answers ListOffsets: then it accepts records."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                with Client(self.port) as client:
                    found = client.partitions(topic)
                if len(found) == partitions and all(map(PartitionState.is_whole, found)):
                    _ask_each_leader(topic, found)
                    return
            except (OSError, Refused):
                pass
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: {topic} is not in sync:\n{self._told()}")
            time.sleep(0.005)

    def _await_followers(self, topic: str) -> None:
        """Waits until the followers fetch this topic: their current fetch may still wait for other partitions."""
        for index, port in enumerate(self.leader_ports(topic)):
            with Client(port) as leader:
                leader.produce(topic, [(index, one_record_batch(b"first"))], acks=-1)

    def resident_mb(self, field: str = "VmRSS") -> float:
        """The resident memory of all nodes. With field VmHWM, its maximum so far."""
        return sum(_status_mb(pid, field) for pid in self.pids)

    def await_ready(self, within_s: float = 60.0) -> None:
        deadline = time.monotonic() + within_s
        while True:
            try:
                with Client(self.port) as client:
                    if len(client.brokers()) == len(self.node_ids):
                        break
            except OSError:
                pass
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._processes.values()):
                raise RuntimeError(f"{self.name} did not start:\n{self._told()}")
            time.sleep(0.002)
        self.create_topic("ready", len(self.node_ids))

    @property
    def _log(self) -> Path:
        return self.directory.parent / f"{self.directory.name}.log"

    def _told(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


class Odradek(Server):
    name = "Odradek"
    warm_up_share = 0.25

    def prepare(self) -> None:
        if len(self.node_ids) == 1:
            self._ports = {1: free_port()}
            return
        from odradek.node.local_cluster import local_nodes

        nodes = local_nodes(len(self.node_ids), self.directory, "127.0.0.1", 0, DELETE_SOON)
        self._ports = {node.node_id: node.clients.port for node in nodes if node.clients}

    def command(self, node_id: int) -> list[str]:
        odradek = [sys.executable, "-m", "odradek.cli"]
        if len(self.node_ids) > 1:
            return [*odradek, "node", "start", "--config", str(self.directory / f"{node_id}.properties")]
        settings = [f"--config={key}={value}" for key, value in DELETE_SOON.items()]
        return [
            *odradek,
            "up",
            "--no-console",
            "--data",
            str(self.directory),
            "--port",
            str(self._ports[node_id]),
            *settings,
        ]


class Limit(Server):
    """Topics exist once written to."""

    name = "limit"
    warm_up_share = 0.0

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen([compiled("limit"), self.directory], stdout=subprocess.PIPE)
        assert process.stdout is not None
        self._ports, self._processes = {1: int(process.stdout.readline())}, {1: process}
        process.stdout.close()

    def await_ready(self, within_s: float = 60.0) -> None:
        """The server has printed its port, so it listens."""

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int = 1, brokers: Sequence[int] | None = None
    ) -> None:
        pass

    def delete_topic(self, name: str) -> None:  # noqa: ARG002
        """Restarts the process: it cannot delete data otherwise."""
        self.stop()
        self.wipe()
        self.start()

    def leader_ports(self, topic: str) -> list[int]:  # noqa: ARG002
        return [self.port]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ask_each_leader(topic: str, partitions: list[PartitionState]) -> None:
    for port in sorted({partition.leader_port for partition in partitions}):
        with Client(port) as leader:
            for index, partition in enumerate(partitions):
                if partition.leader_port == port:
                    leader.end_offset(topic, index)


def _status_mb(pid: int, field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 / 1e6 if found else 0.0
