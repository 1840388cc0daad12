"""The first bytes on a connection, through the dispatcher: what clients of every age rely on."""

import struct

import pytest

from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.server.api.table import load_apis
from odradek.server.network.dispatch import Dispatcher
from odradek.server.network.request import BrokerContext
from support.admin_broker import AdminBroker


class RecordingConnection:
    client_host = "127.0.0.1"
    principal = "User:ANONYMOUS"
    observer = None

    def __init__(self):
        self.ended = None

    def end(self, why):
        self.ended = why


def header(key, version, *, client_id=b"test", tags=b""):
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", key, version, 4711) + name + tags


def send(frame):
    connection = RecordingConnection()
    parts = Dispatcher(AdminBroker().broker, BrokerContext).handle(connection, memoryview(frame), 0, len(frame))
    return connection, b"".join(bytes(part) for part in parts or [])


HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1").encode(3)


def test_t1_the_reply_to_api_versions_has_header_version_0_although_its_body_is_flexible():
    _, reply = send(header(18, 3, tags=b"\x00") + HELLO)
    length, correlation_id = struct.unpack_from(">ii", reply)
    assert (length, correlation_id) == (len(reply) - 4, 4711)
    assert ApiVersionsResponse.decode(reply[8:], 3).error_code == 0


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_t2_api_versions_above_ours_is_answered_in_version_0_and_its_body_is_not_read(version):
    connection, reply = send(header(18, version, tags=b"\x00") + b"\xff garbage \xff")
    assert connection.ended is None
    assert reply[8:] == bytes.fromhex("0023 00000001 0012 0000 0005")


def test_t7_a_null_client_id_in_a_flexible_header_is_followed_by_its_tags():
    connection, reply = send(header(18, 3, client_id=None, tags=b"\x00") + HELLO)
    assert connection.ended is None
    assert ApiVersionsResponse.decode(reply[8:], 3).error_code == 0


def test_t8_unknown_tagged_fields_are_skipped_in_header_and_body():
    tagged = b"\x01\x63\x03abc"
    connection, reply = send(header(18, 3, tags=tagged) + HELLO[:-1] + tagged)
    assert connection.ended is None
    assert ApiVersionsResponse.decode(reply[8:], 3).error_code == 0


@pytest.mark.parametrize(("key", "version"), [(3, 14), (3, -1), (4, 0), (999, 0)])
def test_t8_any_other_unknown_api_or_version_closes_the_connection(key, version):
    connection, reply = send(header(key, version, tags=b"\x00"))
    assert connection.ended
    assert reply == b""


# The versions that librdkafka up to 2.11 checks for its features, and the oldest versions that real clients send.
@pytest.mark.parametrize(
    ("key", "version"),
    [(0, 0), (0, 3), (0, 7), (1, 4), (1, 10), (2, 1), (10, 0), (22, 0)]
    + [(3, 0), (11, 0), (11, 1), (12, 0), (13, 0), (14, 0), (15, 0), (16, 0), (18, 0), (19, 2)],
)
def test_t5_t6_the_advertised_ranges_reach_down_to_what_old_clients_need(key, version):
    first, last = load_apis()[key].advertised
    assert first <= version <= last
