import asyncio
from random import Random

import pytest

from odradek.base.ports import Region
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs
from odradek.sim.loop import Host, SimLoop
from odradek.sim.net import NetKnobs, SimNet, Wall, one_way, two_ways


class Recorder(asyncio.BufferedProtocol):
    def __init__(self):
        self.received = bytearray()
        self.pieces = 0
        self.lost = False
        self.reason = None
        self.transport = None
        self.on_resume = lambda: None

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, sizehint):
        self._buffer = bytearray(min(sizehint, 1000))
        return self._buffer

    def buffer_updated(self, nbytes):
        self.received += self._buffer[:nbytes]
        self.pieces += 1

    def connection_lost(self, exc):
        self.lost = True
        self.reason = exc

    def pause_writing(self):
        pass

    def resume_writing(self):
        self.on_resume()


class Wire:
    """A client and a server with one connection between them."""

    def __init__(self, seed=1, **knobs):
        self.loop = SimLoop(Random(seed))
        self.net = SimNet(self.loop, Random(seed), NetKnobs(**knobs))
        self.client_host, self.server_host = Host("client"), Host("server", "10.0.0.1")
        self.client, self.server = Recorder(), Recorder()
        self.loop.run_until_complete(self._connect())

    async def _connect(self):
        listener = await self.net.of(self.server_host).listen("10.0.0.1", 9092, lambda: self.server)
        await self.net.of(self.client_host).connect("10.0.0.1", listener.port, lambda: self.client)
        await asyncio.sleep(1)

    def run(self, seconds=60):
        self.loop.run_until_complete(asyncio.sleep(seconds))


def test_bytes_arrive_in_order_in_odd_pieces():
    wire = Wire(piece_bytes_max=700, window_bytes=2000, straggle=0.1)
    sent = Random(2).randbytes(50_000)
    for position in range(0, len(sent), 5000):
        wire.client.transport.write(sent[position : position + 5000])
    wire.run()
    assert bytes(wire.server.received) == sent
    assert wire.server.pieces > 70


def test_both_directions_at_once():
    wire = Wire()
    wire.client.transport.write(b"ping")
    wire.server.transport.write(b"pong")
    wire.run()
    assert (bytes(wire.server.received), bytes(wire.client.received)) == (b"ping", b"pong")


def test_a_paused_reader_stops_the_writer():
    wire = Wire(window_bytes=1000)
    wire.server.transport.pause_reading()
    wire.client.transport.write(bytes(300_000))
    wire.run()
    assert wire.server.received == b""
    assert wire.client.transport.get_write_buffer_size() > 200_000
    wire.server.transport.resume_reading()
    wire.run(600)
    assert len(wire.server.received) == 300_000


def test_closing_delivers_everything_first():
    wire = Wire(window_bytes=100)
    wire.client.transport.write(bytes(5000))
    wire.client.transport.close()
    wire.run()
    assert len(wire.server.received) == 5000
    assert (wire.client.lost, wire.server.lost) == (True, True)
    assert wire.server.reason is None


def test_a_reset_reaches_both_ends_and_may_cut_a_frame():
    wire = Wire(piece_bytes_max=10, delay_mean_us=1000)
    wire.client.transport.write(bytes(1000))
    received = []

    def reset():
        received.append(len(wire.server.received))
        wire.net.reset_one()

    wire.loop.call_later(0.002, reset)
    wire.run()
    assert 0 < received[0] < 1000
    assert len(wire.server.received) == received[0]
    assert isinstance(wire.server.reason, ConnectionResetError)
    assert isinstance(wire.client.reason, ConnectionResetError)


def test_power_loss_is_silent_until_the_machine_returns():
    wire = Wire()
    wire.loop.cut(wire.server_host)
    wire.net.host_lost_power(wire.server_host)
    wire.client.transport.write(b"hello?")
    wire.run()
    assert not wire.client.lost
    wire.net.host_returned(wire.server_host)
    wire.run()
    assert isinstance(wire.client.reason, ConnectionResetError)


def test_a_killed_process_resets_its_peers():
    wire = Wire()
    wire.loop.cut(wire.server_host)
    wire.net.host_killed(wire.server_host)
    wire.run()
    assert isinstance(wire.client.reason, ConnectionResetError)


def test_connecting_to_a_killed_process_is_refused():
    wire = Wire()
    wire.net.host_killed(wire.server_host)
    with pytest.raises(ConnectionRefusedError):
        wire.loop.run_until_complete(wire.net.of(wire.client_host).connect("10.0.0.1", 9092, Recorder))


def test_a_clog_holds_and_then_releases():
    wire = Wire()
    wire.net.clog(wire.server_host, 30 * 10**9)
    wire.client.transport.write(b"late")
    wire.run(20)
    assert wire.server.received == b""
    wire.run(20)
    assert bytes(wire.server.received) == b"late"


def test_a_link_copies_regions_and_releases_each_once():
    wire = Wire(window_bytes=1000)
    mounted = SimDisk(Random(1), DiskKnobs()).mount()
    file = mounted.open("segment", create=True)
    file.pwrite(b"a" * 50_000 + b"b" * 50_000, 0)
    link = wire.net.of(wire.client_host).link(wire.client.transport)
    wire.client.on_resume = link.pump
    link.send([b"head", Region(file, 0, 50_000), b"middle", Region(file, 50_000, 50_000)])
    assert link.unsent_bytes() > 90_000
    file.close()
    wire.run(600)
    assert bytes(wire.server.received) == b"head" + b"a" * 50_000 + b"middle" + b"b" * 50_000
    assert link.unsent_bytes() == 0
    assert file.pins == 0


def test_a_lost_link_releases_its_regions():
    wire = Wire(window_bytes=1000)
    file = SimDisk(Random(1), DiskKnobs()).mount().open("segment", create=True)
    file.pwrite(bytes(200_000), 0)
    link = wire.net.of(wire.client_host).link(wire.client.transport)
    link.send([Region(file, 0, 100_000), Region(file, 100_000, 100_000)])
    link.lost()
    assert (file.pins, link.unsent_bytes()) == (0, wire.client.transport.get_write_buffer_size())


OUT = one_way(["client"], ["10.0.0.1"])
BOTH = two_ways(["client"], ["10.0.0.1"])


def test_a_wall_holds_one_direction_and_keeps_the_order():
    wire = Wire(piece_bytes_max=100)
    wall = Wall(ways=OUT)
    wire.net.raise_wall(wall)
    sent = Random(3).randbytes(2000)
    for position in range(0, len(sent), 500):
        wire.client.transport.write(sent[position : position + 500])
    wire.server.transport.write(b"I can be heard")
    wire.run()
    assert (wire.server.received, bytes(wire.client.received)) == (b"", b"I can be heard")
    wire.net.tear_down(wall)
    wire.client.transport.write(b"after")
    wire.run()
    assert bytes(wire.server.received) == sent + b"after"


def test_two_walls_fall_one_by_one():
    wire = Wire()
    walls = [Wall(ways=OUT), Wall(ways=BOTH)]
    for wall in walls:
        wire.net.raise_wall(wall)
    wire.client.transport.write(b"late")
    wire.net.tear_down(walls[0])
    wire.run()
    assert wire.server.received == b""
    wire.net.tear_down(walls[1])
    wire.run()
    assert bytes(wire.server.received) == b"late"


def test_bytes_of_a_killed_host_behind_a_wall_are_lost_and_its_reset_arrives_when_the_wall_falls():
    wire = Wire()
    wall = Wall(ways=BOTH)
    wire.net.raise_wall(wall)
    wire.server.transport.write(b"testament")
    wire.loop.cut(wire.server_host)
    wire.net.host_killed(wire.server_host)
    wire.run()
    assert not wire.client.lost
    wire.net.tear_down(wall)
    wire.run()
    assert wire.client.received == b""
    assert isinstance(wire.client.reason, ConnectionResetError)


def test_a_wall_that_rejects_resets_the_connections_across_it():
    wire = Wire()
    wire.net.raise_wall(Wall(ways=OUT, rejects=True))
    wire.run()
    assert isinstance(wire.server.reason, ConnectionResetError)
    assert isinstance(wire.client.reason, ConnectionResetError)
    with pytest.raises(ConnectionRefusedError):
        wire.loop.run_until_complete(wire.net.of(wire.client_host).connect("10.0.0.1", 9092, Recorder))


def test_connecting_through_a_wall_or_to_a_host_without_power_times_out():
    wire = Wire()
    wall = Wall(ways=OUT)
    wire.net.raise_wall(wall)
    connect = wire.net.of(wire.client_host).connect
    with pytest.raises(TimeoutError):
        wire.loop.run_until_complete(connect("10.0.0.1", 9092, Recorder))
    wire.loop.call_later(0.5, wire.net.tear_down, wall)
    wire.loop.run_until_complete(connect("10.0.0.1", 9092, Recorder))
    wire.net.host_lost_power(wire.server_host)
    with pytest.raises(TimeoutError):
        wire.loop.run_until_complete(connect("10.0.0.1", 9092, Recorder))


def test_a_slow_way_is_slow_in_its_direction():
    wire = Wire(delay_mean_us=1000)
    wire.net.slow_ways[OUT[0]] = 10_000.0
    wire.client.transport.write(b"slow")
    wire.server.transport.write(b"quick")
    wire.run(0.4)
    assert (wire.server.received, bytes(wire.client.received)) == (b"", b"quick")
    wire.run()
    assert bytes(wire.server.received) == b"slow"
