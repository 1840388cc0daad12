"""Requests to another node over real sockets: order, timeouts, lost connections, invalid replies, reconnecting."""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
from dataclasses import dataclass
from random import Random

import pytest

from odradek.adapters.clock import SystemClock
from odradek.adapters.net import TcpNet
from odradek.adapters.spawner import AsyncioSpawner
from odradek.base import limits
from odradek.protocol.headers import decode_request_header, response_frame
from odradek.protocol.messages.p53_begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from odradek.protocol.messages.p63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.server.network import peers as peers_module
from odradek.server.network.listener import ClientListener, ConnectionLimits
from odradek.server.network.peers import Peers, PeerUnavailable
from odradek.sim.loop import Host, SimLoop
from odradek.sim.net import NetKnobs, SimNet
from odradek.sim.ports import SimClock

LONG_MS = 8_000


@dataclass(frozen=True)
class Place:
    host: str
    port: int


class Heard:
    """A request that the node under our control has received."""

    def __init__(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        header = decode_request_header(memoryview(frame), 0, len(frame))
        self.writer = writer
        self.api_key, self.version, self.correlation_id, self.client_id, body = header
        self.body = frame[body:]

    def answer(self, response) -> None:
        self.writer.write(self.frame(response))

    def frame(self, response) -> bytes:
        return response_frame(self.api_key, self.version, self.correlation_id, response.encode(self.version))


class Node:
    """Accepts connections and says what the test tells it to say."""

    def __init__(self) -> None:
        self.connections: list[asyncio.StreamWriter] = []
        self.requests: asyncio.Queue[Heard] = asyncio.Queue()
        self.port = 0

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                self.requests.put_nowait(Heard(writer, await reader.readexactly(length)))
        writer.close()

    async def stop(self) -> None:
        self._server.close()
        for writer in self.connections:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def asking():
    """A node with the id 1, and peers that know it."""
    failures: list[object] = []
    spawner = AsyncioSpawner(lambda name, broken: failures.append((name, broken)))
    node = Node()
    await node.start()
    places = {1: Place("127.0.0.1", node.port)}
    peers = Peers(net=TcpNet(), clock=SystemClock(), spawner=spawner, resolve=places.get, client_id="node-7")
    peers.places = places
    peers.lost = []
    peers.on_lost = peers.lost.append
    try:
        yield peers, node
    finally:
        await peers.close()
        await node.stop()
        await spawner.close()
        assert failures == []


def heartbeat(number: int) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(broker_id=number)


def ask(peers: Peers, number: int = 0, timeout_ms: int = LONG_MS, **more) -> asyncio.Task:
    return asyncio.ensure_future(peers.ask(1, heartbeat(number), 1, timeout_ms=timeout_ms, **more))


async def connected(peers: Peers, node: Node) -> None:
    """Requests after this are sent at once, without connecting first."""
    asked = ask(peers)
    (await node.requests.get()).answer(BrokerHeartbeatResponse())
    await asked


async def until(holds) -> None:
    while not holds():  # noqa: ASYNC110 (the state under test has no event)
        await asyncio.sleep(0)


def test_the_answer_is_the_response_that_belongs_to_the_request(run):
    async def scenario():
        async with asking() as (peers, node):
            asked = ask(peers, 5)
            heard = await node.requests.get()
            assert (heard.api_key, heard.version, heard.client_id) == (63, 1, "node-7")
            assert BrokerHeartbeatRequest.decode(heard.body, 1) == heartbeat(5)
            heard.answer(BrokerHeartbeatResponse(error_code=3, is_fenced=False))
            assert await asked == BrokerHeartbeatResponse(error_code=3, is_fenced=False)
            # And with a header that has no tagged fields.
            asked = asyncio.ensure_future(peers.ask(1, BeginQuorumEpochRequest(), 0, timeout_ms=LONG_MS))
            (await node.requests.get()).answer(BeginQuorumEpochResponse(error_code=9))
            assert (await asked).error_code == 9

    run(scenario())


def test_requests_are_pipelined_on_one_connection_and_each_gets_its_own_answer(run):
    async def scenario():
        async with asking() as (peers, node):
            asked = [ask(peers, number) for number in range(50)]
            heard = [await node.requests.get() for _ in asked]
            for request in heard:
                number = BrokerHeartbeatRequest.decode(request.body, 1).broker_id
                request.answer(BrokerHeartbeatResponse(error_code=number))
            assert [answer.error_code for answer in await asyncio.gather(*asked)] == list(range(50))
            assert len(node.connections) == 1

    run(scenario())


def test_each_purpose_has_a_connection_of_its_own(run):
    async def scenario():
        async with asking() as (peers, node):
            held = ask(peers, purpose="slow")
            await node.requests.get()
            quick = ask(peers, purpose="quick")
            (await node.requests.get()).answer(BrokerHeartbeatResponse())
            await quick
            assert not held.done()
            assert len(node.connections) == 2
            held.cancel()

    run(scenario())


def test_a_reply_split_at_every_byte(run):
    async def scenario():
        async with asking() as (peers, node):
            for cut in range(1, 16):
                first, second = ask(peers, 1), ask(peers, 2)
                one, two = await node.requests.get(), await node.requests.get()
                stream = one.frame(BrokerHeartbeatResponse(error_code=1)) + two.frame(
                    BrokerHeartbeatResponse(error_code=2)
                )
                connection = next(iter(peers._connections))
                arrivals = connection.arrivals
                one.writer.write(stream[:cut])
                await until(lambda: connection.arrivals > arrivals)  # noqa: B023
                one.writer.write(stream[cut:])
                assert [(await asked).error_code for asked in (first, second)] == [1, 2]

    run(scenario())


def test_large_replies_and_views_that_outlive_later_replies(run):
    async def scenario():
        async with asking() as (peers, node):
            sizes = [10, 70_000, 300_000, 5_000_000, 11]
            kept = []
            for number, size in enumerate(sizes):
                asked = asyncio.ensure_future(peers.ask_for_bytes(1, b"", 63, 0, timeout_ms=LONG_MS))
                heard = await node.requests.get()
                body = bytes([number]) * size
                heard.writer.write(response_frame(63, 0, heard.correlation_id, body))
                kept.append((await asked, body))
            assert all(view == body for view, body in kept)

    run(scenario())


def test_a_reply_out_of_order_closes_the_connection(run):
    async def scenario():
        async with asking() as (peers, node):
            asked = [ask(peers, 1), ask(peers, 2)]
            await node.requests.get()
            (await node.requests.get()).answer(BrokerHeartbeatResponse())
            for task in asked:
                with pytest.raises(PeerUnavailable, match="out of order"):
                    await task
            assert peers.lost == [1]

    run(scenario())


def test_a_reply_without_a_request_closes_the_connection(run, caplog):
    async def scenario():
        async with asking() as (peers, node):
            asked = ask(peers)
            heard = await node.requests.get()
            heard.answer(BrokerHeartbeatResponse())
            heard.answer(BrokerHeartbeatResponse())
            await asked
            await until(lambda: peers.lost == [1])
            await until(lambda: not peers._connections)

    with caplog.at_level("INFO"):
        run(scenario())
    assert [(record.levelname, "out of order" in record.message) for record in caplog.records] == [("INFO", True)]


def test_tagged_fields_of_a_header_are_skipped(run):
    async def scenario():
        async with asking() as (peers, node):
            asked = ask(peers)
            heard = await node.requests.get()
            frame = heard.frame(BrokerHeartbeatResponse(error_code=4))
            tagged = frame[4:8] + b"\x02\x05\x01x\x07\x00" + frame[9:]
            heard.writer.write(struct.pack(">i", len(tagged)) + tagged)
            assert (await asked).error_code == 4

    run(scenario())


@pytest.mark.parametrize("length", [-1, -(1 << 31), 0, 3, limits.peer_reply_bytes_max + 1, (1 << 31) - 1])
def test_a_reply_of_an_invalid_length_closes_the_connection(run, length):
    async def scenario():
        async with asking() as (peers, node):
            asked = ask(peers)
            heard = await node.requests.get()
            heard.writer.write(struct.pack(">ii", length, heard.correlation_id))
            with pytest.raises(PeerUnavailable, match="announced"):
                await asked
            assert peers.lost == [1]

    run(scenario())


def test_a_long_announcement_costs_no_memory_before_its_bytes_arrive(run):
    async def scenario():
        async with asking() as (peers, node):
            asked = ask(peers)
            heard = await node.requests.get()
            heard.writer.write(struct.pack(">ii", limits.peer_reply_bytes_max, heard.correlation_id))
            connection = next(iter(peers._connections))
            await until(lambda: connection._frame)
            assert len(connection._frame.buffer) < 2 * limits.MIB
            heard.writer.close()
            with pytest.raises(PeerUnavailable):
                await asked

    run(scenario())


@pytest.mark.parametrize("body", [b"\xff\xff\xff\xff\xff\xff", b"\x01", b"\x00\x00"], ids=["tags", "tag", "body"])
def test_a_reply_that_cannot_be_read(run, body):
    async def scenario():
        async with asking() as (peers, node):
            asked = ask(peers)
            heard = await node.requests.get()
            heard.writer.write(struct.pack(">ii", 4 + len(body), heard.correlation_id) + body)
            with pytest.raises(PeerUnavailable):
                await asked

    run(scenario())


def test_a_refused_connection_fails_at_once_and_is_not_reported_as_lost(run):
    async def scenario():
        async with asking() as (peers, node):
            await node.stop()
            with pytest.raises(PeerUnavailable):
                await ask(peers)
            assert peers.lost == []

    run(scenario())


@pytest.mark.parametrize(
    "where",
    [
        Place("a..b", 9092),
        Place("a" * 64 + ".example", 9092),
        Place("kafka\0", 9092),
        Place("b\u00fc..b", 9092),
        Place("127.0.0.1", 65_536),
        Place("127.0.0.1", -1),
    ],
    ids=["empty label", "long label", "NUL", "IDNA", "large port", "negative port"],
)
def test_an_address_that_cannot_exist_counts_as_refused_until_it_changes(run, where):
    async def scenario():
        async with asking() as (peers, node):
            peers.places[1] = where
            for _ in range(2):
                with pytest.raises(PeerUnavailable, match=f"node 1 at {re.escape(where.host)}:{where.port}: "):
                    await ask(peers)
            peers.places[1] = Place("127.0.0.1", node.port)
            await connected(peers, node)
            assert peers.lost == []

    run(scenario())


def test_a_request_to_a_node_without_a_known_address_fails(run):
    async def scenario():
        async with asking() as (peers, _):
            with pytest.raises(PeerUnavailable, match="node 2"):
                await peers.ask(2, heartbeat(0), 1, timeout_ms=LONG_MS)

    run(scenario())


def test_a_connection_lost_in_the_middle_of_a_reply_fails_the_request(run):
    async def scenario():
        async with asking() as (peers, node):
            asked = [ask(peers, 1), ask(peers, 2)]
            heard = await node.requests.get()
            heard.writer.write(heard.frame(BrokerHeartbeatResponse())[:7])
            await heard.writer.drain()
            heard.writer.close()
            for task in asked:
                with pytest.raises(PeerUnavailable):
                    await task
            assert peers.lost == [1]
            again = ask(peers, 3)
            while BrokerHeartbeatRequest.decode((heard := await node.requests.get()).body, 1).broker_id != 3:
                pass
            heard.answer(BrokerHeartbeatResponse(error_code=3))
            assert (await again).error_code == 3
            assert len(node.connections) == 2

    run(scenario())


def test_a_slow_peer_keeps_its_connection_and_its_late_reply_is_discarded(run):
    async def scenario():
        async with asking() as (peers, node):
            await connected(peers, node)
            first = ask(peers, 1)
            slow = ask(peers, 2, timeout_ms=1000)
            one, two = await node.requests.get(), await node.requests.get()
            one.answer(BrokerHeartbeatResponse(error_code=1))
            await first
            with pytest.raises(PeerUnavailable, match="1000 ms"):
                await slow
            third = ask(peers, 3)
            three = await node.requests.get()
            two.answer(BrokerHeartbeatResponse(error_code=2))
            three.answer(BrokerHeartbeatResponse(error_code=3))
            assert (await third).error_code == 3
            assert (len(node.connections), peers.lost) == (1, [])

    run(scenario())


def test_the_connection_of_a_silent_peer_is_closed_and_later_requests_on_it_fail_at_once(run):
    async def scenario():
        async with asking() as (peers, node):
            await connected(peers, node)
            asked, behind = ask(peers, 1, timeout_ms=50), ask(peers, 2)
            with pytest.raises(PeerUnavailable, match="50 ms"):
                await asked
            with pytest.raises(PeerUnavailable, match="silent"):
                await behind
            assert peers.lost == [1]
            again = ask(peers, 3)
            for _ in range(3):
                heard = await node.requests.get()
            heard.answer(BrokerHeartbeatResponse())
            await again
            assert len(node.connections) == 2

    run(scenario())


def test_a_cancelled_request_does_not_shift_later_replies(run):
    async def scenario():
        async with asking() as (peers, node):
            gone, stays = ask(peers, 1), ask(peers, 2)
            one, two = await node.requests.get(), await node.requests.get()
            gone.cancel()
            one.answer(BrokerHeartbeatResponse(error_code=1))
            two.answer(BrokerHeartbeatResponse(error_code=2))
            assert (await stays).error_code == 2

    run(scenario())


def test_a_peer_that_is_back_is_reached_after_the_pause(run):
    async def scenario():
        async with asking() as (peers, node):
            port = node.port
            await node.stop()
            with pytest.raises(PeerUnavailable):
                await ask(peers)
            # Asked during the pause: it waits, and reaches the node that is back by then.
            waits = ask(peers, 4)
            again = Node()
            await again.start(port)
            (await again.requests.get()).answer(BrokerHeartbeatResponse(error_code=4))
            assert (await waits).error_code == 4
            await again.stop()

    run(scenario())


def test_waiting_for_the_pause_is_part_of_the_timeout(run, monkeypatch):
    monkeypatch.setattr(peers_module, "PAUSE_MS_MIN", 60_000)
    monkeypatch.setattr(peers_module, "PAUSE_MS_MAX", 60_000)

    async def scenario():
        async with asking() as (peers, node):
            await node.stop()
            with pytest.raises(PeerUnavailable):
                await ask(peers)
            with pytest.raises(PeerUnavailable, match="50 ms"):
                await ask(peers, timeout_ms=50)

    run(scenario())


def test_a_peer_that_moved_is_asked_at_its_new_address(run):
    async def scenario():
        async with asking() as (peers, node):
            first = ask(peers, 1)
            await node.requests.get()
            elsewhere = Node()
            await elsewhere.start()
            peers.places[1] = Place("127.0.0.1", elsewhere.port)
            second = ask(peers, 2)
            (await elsewhere.requests.get()).answer(BrokerHeartbeatResponse(error_code=2))
            assert (await second).error_code == 2
            with pytest.raises(PeerUnavailable, match="moved"):
                await first
            assert peers.lost == []
            await elsewhere.stop()

    run(scenario())


def test_the_pause_applies_only_to_the_old_address(run, monkeypatch):
    monkeypatch.setattr(peers_module, "PAUSE_MS_MIN", 60_000)
    monkeypatch.setattr(peers_module, "PAUSE_MS_MAX", 60_000)

    async def scenario():
        async with asking() as (peers, node):
            await node.stop()
            with pytest.raises(PeerUnavailable):
                await ask(peers)
            waits = ask(peers, 1)
            await asyncio.sleep(0)
            elsewhere = Node()
            await elsewhere.start()
            peers.places[1] = Place("127.0.0.1", elsewhere.port)
            asked = ask(peers, 2)
            for _ in range(2):
                (await elsewhere.requests.get()).answer(BrokerHeartbeatResponse())
            await asyncio.gather(waits, asked)
            await elsewhere.stop()

    run(scenario())


def test_too_many_requests_under_way_are_refused(run, monkeypatch):
    monkeypatch.setattr(limits, "peer_requests_max", 3)

    async def scenario():
        async with asking() as (peers, node):
            asked = [ask(peers, number) for number in range(3)]
            await asyncio.sleep(0)
            with pytest.raises(PeerUnavailable, match="under way"):
                await ask(peers, 3)
            for _ in asked:
                (await node.requests.get()).answer(BrokerHeartbeatResponse())
            await asyncio.gather(*asked)
            last = ask(peers, 4)
            (await node.requests.get()).answer(BrokerHeartbeatResponse())
            await last

    run(scenario())


def test_closing_fails_waiting_and_later_requests(run, monkeypatch):
    monkeypatch.setattr(peers_module, "PAUSE_MS_MIN", 60_000)
    monkeypatch.setattr(peers_module, "PAUSE_MS_MAX", 60_000)

    async def scenario():
        async with asking() as (peers, node):
            sent = ask(peers)
            await node.requests.get()
            node._server.close()
            with pytest.raises(PeerUnavailable):
                await ask(peers, purpose="other")
            unsent = ask(peers, purpose="other")
            await asyncio.sleep(0)
            await peers.close()
            for task in (sent, unsent, ask(peers)):
                with pytest.raises(PeerUnavailable, match="stopping"):
                    await task
            assert peers.lost == []

    run(scenario())


class Tasks:
    """A Spawner of the simulation that does nothing but spawn."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def spawn(self, name, work):
        return self._loop.create_task(work, name=name)


class Doors:
    """A network that records connection attempts; they are refused, or accepted and closed again."""

    def __init__(self) -> None:
        self.times_ms: list[int] = []
        self.opens: list[str] = []
        self.loop = SimLoop(Random(1))
        self.asker, self.peer = Host("asker"), Host("peer")
        self.sim_net = SimNet(self.loop, Random(1), NetKnobs())
        self.net = self.sim_net.of(self.asker)
        self.clock = SimClock(self.loop)
        self.peers = Peers(
            net=self,
            clock=self.clock,
            spawner=Tasks(self.loop),
            resolve=lambda _: Place("10.0.0.1", 1),
            client_id="asker",
        )
        self.link = self.net.link

    async def connect(self, host, port, factory) -> None:
        self.times_ms.append(self.clock.monotonic_ms())
        opens = self.opens.pop(0)
        if opens == "nobody":
            raise ConnectionRefusedError("connection refused")
        listener = await self.sim_net.of(self.peer).listen(host, port, lambda: Porter(opens))
        await self.net.connect(host, port, factory)
        await listener.close()

    def pauses(self, *opens: str) -> list[int]:
        """Connects once for each of these and once more, each time as soon as the last attempt has failed."""
        self.opens = [*opens, "nobody"]

        async def scenario() -> None:
            while self.opens:
                with contextlib.suppress(PeerUnavailable):
                    await self.peers.ask(1, heartbeat(0), 0, timeout_ms=LONG_MS)
            await self.peers.close()

        self.loop.run_until_complete(scenario())
        return [later - earlier for earlier, later in zip(self.times_ms, self.times_ms[1:], strict=False)]


class Porter(asyncio.BufferedProtocol):
    """Closes the connection at once, or after one answer."""

    def __init__(self, manners: str) -> None:
        self._manners = manners
        self._buffer = bytearray(100)

    def connection_made(self, transport) -> None:
        self._transport = transport
        if self._manners == "rude":
            transport.abort()

    def get_buffer(self, sizehint):
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._transport.is_closing():
            self._transport.write(response_frame(63, 0, 1, BrokerHeartbeatResponse().encode(0)))
            self._transport.close()


def test_pauses_double_up_to_a_second():
    assert Doors().pauses(*["nobody"] * 8) == [50, 100, 200, 400, 800, 1000, 1000, 1000]


def test_a_peer_that_accepts_and_closes_is_retried_only_after_a_pause():
    pauses = Doors().pauses(*["rude"] * 6)
    assert all(pause >= least for pause, least in zip(pauses, [50, 100, 200, 400, 800, 1000], strict=True))


def test_an_answer_ends_the_pauses():
    pauses = Doors().pauses("nobody", "nobody", "nobody", "polite", "nobody")
    assert pauses[2] == 200
    assert pauses[3] < 50  # after an answer, the next connection is made at once
    assert pauses[4] == 50


class Waiting:
    """A network where the test makes the connections, even after their attempt was cancelled."""

    def __init__(self, net: TcpNet) -> None:
        self.made: list[asyncio.BufferedProtocol] = []
        self.link = net.link

    async def connect(self, host, port, factory) -> None:
        self.made.append(factory())


def test_a_connection_that_comes_too_late_is_closed(run):
    async def scenario():
        async with asking() as (peers, node):
            peers.net = late = Waiting(peers.net)
            old, moved = ask(peers, 1, timeout_ms=200), None
            await until(lambda: late.made)
            peers.places[1] = Place("elsewhere", 1)
            moved = ask(peers, 2, timeout_ms=200)
            await until(lambda: len(late.made) == 2)
            await asyncio.get_running_loop().create_connection(lambda: late.made[0], "127.0.0.1", node.port)
            await until(lambda: not peers._connections)
            for task in (old, moved):
                with pytest.raises(PeerUnavailable, match="200 ms"):
                    await task
            assert peers.lost == []

    run(scenario())


def test_a_stop_does_not_wait_for_a_connection_whose_attempt_was_cancelled(run, monkeypatch):
    """uvloop never calls `connection_lost` of a connection that is made just when its attempt is cancelled."""

    async def scenario():
        async with asking() as (peers, node):
            peers.net = late = Waiting(peers.net)
            asked = ask(peers, 1, timeout_ms=200)
            await until(lambda: late.made)
            peers.places[1] = Place("elsewhere", 1)
            moved = ask(peers, 2, timeout_ms=200)
            await until(lambda: len(late.made) == 2)
            monkeypatch.setattr(type(late.made[0]), "connection_lost", lambda *_: None)
            await asyncio.get_running_loop().create_connection(lambda: late.made[0], "127.0.0.1", node.port)
            await asyncio.wait_for(peers.close(), 5)
            await asyncio.gather(asked, moved, return_exceptions=True)

    run(scenario())


class GivesUp:
    """A network that gives up its first attempt to connect, with TimeoutError."""

    def __init__(self, net: TcpNet) -> None:
        self._net = net
        self.link = net.link
        self.attempts: list[asyncio.Task[None]] = []

    async def connect(self, host, port, factory) -> None:
        self.attempts.append(asyncio.ensure_future(self._net.connect(host, port, factory)))
        try:
            await self.attempts[-1]
        except asyncio.CancelledError:
            raise TimeoutError from None


def test_a_connection_made_just_when_its_time_is_up_is_replaced(run, monkeypatch):
    """uvloop closes it without `connection_lost`, and writing to it raises RuntimeError."""

    async def scenario():
        async with asking() as (peers, node):
            peers.net = net = GivesUp(peers.net)
            made = peers_module._Line.made

            def made_and_given_up(line, connection):
                made(line, connection)
                net.attempts[0].cancel()

            monkeypatch.setattr(peers_module._Line, "made", made_and_given_up)
            with pytest.raises(PeerUnavailable):
                await ask(peers, 1)
            assert peers._connections == {}
            asked = ask(peers, 2)
            heard = await node.requests.get()
            while BrokerHeartbeatRequest.decode(heard.body, 1) != heartbeat(2):
                heard = await node.requests.get()
            heard.answer(BrokerHeartbeatResponse())
            await asked
            assert len(net.attempts) == 2

    run(scenario())


def simulated_run(seed: int) -> list[str]:
    """Two hosts, a hundred requests, connections that a middlebox forgets, and a peer that is killed and restarted."""
    loop = SimLoop(Random(seed))
    net = SimNet(loop, Random(seed), NetKnobs(delay_mean_us=2_000, piece_bytes_max=9, straggle=0.02))
    rng = Random(seed)
    story: list[str] = []
    asker = Host("asker")

    async def peer(host: Host) -> None:
        listener = ClientListener(net.of(host), ConnectionLimits())

        def handle(_, frame: memoryview, position: int, end: int):
            key, version, correlation_id, _, body = decode_request_header(frame, position, end)
            number = BrokerHeartbeatRequest.decode(frame, version, body, end).broker_id
            return [response_frame(key, version, correlation_id, BrokerHeartbeatResponse(error_code=number).encode(1))]

        await listener.bind("10.0.0.1", 9092)
        listener.serve(handle)

    async def scenario() -> None:
        spawner = Tasks(loop)
        peers = Peers(
            net=net.of(asker), clock=SimClock(loop), spawner=spawner, resolve=lambda _: place, client_id="asker"
        )
        peers.on_lost = lambda node_id: story.append(f"lost {node_id}")

        async def one(number: int) -> None:
            try:
                answer = await peers.ask(1, heartbeat(number), 1, timeout_ms=3_000)
            except PeerUnavailable as broken:
                story.append(f"{number} failed: {broken}")
            else:
                assert answer.error_code == number
                story.append(f"{number} answered")

        asked = []
        for number in range(100):
            asked.append(loop.create_task(one(number)))
            await asyncio.sleep(rng.random() * 0.05)
            if rng.random() < 0.1:
                net.reset_one()
        await asyncio.gather(*asked)
        await asyncio.sleep(3)
        await one(100)
        await peers.close()

    async def outage() -> None:
        first, second = Host("peer"), Host("peer")
        with loop.on(first):
            loop.create_task(peer(first))
        await asyncio.sleep(1)
        loop.cut(first)
        net.host_killed(first)
        await asyncio.sleep(0.4)
        with loop.on(second):
            loop.create_task(peer(second))

    place = Place("10.0.0.1", 9092)
    with loop.on(asker):
        work = loop.create_task(scenario())
    loop.create_task(outage())
    loop.run_until_complete(work)
    return story


def test_on_the_simulated_network_answers_are_right_or_missing_and_runs_repeat():
    stories = [simulated_run(seed) for seed in range(6)]
    assert stories == [simulated_run(seed) for seed in range(6)]
    for story in stories:
        assert sum("answered" in line for line in story) > 20
        assert any("failed" in line for line in story)
        assert "lost 1" in story
        assert story[-1] == "100 answered"
