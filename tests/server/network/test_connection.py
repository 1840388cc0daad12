"""Framing, reply order and back-pressure over real sockets.

The requests of these tests are `[length][tag: 4 bytes][command]`; a reply is `[length][tag][text]`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Iterable

import pytest

from odradek.adapters.net import SocketLink, TcpNet
from odradek.server.network.connection import ClientConnection
from odradek.server.network.listener import SWEEPS_PER_IDLE_TIME, ClientListener, ConnectionLimits

MIB = 1024 * 1024


def request(tag: int, command: bytes) -> bytes:
    command = command.ljust(4, b" ")
    return struct.pack(">ii", 4 + len(command), tag) + command


def reply(tag: int, text: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(text), tag) + text


class Desk:
    """Answers, parks or refuses; the test fills the parked slots."""

    def __init__(self) -> None:
        self.parked: dict[int, object] = {}
        self.handled: list[tuple[int, bytes]] = []
        self.lost: list[int] = []
        self.arrived = asyncio.Event()

    def handle(self, connection: ClientConnection, frame: memoryview, position: int, end: int):
        (tag,) = struct.unpack_from(">i", frame, position)
        command = bytes(frame[position + 4 : end]).rstrip()
        self.handled.append((tag, command))
        self.arrived.set()
        if command == b"park":
            self.parked[tag] = connection.park(stop_reading=False)
            return None
        if command == b"block":
            self.parked[tag] = connection.park(stop_reading=True, on_lost=lambda: self.lost.append(tag))
            return None
        if command == b"at once":
            connection.park(stop_reading=True).fill([reply(tag, b"at once")])
            return None
        if command == b"silent":
            return []
        if command == b"refuse":
            connection.end("refused")
            return None
        if command.startswith(b"big"):
            return [reply(tag, bytes(int(command[3:])))]
        return [reply(tag, command)]

    def fill(self, tag: int, text: bytes = b"later") -> None:
        self.parked.pop(tag).fill([reply(tag, text)])

    async def handled_count(self, count: int) -> None:
        while len(self.handled) < count:
            self.arrived.clear()
            await self.arrived.wait()


@contextlib.asynccontextmanager
async def served(**bounds):
    desk = Desk()
    listener = ClientListener(TcpNet(), ConnectionLimits(**bounds))
    await listener.bind("127.0.0.1", 0)
    listener.serve(desk.handle)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    try:
        yield desk, listener, reader, writer
    finally:
        writer.close()
        await listener.stop()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def until(holds) -> None:
    while not holds():  # noqa: ASYNC110 (the state under test has no event)
        await asyncio.sleep(0)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def others_are_served(listener: ClientListener) -> None:
    """A round trip on another connection: all bytes that had arrived before have been read by now."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    # Longer than what a test has parked, so that nothing of that is left in the shared receive buffer.
    text = b"other" * 50_000
    writer.write(request(77, text))
    await expect(reader, reply(77, text))
    writer.close()
    await writer.wait_closed()


async def closed(writers: Iterable[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def only_connection(listener: ClientListener) -> ClientConnection:
    await until(lambda: listener.connection_count)
    return next(iter(listener._connections))


async def expect(reader: asyncio.StreamReader, *replies: bytes) -> None:
    wanted = b"".join(replies)
    assert await reader.readexactly(len(wanted)) == wanted


def test_a_request_split_at_every_byte(run):
    stream = request(1, b"one") + request(2, b"two, somewhat longer")

    def seen(desk, connection):
        partial = 4 + connection._frame.filled if connection._frame else len(connection._prefix)
        return partial + sum(len(request(*handled)) for handled in desk.handled)

    async def scenario():
        async with served() as (desk, listener, reader, writer):
            connection = await only_connection(listener)
            for cut in range(1, len(stream)):
                desk.handled.clear()
                writer.write(stream[:cut])
                await until(lambda: seen(desk, connection) == cut)  # noqa: B023
                writer.write(stream[cut:])
                await expect(reader, reply(1, b"one"), reply(2, b"two, somewhat longer"))

    run(scenario())


def test_pipelined_requests_beyond_the_receive_buffer(run):
    async def scenario():
        async with served() as (_, _, reader, writer):
            texts = [b"x" * size for size in (4, 70_000, 300_000, 5, 2 * MIB, 6, MIB, 12 * MIB)]
            for tag, text in enumerate(texts):
                writer.write(request(tag, text))
            await expect(reader, *(reply(tag, text) for tag, text in enumerate(texts)))

    run(scenario())


@pytest.mark.parametrize("length", [0, 7, -1, -(2**31), 2**31 - 1, 1001])
def test_an_impossible_length_closes_only_this_connection_after_its_replies(run, caplog, length):
    async def scenario():
        async with served(request_bytes_max=1000) as (_, listener, reader, writer):
            writer.write(request(1, b"fine") + struct.pack(">i", length) + b"GET / HTTP/1.1")
            await expect(reader, reply(1, b"fine"))
            assert await reader.read() == b""
            other, other_writer = await asyncio.open_connection("127.0.0.1", listener.port)
            other_writer.write(request(2, b"alive"))
            await expect(other, reply(2, b"alive"))
            other_writer.close()

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert len([line for line in caplog.messages if "socket.request.max.bytes" in line]) == 1


def test_announcing_a_large_request_allocates_little(run):
    async def scenario():
        async with served() as (_, listener, _, writer):
            writer.write(struct.pack(">i", 90 * MIB) + b"only the beginning")
            await writer.drain()
            connection = await only_connection(listener)
            await until(lambda: connection._frame)
            assert len(connection._frame.buffer) <= 2 * MIB

    run(scenario())


def test_incomplete_requests_share_one_memory_budget(run, caplog):
    """A request that would exceed it is refused; the other one completes, and then there is room again."""
    text = bytes(3 * MIB)
    large = request(1, text)

    async def scenario():
        async with served(partial_requests_bytes_max=6 * MIB) as (_, listener, reader, writer):
            writer.write(large[:-1])
            await until(lambda: listener.frame_pool.bytes_in_use >= len(text))
            greedy, greedy_writer = await asyncio.open_connection("127.0.0.1", listener.port)
            greedy_writer.write(large)
            with contextlib.suppress(ConnectionResetError):
                assert await greedy.read() == b""
            greedy_writer.close()
            writer.write(large[-1:])
            await expect(reader, reply(1, text.rstrip()))
            assert listener.frame_pool.bytes_in_use == 0
            writer.write(large)
            await expect(reader, reply(1, text.rstrip()))

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert len([line for line in caplog.messages if "incomplete requests already take" in line]) == 1


def test_490_announced_requests_refuse_large_requests_of_others_until_they_are_idle(run):
    """They use up the default budget. A request that arrives in one read is served."""
    large = bytes(2 * MIB)

    async def refused(listener):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        with contextlib.suppress(ConnectionError):
            writer.write(request(1, large))
            assert await reader.read() == b""
        await closed([writer])

    async def scenario():
        async with served(idle_ms_max=-1) as (_, listener, reader, writer):
            holders = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(490)]
            for _, holder in holders:
                holder.write(struct.pack(">i", 100 * MIB))
            await until(lambda: listener.bytes_in == 4 * len(holders))
            await until(lambda: listener.connections_lost)
            await refused(listener)
            for tag in range(SWEEPS_PER_IDLE_TIME + 1):
                writer.write(request(tag, b"whole"))
                await expect(reader, reply(tag, b"whole"))
                listener._close_idle()
            await until(lambda: listener.connection_count == 1)
            assert listener.frame_pool.bytes_in_use == 0
            writer.write(request(99, large))
            await expect(reader, reply(99, large))
            await closed(writer for _, writer in holders)

    run(scenario())


def test_replies_keep_the_order_of_requests(run):
    async def scenario():
        async with served() as (desk, _, reader, writer):
            writer.write(
                request(1, b"now")
                + request(2, b"park")
                + request(3, b"now")
                + request(4, b"park")
                + request(5, b"silent")
                + request(6, b"at once")
            )
            await expect(reader, reply(1, b"now"))
            await desk.handled_count(6)
            desk.fill(4)
            desk.fill(2)
            await expect(reader, reply(2, b"later"), reply(3, b"now"), reply(4, b"later"), reply(6, b"at once"))

    run(scenario())


def test_parked_requests_answered_in_one_turn_leave_in_one_write(run, monkeypatch):
    writes: list[int] = []
    send = SocketLink.send

    def counted(link: SocketLink, parts: list[bytes]) -> None:
        writes.append(len(parts))
        send(link, parts)

    async def scenario():
        async with served() as (desk, _, reader, writer):
            writer.write(b"".join(request(tag, b"park") for tag in range(5)))
            await desk.handled_count(5)
            for tag in range(3):
                desk.fill(tag)
            await expect(reader, *(reply(tag, b"later") for tag in range(3)))
            desk.fill(3)
            desk.fill(4)
            await expect(reader, reply(3, b"later"), reply(4, b"later"))

    monkeypatch.setattr(SocketLink, "send", counted)
    run(scenario())
    assert writes == [3, 2]


def test_nothing_is_handled_behind_a_blocking_request(run):
    async def scenario():
        async with served() as (desk, listener, reader, writer):
            writer.write(request(1, b"block") + request(2, b"now") + request(3, b"block") + request(4, b"x" * 300_000))
            await desk.handled_count(1)
            writer.write(request(5, b"now"))
            await others_are_served(listener)
            assert [tag for tag, _ in desk.handled] == [1, 77]
            desk.fill(1)
            await expect(reader, reply(1, b"later"), reply(2, b"now"))
            await desk.handled_count(4)
            desk.fill(3)
            await expect(reader, reply(3, b"later"), reply(4, b"x" * 300_000), reply(5, b"now"))

    run(scenario())


def test_parked_requests_are_bounded(run):
    async def scenario():
        async with served(parked_requests_max=3) as (desk, listener, reader, writer):
            for tag in range(6):
                writer.write(request(tag, b"park"))
            await desk.handled_count(3)
            await others_are_served(listener)
            assert [tag for tag, _ in desk.handled] == [0, 1, 2, 77]
            for tag in range(6):
                await desk.handled_count(tag + 2)
                desk.fill(tag)
            await expect(reader, *(reply(tag, b"later") for tag in range(6)))

    run(scenario())


def test_replies_that_wait_behind_a_parked_request_are_bounded_too(run):
    async def scenario():
        async with served(parked_requests_max=3) as (desk, listener, reader, writer):
            writer.write(request(0, b"park") + b"".join(request(tag, b"now") for tag in range(1, 10)))
            await desk.handled_count(3)
            await others_are_served(listener)
            assert [tag for tag, _ in desk.handled] == [0, 1, 2, 77]
            desk.fill(0)
            await expect(reader, reply(0, b"later"), *(reply(tag, b"now") for tag in range(1, 10)))

    run(scenario())


def test_small_requests_for_large_replies_in_one_read_are_bounded(run):
    async def scenario():
        async with served(unsent_bytes_max=MIB) as (desk, listener, reader, writer):
            reader._transport.pause_reading()
            writer.write(b"".join(request(tag, b"big%d" % MIB) for tag in range(100)))
            connection = await only_connection(listener)
            await until(lambda: connection._stopped)
            assert len(desk.handled) < 50
            reader._transport.resume_reading()
            await expect(reader, *(reply(tag, bytes(MIB)) for tag in range(100)))

    run(scenario())


def test_a_client_that_does_not_read_its_replies_is_not_read_from(run):
    async def scenario():
        async with served(unsent_bytes_max=MIB) as (desk, listener, reader, writer):
            reader._transport.pause_reading()
            count = 200
            for tag in range(count):
                writer.write(request(tag, b"big%d" % (256 * 1024)))
            connection = await only_connection(listener)
            await until(lambda: connection._stopped)
            handled = len(desk.handled)
            assert handled < count
            await others_are_served(listener)
            assert len(desk.handled) == handled + 1
            reader._transport.resume_reading()
            await expect(reader, *(reply(tag, bytes(256 * 1024)) for tag in range(count)))

    run(scenario())


def test_a_refused_request_closes_after_the_replies_before_it(run):
    async def scenario():
        async with served() as (desk, _, reader, writer):
            writer.write(request(1, b"park") + request(2, b"refuse") + request(3, b"now"))
            await desk.handled_count(2)
            desk.fill(1)
            await expect(reader, reply(1, b"later"))
            assert await reader.read() == b""
            assert [tag for tag, _ in desk.handled] == [1, 2]

    run(scenario())


def test_a_lost_connection_notifies_the_parked_request_and_drops_its_reply(run):
    async def scenario():
        async with served() as (desk, listener, _, writer):
            writer.write(request(1, b"block"))
            await desk.handled_count(1)
            slot = desk.parked[1]
            (await only_connection(listener)).abort()
            await until(lambda: desk.lost)
            slot.fill([reply(1, b"nobody")])
            writer.transport.abort()

    run(scenario())


def test_stop_answers_parked_requests_and_closes(run):
    async def scenario():
        async with served() as (desk, listener, reader, writer):
            writer.write(request(1, b"block"))
            await desk.handled_count(1)
            stopping = asyncio.ensure_future(listener.stop())
            await asyncio.sleep(0)
            desk.fill(1)
            await expect(reader, reply(1, b"later"))
            assert await reader.read() == b""
            await stopping
            assert listener.connection_count == 0

    run(scenario())


def test_a_connection_accepted_just_before_a_stop_is_not_served(run):
    async def scenario():
        async with served() as (desk, listener, _, _):
            # The loop does this with a connection that it had accepted before the listener was closed.
            late = await asyncio.get_running_loop().create_server(lambda: ClientConnection(listener), "127.0.0.1", 0)
            await listener.stop()
            reader, writer = await asyncio.open_connection("127.0.0.1", late.sockets[0].getsockname()[1])
            writer.write(request(1, b"late"))
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            assert desk.handled == []
            late.close()
            writer.close()

    run(scenario())


def test_idle_connections_are_closed(run):
    async def scenario():
        async with served(idle_ms_max=40) as (_, listener, reader, _):
            assert await reader.read() == b""
            assert listener.connection_count == 0

    run(scenario())


def test_a_connection_in_use_is_not_idle(run):
    async def scenario():
        async with served() as (_, listener, reader, writer):
            for tag in range(3 * SWEEPS_PER_IDLE_TIME):
                listener._close_idle()
                writer.write(request(tag, b"busy"))
                await expect(reader, reply(tag, b"busy"))

    run(scenario())


def test_a_client_is_idle_when_it_takes_nothing_more_of_a_reply(run):
    async def scenario():
        async with served() as (_, listener, reader, writer):
            reader._transport.pause_reading()
            writer.write(request(1, b"big%d" % (64 * MIB)))
            connection = await only_connection(listener)
            await until(connection._link.unsent_bytes)
            reader._transport.resume_reading()
            for _ in range(2 * SWEEPS_PER_IDLE_TIME):
                before = connection._link.unsent_bytes()
                while connection._link.unsent_bytes() == before:
                    assert await reader.read(64 * 1024), "the connection was closed"
                listener._close_idle()
            assert listener.connections_expired == 0
            sweeps = 0
            while not listener.connections_expired:
                listener._close_idle()
                sweeps += 1
            assert sweeps <= SWEEPS_PER_IDLE_TIME + 2

    run(scenario())


def test_a_negative_idle_time_closes_no_connection(run):
    async def scenario():
        async with served(idle_ms_max=-1) as (_, listener, reader, writer):
            assert listener._sweep is None
            writer.write(request(1, b"still"))
            await expect(reader, reply(1, b"still"))

    run(scenario())


def test_an_idle_connection_owns_no_buffer(run):
    async def scenario():
        async with served() as (_, listener, reader, writer):
            writer.write(request(1, b"x" * MIB))
            await expect(reader, reply(1, b"x" * MIB))
            connection = await only_connection(listener)
            assert connection._frame is None
            assert connection._backlog is None
            assert connection._out == []
            assert sum(len(kept) for kept in listener.frame_pool._free.values()) == 1

    run(scenario())


def test_requests_that_arrive_before_the_node_serves_are_answered_afterwards(run):
    async def scenario():
        desk = Desk()
        listener = ClientListener(TcpNet(), ConnectionLimits())
        await listener.bind("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(request(1, b"early"))
        await only_connection(listener)
        await turns(100)  # more than enough turns to read it
        writer.write(request(2, b"bird"))
        await turns(100)
        listener.serve(desk.handle)
        await expect(reader, reply(1, b"early") + reply(2, b"bird"))
        writer.close()
        await listener.stop()

    run(scenario())


def test_a_connection_accepted_before_the_node_serves_and_made_afterwards_is_served(run):
    async def scenario():
        desk = Desk()
        listener = ClientListener(TcpNet(), ConnectionLimits())
        await listener.bind("127.0.0.1", 0)
        accepted = ClientConnection(listener)
        listener.serve(desk.handle)
        ours, theirs = socket.socketpair()
        await asyncio.get_running_loop().connect_accepted_socket(lambda: accepted, theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(request(1, b"late"))
        await expect(reader, reply(1, b"late"))
        writer.close()
        await listener.stop()

    run(scenario())
