"""The cluster under test: three nodes, a process each, some with a disk of their own that can be filled."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.cli import elections, quorum, reassignments
from odradek.testing import Embedded
from odradek.testing.node_process import EmbeddedNode

NODES = (1, 2, 3)
# Filled by a fault. The first node stays on the real disk, with its real fsync.
SMALL_DISKS = (2, 3)
SMALL_DISK_MIB = 1024
ROOM_TO_RACE_FOR = 8 * 1024 * 1024
SESSION_MS = 3000
ASKED_TIMES = 3
SETTINGS: dict[str, str | int | bool] = {
    "offsets.topic.num.partitions": 3,
    "replica.lag.time.max.ms": SESSION_MS,
    "broker.session.timeout.ms": SESSION_MS,
    "group.initial.rebalance.delay.ms": 100,
    "leader.imbalance.check.interval.seconds": 20,
    "log.flush.offset.checkpoint.interval.ms": 5000,
    "replica.high.watermark.checkpoint.interval.ms": 1000,
    # Metadata snapshots are written, and fetched by nodes that were away.
    "metadata.log.max.record.bytes.between.snapshots": 20_000,
    "auto.create.topics.enable": False,
}
# Partitions and settings. Records of the second topic are on disk before they are acknowledged.
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "orders": (4, {"min.insync.replicas": "2", "segment.bytes": "1048576"}),
    "payments": (3, {"min.insync.replicas": "2", "segment.bytes": "1048576", "flush.messages": "1"}),
}


class Leading(NamedTuple):
    leader: int
    in_sync: frozenset[int]
    replicas: tuple[int, ...]


class ChaosCluster:
    def __init__(self, directory: Path, log: Path) -> None:
        self.data = directory
        self.small_disks: tuple[int, ...] = ()
        self._embedded = Embedded(brokers=len(NODES), data=directory, config=SETTINGS, log=log)
        self._admin: AdminClient | None = None

    # Disks

    def mount_small_disks(self) -> str | None:
        """Returns the reason where it cannot be done."""
        if not sys.platform.startswith("linux") or os.geteuid() != 0:
            return "a small file system per node needs root"
        for node_id in SMALL_DISKS:
            place = self.data / str(node_id)
            place.mkdir(parents=True)
            mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_MIB}m", "odradek-chaos", str(place)]
            mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
            if mounted.returncode:
                return f"a small file system cannot be mounted: {mounted.stderr.strip()}"
            self.small_disks += (node_id,)
        return None

    def unmount_small_disks(self, *, keep: bool) -> None:
        for node_id in self.small_disks:
            place, kept = self.data / str(node_id), self.data / f"{node_id}.kept"
            if keep:
                shutil.copytree(place, kept)
            subprocess.run(["umount", str(place)], check=True)
            if keep:
                place.rmdir()
                kept.rename(place)
        self.small_disks = ()

    def fill_disk(self, node_id: int) -> None:
        """To the last byte."""
        balloon = self._balloon(node_id)
        free = os.statvfs(balloon.parent)
        # The node writes meanwhile: all but a little at once, then page by page until nothing fits.
        at_once = free.f_bavail * free.f_frsize - ROOM_TO_RACE_FOR
        with balloon.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            if at_once > 0:
                os.posix_fallocate(file.fileno(), 0, at_once)
                file.seek(0, os.SEEK_END)
            while file.write(bytes(4096)):
                pass

    def empty_disk(self, node_id: int) -> None:
        self._balloon(node_id).unlink(missing_ok=True)

    def _balloon(self, node_id: int) -> Path:
        return self.data / str(node_id) / "balloon"

    # Processes

    def start(self) -> None:
        self._embedded.start()
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 5000})
        wanted = [NewTopic(name, count, 3, config=config) for name, (count, config) in TOPICS.items()]
        for created in self._admin.create_topics(wanted).values():
            created.result(30)

    def stop(self) -> None:
        self._embedded.stop()

    def kill(self) -> None:
        self._embedded.kill()

    @property
    def bootstrap(self) -> str:
        return self._embedded.bootstrap_servers

    def node(self, node_id: int) -> EmbeddedNode:
        return self._embedded.nodes[node_id]

    def is_alive(self, node_id: int) -> bool:
        node = self.node(node_id)
        if not node.is_running:
            return False
        try:
            os.kill(node.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def last_words(self, node_id: int) -> str:
        """The error of a node that ended by itself; it can be started again afterwards."""
        try:
            self.node(node_id).discard()
        except Exception as said:  # noqa: BLE001 whatever made it fail
            return f"{type(said).__name__}: {said}"
        return "nothing"

    def partition(self, one_side: list[int], other_side: list[int]) -> None:
        self._embedded.partition(one_side, other_side)

    def deafen(self, here: int, there: list[int]) -> None:
        """`here` reaches none of `there` any more; they reach it."""
        self.node(here).wall_off([port for node_id in there for port in self._ports(node_id)])

    def heal_walls(self) -> None:
        self._embedded.heal()
        for node_id in NODES:
            self.node(node_id).wall_off([])

    def _ports(self, node_id: int) -> tuple[int, int]:
        place = self._embedded._places[node_id]
        return place.clients.port, place.controllers.port

    # What it says about itself

    def partitions(self) -> dict[tuple[str, int], Leading]:
        """As the broker that answers sees them; empty when no broker does."""
        assert self._admin is not None
        try:
            topics = self._admin.list_topics(timeout=2).topics
        except KafkaException:
            return {}
        return {
            (name, index): Leading(each.leader, frozenset(each.isrs), tuple(each.replicas))
            for name, topic in topics.items()
            for index, each in topic.partitions.items()
        }

    def is_healthy(self) -> bool:
        known = self.partitions()
        wanted = [(name, index) for name, (count, _) in TOPICS.items() for index in range(count)]
        return all(place in known for place in wanted) and all(
            each.leader in NODES and each.in_sync == frozenset(each.replicas) for each in known.values()
        )

    def controller(self) -> int | None:
        for address in self.bootstrap.split(","):
            with _silent(), contextlib.suppress(SystemExit):
                leader = quorum.described(address).leader
                if leader is not None:
                    return leader
        return None

    def elect_preferred(self) -> bool:
        return self._somebody(lambda address: elections.elect(address, elections.PREFERRED, []))

    def reassign(self, wanted: dict[tuple[str, int], list[int]]) -> bool:
        return self._somebody(lambda address: reassignments.ask_for(address, wanted))

    def _somebody(self, ask: Callable[[str], object]) -> bool:
        """Tries the nodes in turn, and returns whether one succeeded: a node may be dead, or without a controller."""
        for address in ASKED_TIMES * self.bootstrap.split(","):
            with _silent(), contextlib.suppress(SystemExit):
                ask(address)
                return True
            time.sleep(0.2)
        return False


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Hides the errors that the commands write to stderr."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield
