"""Links over real sockets: order, large files through sendfile, slow and lost readers, released pins."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket

import pytest

from odradek.adapters.disk import OsDisk
from odradek.adapters.memory_disk import MemoryDisk
from odradek.adapters.net import SENDFILE_BYTES_MIN, TcpNet
from odradek.base.ports import Region

MIB = 1024 * 1024


class Sender(asyncio.BufferedProtocol):
    """The server side: gives its link to the test."""

    def __init__(self, net: TcpNet, made: asyncio.Future) -> None:
        self._net = net
        self._made = made
        self.sent = asyncio.Event()
        self.sent.set()
        self.gone = asyncio.Event()

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.link = self._net.link(transport)
        self._made.set_result(self)

    def get_buffer(self, sizehint):
        return bytearray(10)

    def buffer_updated(self, nbytes) -> None: ...

    def pause_writing(self) -> None:
        self.sent.clear()

    def resume_writing(self) -> None:
        self.sent.set()
        self.link.pump()

    def connection_lost(self, exc) -> None:
        self.link.lost()
        self.gone.set()


@contextlib.asynccontextmanager
async def connected():
    made = asyncio.get_running_loop().create_future()
    net = TcpNet()
    listener = await net.listen("127.0.0.1", 0, lambda: Sender(net, made))
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=64 * MIB)
    sender = await made
    try:
        yield sender, reader
    finally:
        writer.transport.abort()
        await sender.gone.wait()
        await listener.close()


@pytest.fixture(params=["disk", "memory"])
def file(request, tmp_path):
    disk = OsDisk(str(tmp_path)) if request.param == "disk" else MemoryDisk()
    file = disk.open("segment", create=True)
    file.pwrite(content(0, 16 * MIB), 0)
    return PinCount(file)


def content(position: int, length: int) -> bytes:
    pattern = bytes(range(251)) * (length // 251 + 2)
    return pattern[position % 251 :][:length]


class PinCount:
    """A file that counts its pins."""

    def __init__(self, file) -> None:
        self._file = file
        self.pins = 0

    def __getattr__(self, name):
        return getattr(self._file, name)

    def pin(self) -> None:
        self.pins += 1
        self._file.pin()

    def unpin(self) -> None:
        self.pins -= 1
        self._file.unpin()


def test_parts_arrive_in_order_whatever_their_size(run, file):
    small, large = SENDFILE_BYTES_MIN - 1, 3 * MIB

    async def scenario():
        async with connected() as (sender, reader):
            sender.link.send([b"a", Region(file, 5, small), bytearray(b"b"), Region(file, 7, large), b"c"])
            sender.link.send([b"d", Region(file, MIB, large)])
            sender.link.send([b"e"])
            wanted = b"a" + content(5, small) + b"b" + content(7, large) + b"cd" + content(MIB, large) + b"e"
            assert await reader.readexactly(len(wanted)) == wanted
            await sender.sent.wait()
            assert sender.link.unsent_bytes() == 0
            assert file.pins == 0

    run(scenario())


def test_a_slow_reader_pauses_the_writer(run, file):
    async def scenario():
        async with connected() as (sender, reader):
            reader._transport.pause_reading()
            for _ in range(4):
                sender.link.send([b"<", Region(file, 0, 16 * MIB), b">"])
            assert not sender.sent.is_set()
            unsent = sender.link.unsent_bytes()
            assert 32 * MIB < unsent < 65 * MIB
            reader._transport.resume_reading()
            for _ in range(4):
                assert await reader.readexactly(16 * MIB + 2) == b"<" + content(0, 16 * MIB) + b">"
            await sender.sent.wait()
            assert sender.link.unsent_bytes() == 0
            assert file.pins == 0

    run(scenario())


def test_a_lost_connection_releases_its_regions(run, file):
    async def scenario():
        async with connected() as (sender, reader):
            reader._transport.pause_reading()
            for _ in range(3):
                sender.link.send([Region(file, 0, 16 * MIB)])
            reader._transport.abort()
            await sender.gone.wait()
            assert file.pins == 0
            assert sender.link.unsent_bytes() >= 0

    run(scenario())


def test_no_frame_follows_an_incomplete_one(run, tmp_path):
    file = OsDisk(str(tmp_path)).open("segment", create=True)
    file.pwrite(b"x" * MIB, 0)
    counted = PinCount(file)

    async def scenario():
        async with connected() as (sender, reader):
            sender.link.send([b"frame", Region(counted, MIB, MIB), b"end"])
            sender.link.send([Region(counted, 0, MIB)])
            assert sender.link.unsent_bytes() == 0
            assert await reader.read() in (b"", b"frame")
            await sender.gone.wait()
            assert counted.pins == 0

    run(scenario())


def test_a_connection_closes_when_no_descriptor_is_left_to_wait_with(run, file, monkeypatch):
    def no_dup(fd):
        raise OSError(errno.EMFILE, "Too many open files")

    async def scenario():
        async with connected() as (sender, reader):
            reader._transport.pause_reading()
            monkeypatch.setattr("odradek.adapters.net.os.dup", no_dup)
            sender.link.send([Region(file, 0, 16 * MIB)])
            sender.link.send([Region(file, 0, 16 * MIB)])
            await sender.gone.wait()
            assert file.pins == 0

    if file.fileno() >= 0:
        run(scenario())


@pytest.mark.parametrize("promised", [1000, MIB])
def test_a_file_that_ends_early_closes_the_connection(run, tmp_path, promised):
    async def scenario():
        file = PinCount(OsDisk(str(tmp_path)).open("segment", create=True))
        file.pwrite(content(0, 100), 0)
        async with connected() as (sender, reader):
            sender.link.send([b"head", Region(file, 0, promised), Region(file, 0, 100)])
            await sender.gone.wait()
            assert file.pins == 0
            with contextlib.suppress(ConnectionResetError):
                await reader.read()

    run(scenario())


def test_nagles_algorithm_is_disabled_for_replies(run):
    async def scenario():
        async with connected() as (sender, _):
            with socket.socket(fileno=sender.transport.get_extra_info("socket").fileno()) as view:
                nodelay = view.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                view.detach()
            assert nodelay

    run(scenario())
