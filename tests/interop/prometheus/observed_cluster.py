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
from support.hanging import WITHOUT_VERIFICATION
from support.prometheus_process import wait_for

SMALL_DISK_MIB = 96
METADATA_BYTES = "1MiB"
TESTS = Path(__file__).parents[2]
ODRADEK = [sys.executable, "-m", "odradek.cli"]
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # The transaction state outlives one node.
    "transaction.state.log.num.partitions": "3",
    **WITHOUT_VERIFICATION,
    # The disk of this test is small.
    "log.segment.bytes": str(4 << 20),
    "log.index.size.max.bytes": str(1 << 16),
}


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

    def tell(self, name: str, line: str) -> None:
        stdin = self._running[name].stdin
        assert stdin is not None
        stdin.write(f"{line}\n".encode())
        stdin.flush()

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
            peers = ",".join(map(str, self._ports_of_others(node_id)))
            start = ["node", "start", "--config", str(self.nodes[node_id].properties)]
            command = [sys.executable, "-m", "interop.prometheus.hindered_node", peers, *start]
            self._processes.start(f"node-{node_id}", command, "" if len(node_ids) > 1 else "Metrics: ")
        for node_id in node_ids:
            log = self._processes.folder / f"node-{node_id}.out"
            wait_for(f"node {node_id} is ready", lambda log=log: "Metrics: " in log.read_text(), 60)

    def kill(self, node_id: int) -> None:
        self._processes.kill(f"node-{node_id}")

    def cut_off(self, node_id: int) -> None:
        """It no longer reaches the other nodes."""
        self._processes.tell(f"node-{node_id}", " ".join(["walls", *map(str, self._ports_of_others(node_id))]))

    def connect(self, node_id: int) -> None:
        self._processes.tell(f"node-{node_id}", "walls")

    def delay_fsyncs(self, node_id: int, seconds: float) -> None:
        self._processes.tell(f"node-{node_id}", f"fsync {seconds}")

    def _ports_of_others(self, node_id: int) -> list[int]:
        others = (node for node in self.nodes.values() if node.node_id != node_id)
        return [endpoint.port for node in others for endpoint in node.endpoints]

    def pid(self, node_id: int) -> int:
        return self._processes.pid(f"node-{node_id}")

    def odradek(self, *arguments: str) -> str:
        done = subprocess.run(
            [*ODRADEK, *arguments, "-b", self.bootstrap], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fill_disk(self) -> None:
        """Except for the metadata log, without which the node would stop, and could not be scraped."""
        newest = max((self.data / "3" / "__cluster_metadata-0").glob("*.log"))
        reserve = ["fallocate", "--keep-size", "--offset", str(newest.stat().st_size), "--length", METADATA_BYTES]
        subprocess.run([*reserve, str(newest)], check=True)
        with (self.data / "3" / "balloon").open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(65536)):
                pass
        time.sleep(0.5)
        with (self.data / "3" / "balloon").open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(512)):
                pass

    def empty_disk(self) -> None:
        (self.data / "3" / "balloon").unlink()
