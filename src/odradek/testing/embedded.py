"""Real brokers for tests: each is a process, forked in milliseconds, with the real wire protocol on a free port."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType, TracebackType
from typing import Self, cast

from odradek.base.errors import ErrorCode
from odradek.node.config import NodeConfig
from odradek.node.local_cluster import LocalNode, local_nodes
from odradek.node.properties import parse_properties
from odradek.testing.faults import Fault, SeenRequest, require_api
from odradek.testing.node_process import EmbeddedNode
from odradek.testing.nursery import Order

# Delays that only matter between machines are too long for tests.
QUICK: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
# The cluster notices a killed node within seconds, but does not fence a node on a busy machine.
QUICK_TOGETHER: Mapping[str, str] = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "3000",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
}
COPIES_MAX = 3
HOST = "127.0.0.1"


class Embedded:
    """A broker that lives as long as a `with` block.

        with Embedded() as broker:
            Producer({"bootstrap.servers": broker.bootstrap_servers})

    Records are kept in memory, or under `data`, where a later Embedded finds them. `config` takes Kafka's names.
    Warnings go to stderr. Set `log` to a file to get the whole log of the broker.

    `Embedded(brokers=3)` is a cluster of three nodes that are brokers and controllers. The default replication factor
    is 3. Records are on disk, and are deleted after the block unless `data` is set. Each node, `nodes[1]` to
    `nodes[3]`, can be killed, stopped, restarted and paused. `partition` creates a network partition between nodes.
    With `controllers=3` there are three more nodes, `nodes[4]` to `nodes[6]`. These are the controllers, and the first
    three nodes are only brokers. `racks` names the rack of each broker.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        controllers: int = 0,
        racks: Sequence[str] = (),
        data: Path | None = None,
        port: int = 0,
        config: Mapping[str, str | int | bool] | None = None,
        log: Path | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        if len(racks) not in (0, brokers):
            raise ValueError(f"{len(racks)} racks for {brokers} brokers; name one rack for each broker")
        self._settings = {**QUICK, **{key: _text(value) for key, value in (config or {}).items()}}
        NodeConfig.parse({"listeners": f"PLAINTEXT://{HOST}:{port}", **self._settings})
        self._count = brokers
        self._controllers = controllers
        self._racks = {node_id: {"broker.rack": rack} for node_id, rack in enumerate(racks, start=1)}
        self._port = port
        self._data = data and data.absolute()
        self._log = log and log.absolute()
        # From the first start until `stop`.
        self._nodes: dict[int, EmbeddedNode] = {}
        self._places: dict[int, LocalNode] = {}
        self._cut: dict[int, set[int]] = {}
        self._reserved: list[socket.socket] = []
        self._temporary: TemporaryDirectory[str] | None = None

    @property
    def nodes(self) -> Mapping[int, EmbeddedNode]:
        """Nodes by id: first the brokers, then separate controllers."""
        if not self._nodes:
            raise RuntimeError("the embedded broker is not running; use it inside `with Embedded() as broker:`")
        return MappingProxyType(self._nodes)

    @property
    def port(self) -> int:
        """The port of the first broker."""
        return self._places[1].endpoints[0].port if self._places else self.nodes[1].port

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, including brokers that are not running now."""
        ports = [place.clients.port for place in self._places.values() if place.clients] or [self.port]
        return ",".join(f"{HOST}:{port}" for port in ports)

    def start(self) -> None:
        """Start all nodes. Returns when all brokers serve clients, and each broker's metadata lists all of them."""
        if any(node.is_running for node in self._nodes.values()):
            raise RuntimeError("the embedded broker is already running; stop it first")
        if not self._nodes:
            self._nodes = self._together() if self._count + self._controllers > 1 else self._alone()
        try:
            for node in self._nodes.values():
                node.begin()
            for node in self._nodes.values():
                node.await_ready()
            for broker_id in self._broker_ids:
                self._nodes[broker_id].await_brokers(self._broker_ids)
        except BaseException:
            self._forget()
            raise

    def stop(self) -> None:
        """Stop the nodes cleanly, as SIGTERM would, one after another. A cluster without `data` is killed instead.

        If a broker failed meanwhile, raises its exception.
        """
        try:
            if self._temporary is None:
                self.heal()
            for node in self._nodes.values():
                if self._temporary is None:
                    node.stop()
                else:
                    node.discard()
        finally:
            self._forget()

    def kill(self) -> None:
        """Kill all nodes, as kill -9 would: no clean shutdown. `start` continues with the data on disk."""
        for node in self.nodes.values():
            if node.is_running:
                node.kill()

    def pause(self) -> None:
        """Stop all nodes until `resume`, with open connections: like a swapping machine or a long GC pause."""
        for node in self.nodes.values():
            node.pause()

    def resume(self) -> None:
        for node in self.nodes.values():
            node.resume()

    def partition(self, one_side: int | Iterable[int], other_side: int | Iterable[int]) -> None:
        """Silently drop all traffic between the nodes of the two sides from now on. Clients reach both sides.

        `partition(1, [2, 3])` cuts off node 1. Earlier partitions stay; `heal` ends all of them.
        """
        for here in _ids(one_side):
            for there in _ids(other_side):
                self._cut[here].add(there)
                self._cut[there].add(here)
        self._build_walls()

    def heal(self) -> None:
        if any(self._cut.values()):
            for beyond in self._cut.values():
                beyond.clear()
            self._build_walls()

    def fail(self, api: str, error: str, *, times: int | None = 1) -> None:
        """The next requests of this API ("Produce", "Fetch", …) fail with this error, given by Kafka's name."""
        require_api(api)
        if error not in ErrorCode.__members__:
            raise ValueError(
                f"there is no error {error!r}; use one of Kafka's names, for example NOT_LEADER_OR_FOLLOWER"
            )
        self._disturb(Fault(api, times, error=ErrorCode[error]))

    def delay(self, api: str, ms: int, *, times: int | None = 1) -> None:
        """The next requests of this API are handled `ms` later. Later requests on the same connection wait."""
        require_api(api)
        self._disturb(Fault(api, times, delay_ms=ms))

    def drop(self, api: str, *, times: int | None = 1) -> None:
        """The next requests of this API are not handled, and the broker closes their connections."""
        require_api(api)
        self._disturb(Fault(api, times))

    def calm(self) -> None:
        """End all faults, and make room on a full disk. The clock keeps its offset."""
        for node in self._running():
            node.obey("clear")
            node.obey("fill", full=False)

    def fill_disk(self) -> None:
        """All writes fail until `free_disk`."""
        for node in self._running():
            node.obey("fill", full=True)

    def free_disk(self) -> None:
        for node in self._running():
            node.obey("fill", full=False)

    def advance_clock(self, by: timedelta) -> None:
        """Move the brokers' wall clock: the next retention check deletes records that are now too old."""
        for node in self._running():
            node.obey("advance", ms=int(by / timedelta(milliseconds=1)))

    def requests(self, api: str | None = None) -> list[SeenRequest]:
        """The requests that arrived, node by node, in order: the last ten thousand of each node.

        RuntimeError while a node is paused: it cannot answer, and a list without its requests would mislead.
        """
        if api is not None:
            require_api(api)
        for node in self._running():
            if node.is_paused:
                raise RuntimeError(f"node {node.node_id} is paused and cannot answer; resume it first")
        seen = [request for node in self._running() for request in cast("list[SeenRequest]", node.obey("requests"))]
        return [request for request in seen if api in (None, request.api)]

    @property
    def _broker_ids(self) -> range:
        return range(1, self._count + 1)

    def _disturb(self, fault: Fault) -> None:
        for node in self._running():
            node.obey("add", fault=fault)

    def _running(self) -> list[EmbeddedNode]:
        return [node for node in self.nodes.values() if node.is_running]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _alone(self) -> dict[int, EmbeddedNode]:
        port = self._port or self._reserve(HOST)
        settings = {"listeners": f"PLAINTEXT://{HOST}:{port}", **self._settings, **self._racks.get(1, {})}
        return {1: EmbeddedNode(1, Order(settings, self._data, self._log))}

    def _together(self) -> dict[int, EmbeddedNode]:
        directory = self._data
        if directory is None:
            self._temporary = TemporaryDirectory(prefix="odradek-", ignore_cleanup_errors=True)
            directory = Path(self._temporary.name)
        copies = str(min(self._count, COPIES_MAX))
        settings = {**QUICK_TOGETHER, "default.replication.factor": copies, **self._settings}
        places = local_nodes(
            self._count,
            directory,
            HOST,
            self._port,
            settings,
            controllers=self._controllers,
            own=self._racks,
            choose_port=self._reserve,
        )
        self._hold_remembered(places)
        self._places = {place.node_id: place for place in places}
        self._cut = {place.node_id: set() for place in places}
        return {place.node_id: EmbeddedNode(place.node_id, self._order(place)) for place in places}

    def _order(self, place: LocalNode) -> Order:
        log = self._log and self._log.with_stem(f"{self._log.stem}-{place.node_id}")
        peers = tuple(port for peer in self._places.values() if peer is not place for port in _ports(peer))
        return Order(parse_properties(place.properties.read_text()), place.data, log, peers)

    def _hold_remembered(self, places: Iterable[LocalNode]) -> None:
        """Reserve also ports that were not chosen now: the data directory keeps the ports of its last cluster."""
        held = {holder.getsockname()[1] for holder in self._reserved}
        for port in {port for place in places for port in _ports(place)} - held:
            self._reserve(HOST, port)

    def _reserve(self, host: str, port: int = 0) -> int:
        """Reserve a port, also for the time while its node is stopped.

        This process binds the port and never listens on it. So the system gives it to no other process, but the node
        can still listen on it.
        """
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, port))
        self._reserved.append(holder)
        return int(holder.getsockname()[1])

    def _build_walls(self) -> None:
        for node_id, node in self._nodes.items():
            node.wall_off([port for beyond in sorted(self._cut[node_id]) for port in _ports(self._places[beyond])])

    def _forget(self) -> None:
        for node in self._nodes.values():
            node.abandon()
        for holder in self._reserved:
            holder.close()
        if self._temporary is not None:
            self._temporary.cleanup()
        self._nodes, self._places, self._cut, self._reserved, self._temporary = {}, {}, {}, [], None


def _ids(side: int | Iterable[int]) -> list[int]:
    return [side] if isinstance(side, int) else list(side)


def _ports(place: LocalNode) -> tuple[int, ...]:
    return tuple(endpoint.port for endpoint in place.endpoints)


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
