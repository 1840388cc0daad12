"""Hostile clients: the broker closes their connection or replies, logs one line, and other clients are not affected."""

from __future__ import annotations

import importlib
import struct

import pytest

from odradek.base import limits
from odradek.protocol.headers import request_frame
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.p11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.server.api import table
from odradek.testing import Embedded
from support.broker_process import BrokerProcess
from traps.kio_wire import ask_api_versions_by_hand
from traps.stranger import TOPICS, Stranger
from traps.wire import Wire, batch

REQUESTS_PER_API = 250
PARKED_AFTER_S = 0.3
PROBE_ID = -7
PROBE = struct.pack(">ihhih", 10, 18, 0, PROBE_ID, -1)

GREETINGS = {
    "length 0": bytes(4),
    "length -1": b"\xff" * 4,
    "shorter than a header": struct.pack(">i", 7) + bytes(7),
    "one byte too large": struct.pack(">i", limits.request_bytes_max + 1),
    "as large as can be": struct.pack(">i", 2**31 - 1) + bytes(100),
    "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(509),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "an API that does not exist": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "an API that was removed": struct.pack(">ihhih", 10, 4, 0, 1, -1),
    "an API that is not served": struct.pack(">ihhih", 10, 71, 0, 1, -1),
    "a negative API": struct.pack(">ihhih", 10, -1, 0, 1, -1),
    "a client id beyond the end": struct.pack(">ihhih", 10, 3, 1, 1, 500),
    "a client id that is not text": struct.pack(">ihhih", 12, 3, 1, 1, 2) + b"\xff\xfe",
    "an array of two thousand million": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
    "a compact array of the same": struct.pack(">ihhih", 36, 3, 12, 1, -1) + b"\0\xff\xff\xff\xff\x0f" + bytes(20),
}


@pytest.fixture(scope="module")
def target(log_file):
    """A broker only for these tests: the hostile requests create and delete topics."""
    with Embedded(log=log_file) as running:
        yield running


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "broker.log"


@pytest.fixture
def lines_of_strangers(target, log_file):
    before = len(log_file.read_text())

    def lines() -> list[str]:
        said = log_file.read_text()[before:].splitlines()
        assert [line for line in said if " INFO " not in line] == []
        return [line for line in said if "closing the connection of" in line]

    return lines


@pytest.mark.parametrize("greeting", GREETINGS)
def test_connection_that_does_not_speak_kafka_is_closed_with_one_log_line(target, lines_of_strangers, greeting):
    with Wire(target.port) as neighbour, Wire(target.port) as stranger:
        stranger.send(GREETINGS[greeting])
        assert stranger.is_closed()
        ask_api_versions_by_hand(neighbour)
    assert len(lines_of_strangers()) == 1


@pytest.mark.parametrize("part", [b"", b"\0", b"\0\0\0\x0a", b"\0\0\0\x0a\0\x12\0"])
def test_connection_closed_in_the_middle_of_a_request_logs_nothing(target, lines_of_strangers, part):
    with Wire(target.port) as neighbour:
        with Wire(target.port) as stranger:
            stranger.send(part)
        ask_api_versions_by_hand(neighbour)
    assert lines_of_strangers() == []


def test_many_new_connections_are_accepted_while_the_broker_is_busy(target):
    """The listen backlog is long: otherwise clients that reconnect at the same time would wait for SYN retries."""
    target.pause()
    try:
        crowd = [Wire(target.port) for _ in range(250)]
    finally:
        target.resume()
    for wire in crowd:
        with wire:
            ask_api_versions_by_hand(wire)


def request_class(module):
    messages = importlib.import_module(module.__name__.replace("server.api", "protocol.messages"))
    return next(
        cls
        for name, cls in vars(messages).items()
        if name.endswith("Request") and getattr(cls, "KEY", None) == module.API.key
    )


def answered(wire: Wire, frame: bytes, neighbour: Wire) -> bool:
    """Whether the connection still answers after this request. A parked request counts, too."""
    wire.socket.settimeout(PARKED_AFTER_S)
    try:
        wire.send(frame + PROBE)
        while struct.unpack_from(">i", wire.receive_frame()) != (PROBE_ID,):
            pass
    except TimeoutError:
        return stays_open(wire, neighbour)
    except ConnectionError:
        return False
    return True


def stays_open(wire: Wire, neighbour: Wire) -> bool:
    """For a silent connection: whether its request is parked, and not only late because the machine paused."""
    # The broker has one event loop: it handles our request before the first of these, and closes the socket before the
    # second.
    for _ in range(2):
        ask_api_versions_by_hand(neighbour)
    try:
        while wire.socket.recv(1 << 16):
            pass
    except TimeoutError:
        wire.socket.close()
        return True
    except ConnectionError:
        pass
    return False


@pytest.mark.parametrize("module", table.MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_invalid_requests_close_at_most_their_own_connection(target, lines_of_strangers, module):
    with Wire(target.port) as neighbour:
        for name in TOPICS:
            neighbour.metadata(name, 12)
            neighbour.produce(name, batch(b"a", b"b"))
        neighbour.ask(FindCoordinatorRequest(key="group"), 0)
        stranger = Stranger(module.API.key, [neighbour.topic_id(name) for name in TOPICS])
        wire, closed = Wire(target.port), 0
        for version, body in stranger.requests(request_class(module), REQUESTS_PER_API):
            if not answered(wire, request_frame(module.API.key, version, 1, "stranger", body), neighbour):
                closed += 1
                wire.socket.close()
            if wire.socket.fileno() < 0:
                wire = Wire(target.port)
        wire.socket.close()
        ask_api_versions_by_hand(neighbour)
    assert 0 < closed < REQUESTS_PER_API / 2
    assert len(lines_of_strangers()) == closed


def test_client_text_is_escaped_and_truncated_to_one_log_line(tmp_path):
    with BrokerProcess(tmp_path / "data") as process:
        with Wire(process.port) as wire:
            wire.ask(FindCoordinatorRequest(key="group"), 0)
            said = "tired\n2026-01-01 00:00:00,000 INFO all is well \x1b[2J" + "!" * 1000
            protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
            request = JoinGroupRequest(group_id="group", session_timeout_ms=6000, group_instance_id="me", reason=said)
            request.protocol_type, request.protocols = "consumer", protocols
            assert wire.ask(request, 9).error_code == 0
        process.stop()
        (line,) = (line for line in process.output.splitlines() if "tired" in line)
    assert "all is well \\x1b[2J" in line
    assert len(line) < 600
