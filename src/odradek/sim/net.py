"""A network between hosts: streams of bytes with delays, odd cuts, resets, clogs, walls and silence.

One direction of a connection always delivers its bytes in order, as TCP promises. Everything else is open: how many
pieces a write arrives in, when, and whether the other end is still there. A machine that lost power sends nothing
(half-open connections). A killed process resets its connections. A machine that boots again resets old connections.

A wall (a network partition) blocks one direction between two addresses: bytes sent wait until it falls, and connections
are not made. A wall that rejects also resets the connections across it, as some firewalls do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from odradek.base.ports import ProtocolFactory
from odradek.sim.loop import MILLISECOND_NS, Host, SimLoop
from odradek.sim.transport import SimLink, SimTransport

Way = tuple[str, str]

# Without an answer, the first packet is sent again after each of these; then the connection attempt fails.
_CONNECT_AGAIN_MS = (200, 400, 800, 1600, 3200)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetKnobs:
    delay_min_us: int = 50
    delay_mean_us: int = 500
    # Arrival times are rounded up to this, so that events coincide.
    quantum_us: int = 1
    # The largest piece that arrives at once.
    piece_bytes_max: int = 65_536
    # Bytes in flight before the sender has to wait.
    window_bytes: int = 65_536
    # Per piece: this one is late, and so is everything behind it.
    straggle: float = 0.0
    straggle_ms_max: int = 2_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wall:
    """`ways`: pairs of addresses (from, to) between which nothing passes."""

    ways: tuple[Way, ...]
    rejects: bool = False


class SimNet:
    """All machines' network. `of(host)` gives one host its Net port."""

    def __init__(self, loop: SimLoop, rng: Random, knobs: NetKnobs) -> None:
        self.loop = loop
        self.rng = rng
        self.knobs = knobs
        self.listeners: dict[tuple[str, int], _Listener] = {}
        self.connections: list[_Connection] = []
        self.faults = {"connection reset": 0, "clog": 0, "half-open connection": 0}
        self.walls: list[Wall] = []
        # How many times slower than the others.
        self.slow_ways: dict[Way, float] = {}
        # Machines without power.
        self._dark: dict[str, None] = {}
        self._ports_given = 0

    def of(self, host: Host) -> HostNet:
        return HostNet(self, host)

    def delay_ns(self, slower: float = 1.0) -> int:
        knobs = self.knobs
        # Both draws happen whether or not the piece straggles, so that the knob does not shift later draws.
        delay_us = (knobs.delay_min_us + self.rng.expovariate(1.0) * knobs.delay_mean_us) * slower
        straggles = self.rng.random() < knobs.straggle
        late_us = self.rng.randrange(knobs.straggle_ms_max * 1000)
        if straggles:
            delay_us += late_us
        return int(delay_us) * 1000

    def arrival_ns(self, not_before_ns: int, sender: Host, receiver: Host) -> int:
        quantum_ns = self.knobs.quantum_us * 1000
        slower = self.slow_ways.get((sender.address, receiver.address), 1.0)
        arrival = max(not_before_ns, self.loop.now_ns + self.delay_ns(slower))
        return -(-arrival // quantum_ns) * quantum_ns

    # Walls

    def raise_wall(self, wall: Wall) -> None:
        self.walls.append(wall)
        if wall.rejects:
            for connection in self.living():
                client, server = (end.host.address for end in connection.ends)
                if (client, server) in wall.ways or (server, client) in wall.ways:
                    connection.break_off()

    def tear_down(self, wall: Wall) -> None:
        self.walls.remove(wall)
        for connection in self.living():
            for end in connection.ends:
                end.wall_fell()

    def tear_down_all(self) -> None:
        for wall in list(self.walls):
            self.tear_down(wall)

    def is_walled(self, sender: Host, receiver: Host) -> bool:
        return bool(self.walls) and self._walls_on((sender.address, receiver.address))

    def _walls_on(self, way: Way) -> bool:
        return any(way in wall.ways for wall in self.walls)

    def silence_between(self, caller: str, called: str) -> bool:
        """Whether a call would not be answered, not even by a refusal."""
        both = ((caller, called), (called, caller))
        if any(way in wall.ways for way in both for wall in self.walls if wall.rejects):
            return False
        return called in self._dark or any(self._walls_on(way) for way in both)

    def rejected_between(self, caller: str, called: str) -> bool:
        both = ((caller, called), (called, caller))
        return any(way in wall.ways for way in both for wall in self.walls if wall.rejects)

    # Faults

    def living(self) -> list[_Connection]:
        self.connections = [connection for connection in self.connections if not connection.over()]
        return self.connections

    def reset_one(self) -> bool:
        """A middlebox forgets one connection: bytes in flight are lost, and each end learns of it at its own time."""
        living = self.living()
        if not living:
            return False
        self.rng.choice(living).break_off()
        self.faults["connection reset"] += 1
        return True

    def clog(self, host: Host, duration_ns: int) -> None:
        """Nothing reaches or leaves the host for a while; all of it comes afterwards."""
        self.faults["clog"] += 1
        until = self.loop.now_ns + duration_ns
        for connection in self.living():
            if any(end.host is host for end in connection.ends):
                for end in connection.ends:
                    end.not_before_ns = max(end.not_before_ns, until)

    def host_lost_power(self, host: Host) -> None:
        """No last packet: peers are left with half-open connections."""
        self._dark[host.address] = None
        self._forget_listeners(host)
        for connection in self.living():
            if any(end.host is host for end in connection.ends):
                self.faults["half-open connection"] += 1

    def host_killed(self, host: Host) -> None:
        """The kernel closes the process's sockets; their peers see a reset."""
        self._forget_listeners(host)
        for connection in self.living():
            for end in connection.ends:
                if end.peer.host is host:
                    end.reset_arrives()

    def host_returned(self, dead: Host) -> None:
        """The machine is up again and knows none of the old connections: it answers their packets with resets."""
        self._dark.pop(dead.address, None)
        self.host_killed(dead)

    def _forget_listeners(self, host: Host) -> None:
        for address in [address for address, listener in self.listeners.items() if listener.host is host]:
            del self.listeners[address]

    def free_port(self) -> int:
        self._ports_given += 1
        return 40_000 + self._ports_given


def two_ways(some: Iterable[str], others: Iterable[str]) -> tuple[Way, ...]:
    return tuple(way for one in some for other in others for way in ((one, other), (other, one)))


def one_way(senders: Iterable[str], receivers: Iterable[str]) -> tuple[Way, ...]:
    return tuple((sender, receiver) for sender in senders for receiver in receivers)


class HostNet:
    """The Net port of one host."""

    def __init__(self, net: SimNet, host: Host) -> None:
        self._net = net
        self._host = host

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> _Listener:
        listener = _Listener(self._net, self._host, host, port or self._net.free_port(), factory)
        if (host, listener.port) in self._net.listeners:
            raise OSError(98, "address already in use")
        self._net.listeners[host, listener.port] = listener
        return listener

    async def connect(self, host: str, port: int, factory: ProtocolFactory) -> None:
        net = self._net
        await self._until_answered(host, port)
        listener = net.listeners.get((host, port))
        if listener is None or not listener.host.alive or net.rejected_between(self._host.address, host):
            raise ConnectionRefusedError(111, f"no socket open on {host}:{port}")
        connection = _Connection(net, self._host, listener.host)
        net.connections.append(connection)
        client, server = connection.ends
        server.open(listener.factory, (host, port))
        client.open(factory, (host, port))

    async def _until_answered(self, host: str, port: int) -> None:
        net, own = self._net, self._host
        for again_ms in _CONNECT_AGAIN_MS:
            await _until(net, net.arrival_ns(0, own, own))
            if not net.silence_between(own.address, host):
                return
            await _until(net, net.loop.now_ns + again_ms * MILLISECOND_NS)
        raise TimeoutError(110, f"no responses from {host}:{port}")

    def link(self, transport: asyncio.Transport) -> SimLink:
        if not isinstance(transport, SimTransport):
            raise TypeError(f"{transport!r} is not of this network")
        return SimLink(transport)


async def _until(net: SimNet, when_ns: int) -> None:
    arrived = net.loop.create_future()
    net.loop.call_at_ns(when_ns, net.loop.current, _set_unless_done, arrived)
    await arrived


def _set_unless_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Listener:
    def __init__(self, net: SimNet, owner: Host, address: str, port: int, factory: ProtocolFactory) -> None:
        self._net = net
        self._address = address
        self.host = owner
        self.port = port
        self.factory = factory

    async def close(self) -> None:
        self._net.listeners.pop((self._address, self.port), None)


class _Connection:
    def __init__(self, net: SimNet, client: Host, server: Host) -> None:
        self.ends = (SimTransport(net, client), SimTransport(net, server))
        self.ends[0].peer, self.ends[1].peer = self.ends[1], self.ends[0]

    def over(self) -> bool:
        return all(end.lost or not end.host.alive for end in self.ends)

    def break_off(self) -> None:
        for end in self.ends:
            end.break_off()
