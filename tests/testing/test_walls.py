"""Network partitions (walls) between nodes: traffic stops silently, and continues when a wall is removed."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from odradek.node.machine import MachineSpawner, machine_ports, new_event_loop
from odradek.testing.walls import WalledNet
from support.loops import WITHIN_S


class Echo(asyncio.BufferedProtocol):
    """Sends back the data that it receives, and remembers it."""

    def __init__(self, net, *, answers: bool) -> None:
        self._net = net
        self._answers = answers
        self._buffer = bytearray(1024)
        self.heard = b""
        self.news = asyncio.Event()
        self.is_lost = False

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.link = self._net.link(transport)

    def connection_lost(self, exc) -> None:
        self.link.lost()
        self.is_lost = True
        self.news.set()

    def get_buffer(self, sizehint):
        return self._buffer

    def buffer_updated(self, nbytes) -> None:
        self.heard += self._buffer[:nbytes]
        if self._answers:
            self.link.send([bytes(self._buffer[:nbytes])])
        self.news.set()

    async def until(self, heard: bytes) -> None:
        await self._until(lambda: self.heard == heard)

    async def until_lost(self) -> None:
        await self._until(lambda: self.is_lost)

    async def _until(self, holds) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not holds():
                self.news.clear()
                await self.news.wait()


class World:
    def __init__(self, net) -> None:
        self.net = net
        self.servers = []

    async def open(self) -> None:
        self.listener = await self.net.listen("127.0.0.1", 0, self._server)
        self.walled = WalledNet(self.net, [self.listener.port])

    def _server(self) -> Echo:
        self.servers.append(Echo(self.net, answers=True))
        return self.servers[-1]

    async def connected(self) -> Echo:
        client = Echo(self.walled, answers=False)
        await self.walled.connect("127.0.0.1", self.listener.port, lambda: client)
        return client

    def wall(self, *ports) -> None:
        self.walled.wall_off(ports)


def run(scenario) -> None:
    async def in_a_world():
        with machine_ports(None, MachineSpawner(lambda *_: None)) as ports:
            world = World(ports.net)
            await world.open()
            await asyncio.wait_for(scenario(world), WITHIN_S)
            await world.listener.close()
            for server in world.servers:
                server.transport.abort()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(in_a_world())


async def a_moment() -> None:
    """Waits long enough for data to arrive if it can."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.05)


def test_without_a_wall_all_data_arrives():
    async def scenario(world):
        client = await world.connected()
        client.link.send([b"a", b"b"])
        await client.until(b"ab")
        client.transport.abort()

    run(scenario)


def test_dropped_connections_are_lost_and_can_be_made_again():
    async def scenario(world):
        client = await world.connected()
        world.walled.drop_connections()
        await client.until_lost()
        client = await world.connected()
        client.link.send([b"a"])
        await client.until(b"a")
        client.transport.abort()

    run(scenario)


def test_data_sent_behind_a_wall_arrives_when_it_is_removed():
    async def scenario(world):
        client = await world.connected()
        world.wall(world.listener.port)
        client.link.send([b"a"])
        client.link.send([b"b"])
        assert client.link.unsent_bytes() == 2
        await a_moment()
        assert world.servers[0].heard == b""
        assert not client.is_lost
        assert not world.servers[0].is_lost
        world.wall()
        await client.until(b"ab")
        client.transport.abort()

    run(scenario)


def test_data_from_behind_a_wall_is_not_received():
    async def scenario(world):
        client = await world.connected()
        client.link.send([b"a"])
        await client.until(b"a")
        world.wall(world.listener.port)
        world.servers[0].link.send([b"b"])
        await a_moment()
        assert client.heard == b"a"
        world.wall()
        await client.until(b"ab")
        client.transport.abort()

    run(scenario)


def test_connection_is_made_when_the_wall_is_removed():
    async def scenario(world):
        world.wall(world.listener.port)
        connecting = asyncio.ensure_future(world.connected())
        await a_moment()
        assert not connecting.done()
        world.wall()
        client = await connecting
        client.link.send([b"a"])
        await client.until(b"a")
        client.transport.abort()

    run(scenario)


def test_connection_closed_behind_a_wall_is_forgotten():
    async def scenario(world):
        client = await world.connected()
        world.wall(world.listener.port)
        client.link.send([b"a"])
        client.transport.abort()
        await client.until_lost()
        world.wall()
        assert not world.walled._links
        assert world.servers[0].heard == b""

    run(scenario)


@pytest.mark.parametrize("walled", [True, False])
def test_walls_do_not_affect_clients(walled):
    async def scenario(world):
        world.walled = WalledNet(world.net, [world.listener.port] if walled else [])
        client = await world.connected()
        world.wall(1)
        client.link.send([b"a"])
        await client.until(b"a")
        client.transport.abort()

    run(scenario)
