"""The first bytes of a connection, frames and their order. Bytes are hand-written where the codec is under test."""

from __future__ import annotations

import struct

import pytest
from kafka.protocol.metadata import ApiVersionsResponse as KafkaPythonApiVersionsResponse

from odradek.protocol.messages.p03_metadata import MetadataRequest
from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest
from traps.kio_wire import ask_api_versions_by_hand
from traps.wire import Wire, batch

NO_CLIENT = struct.pack(">h", -1)
HELLO = b"\x05trap\x041.0\0"  # compact strings "trap" and "1.0", no tagged fields
# Two tagged fields that no version has: number 99 with three bytes, number 200 with none.
STRANGE_TAGS = b"\x02\x63\x03abc\xc8\x01\x00"

TELEMETRY = (71, 72)
UNSUPPORTED_VERSION, INVALID_REQUEST, REBOOTSTRAP_REQUIRED = 35, 42, 129


def frame(key: int, version: int, correlation_id: int, rest: bytes = b"", *, client: bytes = NO_CLIENT) -> bytes:
    return struct.pack(">hhi", key, version, correlation_id) + client + rest


def advertised(wire: Wire) -> dict[int, tuple[int, int]]:
    """The lowest and highest version of each API key, from ApiVersions 0."""
    wire.send_frame(frame(18, 0, 1))
    reply = wire.receive_frame()
    (rows,) = struct.unpack_from(">i", reply, 6)
    return {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", reply[10:][: 6 * rows])}


def test_api_versions_reply_has_an_untagged_header_and_a_flexible_body(wire):
    """T1. The client does not know the broker's versions yet."""
    wire.send_frame(frame(18, 3, 77, b"\0" + HELLO))
    correlation_id, error, rows_and_one = struct.unpack_from(">ihB", reply := wire.receive_frame())
    assert (correlation_id, error) == (77, 0)
    rows = rows_and_one - 1
    assert rows == len(advertised(wire))
    after_rows = 7 + 7 * rows  # each row is three int16 and an empty tag section
    assert struct.unpack_from(">hhhB", reply, after_rows - 7)[3] == 0
    assert struct.unpack_from(">i", reply, after_rows) == (0,)


@pytest.mark.parametrize("version", [6, 99, 32_767, -1])
def test_unknown_api_versions_version_is_refused_in_version_0_and_can_be_retried(wire, version):
    """T2. The unknown body is not decoded. The connection stays open for a retry."""
    wire.send_frame(frame(18, version, 78, b"\0\xff what we cannot read \xff"))
    reply = wire.receive_frame()
    assert reply == bytes.fromhex("0000004e 0023 00000001 0012 0000 0005")
    ask_api_versions_by_hand(wire)


def test_kafka_python_reads_the_refusal_of_any_api_versions_version(wire):
    """T2. It decodes any reply with an error as version 0."""
    wire.send_frame(frame(18, 99, 79, b"\0"))
    refusal = KafkaPythonApiVersionsResponse.decode(wire.receive_frame()[4:], version=4)
    assert refusal.error_code == UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in refusal.api_keys] == [(18, 0, 5)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_api_versions_requests_without_body_are_answered(wire, version):
    """T3. Sent by aiokafka, kafkajs and a retry of librdkafka."""
    wire.send_frame(frame(18, version, 80))
    reply = wire.receive_frame()
    rows = len(advertised(wire))
    assert struct.unpack_from(">ihi", reply) == (80, 0, rows)
    assert len(reply) == 10 + 6 * rows + (4 if version else 0)


@pytest.mark.parametrize(
    ("software", "error"),
    [("apache-kafka-java", 0), ("a.b-c", 0), ("1", 0)]
    + [(wrong, INVALID_REQUEST) for wrong in ("", "-a", "a.", "a b", "a\n", "ä")],
)
def test_client_software_name_is_validated(wire, software, error):
    """T4. It is used as a label in metrics."""
    answer = wire.ask(ApiVersionsRequest(client_software_name=software, client_software_version="1"), 3)
    assert answer.error_code == error
    ask_api_versions_by_hand(wire)


def test_client_that_expects_another_cluster_gets_a_rebootstrap_error(wire):
    """T4. From version 5 on (KIP-1242): addresses may be reused by others."""
    metadata = wire.ask(MetadataRequest(topics=[]), 12)
    here = {"cluster_id": metadata.cluster_id, "node_id": metadata.brokers[0].node_id}
    for expected, error in (
        (here, 0),
        ({**here, "cluster_id": "somewhere else"}, REBOOTSTRAP_REQUIRED),
        ({**here, "node_id": 99}, REBOOTSTRAP_REQUIRED),
    ):
        hello = ApiVersionsRequest(client_software_name="trap", client_software_version="1", **expected)
        assert wire.ask(hello, 5).error_code == error


def test_versions_that_old_clients_require_are_advertised(wire):
    """T5, T6. librdkafka before 2.11.1 requires exactly these. They are the lowest versions of other old clients."""
    offers = advertised(wire)
    by_librdkafka = [(0, 0), (0, 3), (0, 7), (1, 4), (1, 10), (2, 1), (10, 0), (22, 0)]
    by_others = [(3, 0), (3, 1), (11, 0), (11, 1), (12, 0), (13, 0), (14, 0), (15, 0), (16, 0), (18, 0), (19, 2)]
    assert [pair for pair in by_librdkafka + by_others if not offers[pair[0]][0] <= pair[1] <= offers[pair[0]][1]] == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_advertised_but_unserved_produce_versions_close_the_connection(wire, version):
    """T5. They have old message formats. The client must not take a missing or empty reply for success."""
    wire.send_frame(frame(0, version, 1, struct.pack(">hii", 1, 1000, 0)))
    assert wire.is_closed()


def test_every_advertised_min_version_is_at_most_its_max_version(wire):
    """aiokafka asserts it for every row, known or not."""
    offers = advertised(wire)
    assert all(0 <= low <= high for low, high in offers.values())
    assert list(offers) == sorted(offers)


def test_telemetry_apis_are_advertised_together(wire):
    """T14. librdkafka and Java ask for a subscription as soon as they see the first one, and push to the second one."""
    offers = advertised(wire)
    assert [offers[key] for key in TELEMETRY] == [(0, 0), (0, 0)]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_unsupported_features_are_not_finalized(wire, version):
    """T57. Clients enable new groups and share groups by these feature names."""
    answer = wire.ask(ApiVersionsRequest(client_software_name="trap", client_software_version="1"), version)
    names = {feature.name for feature in [*answer.finalized_features, *answer.supported_features]}
    assert names <= {"metadata.version", "kraft.version", "eligible.leader.replicas.version", "transaction.version"}
    assert answer.finalized_features_epoch >= 0


@pytest.mark.parametrize("client", [NO_CLIENT, b"\0\0", b"\0\x04trap"])
def test_client_id_has_a_plain_length_and_is_followed_by_tags_even_when_null(wire, client):
    """T7. All other strings of a flexible header are compact."""
    wire.send_frame(frame(18, 3, 81, b"\0" + HELLO, client=client))
    assert struct.unpack_from(">ih", wire.receive_frame()) == (81, 0)


def test_unknown_tagged_fields_are_skipped_at_every_level(wire, topic):
    """T8. In the header, in a struct of an array, and at the end of the body: Metadata 12 for one topic."""
    name = bytes([len(topic) + 1]) + topic.encode()
    body = b"\x02" + bytes(16) + name + STRANGE_TAGS + b"\0\0" + STRANGE_TAGS
    wire.send_frame(frame(3, 12, 82, STRANGE_TAGS + body))
    reply = wire.receive_frame()
    assert struct.unpack_from(">iB", reply) == (82, 0)
    assert name in reply


@pytest.mark.parametrize(("key", "version"), [(4, 0), (7, 0), (17, 1), (999, 0), (-1, 0), (3, 14), (3, -1), (1, 3)])
def test_unsupported_api_or_version_closes_the_connection_without_a_reply(wire, key, version):
    """T8. No error reply exists that such a client could read."""
    wire.send_frame(frame(key, version, 1, bytes(20)))
    assert wire.is_closed()


def test_replies_keep_request_order_behind_a_waiting_request(broker, wire, topic):
    """T9. Clients match the first reply with the first request, whatever its correlation id says."""
    fetch = wire.fetch_request(topic, {0: 0}, max_wait_ms=8000)
    metadata = MetadataRequest(topics=[])
    sent = [wire.post(fetch, 12), wire.post(metadata, 12), wire.post(fetch, 12)]
    with Wire(broker.port) as other:
        other.produce(topic, batch(b"wakes the fetch"))
    answers = [wire.collect(request, 12) for request in (fetch, metadata, fetch)]
    assert [correlation_id for correlation_id, _ in answers] == sent
    assert [len(answer.responses) for _, answer in answers[::2]] == [1, 1]


def test_requests_are_independent_of_packet_boundaries(wire):
    """T9. TCP does not keep message boundaries."""
    requests = b"".join(struct.pack(">i", 10) + frame(18, 0, number) for number in range(200))
    wire.send(requests)
    assert [struct.unpack_from(">i", wire.receive_frame())[0] for _ in range(200)] == list(range(200))
    for position in range(len(requests[:28])):
        wire.send(requests[position : position + 1])
    assert [struct.unpack_from(">i", wire.receive_frame())[0] for _ in range(2)] == [0, 1]


def test_produce_with_acks_0_gets_no_reply(wire, topic):
    """T10. The next reply belongs to the next request."""
    wire.post(wire.produce_request(topic, batch(b"silent"), acks=0), 9)
    assert wire.fetch(topic, {0: 0})[0].high_watermark == 1


@pytest.mark.parametrize("partition", [0, 5])
def test_failed_produce_with_acks_0_closes_the_connection(wire, topic, partition):
    """T10. Only the closed connection makes the client refresh its metadata."""
    spoiled = batch(b"x")
    spoiled[-1] ^= 1
    wire.post(wire.produce_request(topic, bytes(spoiled), partition=partition, acks=0), 9)
    assert wire.is_closed()


def test_advertised_address_is_reachable(wire, broker):
    """T12. A client may resolve localhost to ::1, where the broker does not listen."""
    (node,) = wire.ask(MetadataRequest(topics=[]), 12).brokers
    assert (node.host, node.port) == ("127.0.0.1", broker.port)


def test_extra_bytes_after_a_request_are_ignored(wire, topic):
    """librdkafka sends three extra bytes in Metadata 13 for all topics."""
    assert wire.ask(MetadataRequest(topics=None), 13, more=bytes(3)).error_code == 0
    assert wire.ask(MetadataRequest(topics=None), 1, more=b"\xff" * 3).topics
    wire.ask(wire.produce_request(topic, bytes(batch(b"x"))), 9, more=b"\xff" * 3)
    (answer,) = wire.ask(wire.fetch_request(topic, {0: 0}), 12, more=b"\xff" * 3).responses
    assert answer.partitions[0].high_watermark == 1
