"""The first bytes on a connection, frames and their order: written and read by hand where the codec is the trap."""

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
    """By key: the lowest and the highest version, as read from ApiVersions 0."""
    wire.send_frame(frame(18, 0, 1))
    reply = wire.receive_frame()
    (rows,) = struct.unpack_from(">i", reply, 6)
    return {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", reply[10:][: 6 * rows])}


def test_the_reply_to_api_versions_has_a_header_without_tags_although_its_body_is_flexible(wire):
    """T1. The client cannot know yet what the broker speaks."""
    wire.send_frame(frame(18, 3, 77, b"\0" + HELLO))
    correlation_id, error, rows_and_one = struct.unpack_from(">ihB", reply := wire.receive_frame())
    assert (correlation_id, error) == (77, 0)
    rows = rows_and_one - 1
    assert rows == len(advertised(wire))
    after_rows = 7 + 7 * rows  # each row is three int16 and an empty tag section
    assert struct.unpack_from(">hhhB", reply, after_rows - 7)[3] == 0
    assert struct.unpack_from(">i", reply, after_rows) == (0,)


@pytest.mark.parametrize("version", [6, 99, 32_767, -1])
def test_api_versions_that_we_do_not_know_is_refused_in_the_oldest_layout_and_may_be_repeated(wire, version):
    """T2. Its body cannot be read, so it is not; the connection stays open for a second try."""
    wire.send_frame(frame(18, version, 78, b"\0\xff what we cannot read \xff"))
    reply = wire.receive_frame()
    assert reply == bytes.fromhex("0000004e 0023 00000001 0012 0000 0005")
    ask_api_versions_by_hand(wire)


def test_kafka_python_reads_the_refusal_whatever_it_asked_for(wire):
    """T2. It takes any error as a sign of the oldest layout."""
    wire.send_frame(frame(18, 99, 79, b"\0"))
    refusal = KafkaPythonApiVersionsResponse.decode(wire.receive_frame()[4:], version=4)
    assert refusal.error_code == UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in refusal.api_keys] == [(18, 0, 5)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_versions_of_old_clients_are_answered_without_a_body(wire, version):
    """T3. aiokafka, kafkajs and the second try of librdkafka."""
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
def test_the_clients_software_name_is_checked(wire, software, error):
    """T4. It becomes a label of metrics."""
    answer = wire.ask(ApiVersionsRequest(client_software_name=software, client_software_version="1"), 3)
    assert answer.error_code == error
    ask_api_versions_by_hand(wire)


def test_a_client_that_expects_another_cluster_is_sent_back_to_its_bootstrap_servers(wire):
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


def test_versions_that_old_clients_look_for_are_advertised(wire):
    """T5, T6. librdkafka before 2.11.1 looks for exactly these; older clients of all kinds begin at these."""
    offers = advertised(wire)
    by_librdkafka = [(0, 0), (0, 3), (0, 7), (1, 4), (1, 10), (2, 1), (10, 0), (22, 0)]
    by_others = [(3, 0), (3, 1), (11, 0), (11, 1), (12, 0), (13, 0), (14, 0), (15, 0), (16, 0), (18, 0), (19, 2)]
    assert [pair for pair in by_librdkafka + by_others if not offers[pair[0]][0] <= pair[1] <= offers[pair[0]][1]] == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_versions_that_are_only_advertised_cost_the_connection(wire, version):
    """T5. They carry formats that are gone: nobody may take silence or zeros for success."""
    wire.send_frame(frame(0, version, 1, struct.pack(">hii", 1, 1000, 0)))
    assert wire.is_closed()


def test_every_advertised_range_has_a_lower_end_not_above_its_upper(wire):
    """aiokafka asserts it for every row, known or not."""
    offers = advertised(wire)
    assert all(0 <= low <= high for low, high in offers.values())
    assert list(offers) == sorted(offers)


def test_telemetry_is_not_offered_while_nobody_would_listen(wire):
    """T14. librdkafka and Java push as soon as they see it."""
    assert not set(TELEMETRY) & set(advertised(wire))


@pytest.mark.parametrize("version", [3, 4, 5])
def test_no_feature_is_finalised_that_is_not_served(wire, version):
    """T57. Clients switch to new transactions, groups and share groups by these names alone."""
    answer = wire.ask(ApiVersionsRequest(client_software_name="trap", client_software_version="1"), version)
    names = {feature.name for feature in [*answer.finalized_features, *answer.supported_features]}
    assert names <= {"metadata.version", "kraft.version", "eligible.leader.replicas.version"}
    assert answer.finalized_features_epoch >= 0


@pytest.mark.parametrize("client", [NO_CLIENT, b"\0\0", b"\0\x04trap"])
def test_the_client_id_has_a_plain_length_and_tags_follow_it_even_when_it_is_null(wire, client):
    """T7. In a flexible header everything else is compact."""
    wire.send_frame(frame(18, 3, 81, b"\0" + HELLO, client=client))
    assert struct.unpack_from(">ih", wire.receive_frame()) == (81, 0)


def test_unknown_tagged_fields_are_skipped_wherever_they_stand(wire, topic):
    """T8. In the header, in a struct of an array, and at the end of the body: Metadata 12 for one topic."""
    name = bytes([len(topic) + 1]) + topic.encode()
    body = b"\x02" + bytes(16) + name + STRANGE_TAGS + b"\0\0" + STRANGE_TAGS
    wire.send_frame(frame(3, 12, 82, STRANGE_TAGS + body))
    reply = wire.receive_frame()
    assert struct.unpack_from(">iB", reply) == (82, 0)
    assert name in reply


@pytest.mark.parametrize(("key", "version"), [(4, 0), (7, 0), (17, 1), (999, 0), (-1, 0), (3, 14), (3, -1), (1, 3)])
def test_what_is_not_served_costs_the_connection_and_is_not_answered(wire, key, version):
    """T8. There is no error that such a client could read."""
    wire.send_frame(frame(key, version, 1, bytes(20)))
    assert wire.is_closed()


def test_replies_come_in_the_order_of_requests_also_behind_one_that_waits(broker, wire, topic):
    """T9. Clients match the first reply with the first request, whatever its correlation id says."""
    fetch = wire.fetch_request(topic, {0: 0}, max_wait_ms=8000)
    metadata = MetadataRequest(topics=[])
    sent = [wire.post(fetch, 12), wire.post(metadata, 12), wire.post(fetch, 12)]
    with Wire(broker.port) as other:
        other.produce(topic, batch(b"wakes the fetch"))
    answers = [wire.collect(request, 12) for request in (fetch, metadata, fetch)]
    assert [correlation_id for correlation_id, _ in answers] == sent
    assert [len(answer.responses) for _, answer in answers[::2]] == [1, 1]


def test_many_requests_in_one_packet_and_one_request_in_many(wire):
    """T9. TCP keeps no boundaries."""
    requests = b"".join(struct.pack(">i", 10) + frame(18, 0, number) for number in range(200))
    wire.send(requests)
    assert [struct.unpack_from(">i", wire.receive_frame())[0] for _ in range(200)] == list(range(200))
    for position in range(len(requests[:28])):
        wire.send(requests[position : position + 1])
    assert [struct.unpack_from(">i", wire.receive_frame())[0] for _ in range(2)] == [0, 1]


def test_acks_0_is_answered_with_nothing(wire, topic):
    """T10. The next reply belongs to the next request."""
    wire.post(wire.produce_request(topic, batch(b"silent"), acks=0), 9)
    assert wire.fetch(topic, {0: 0})[0].high_watermark == 1


@pytest.mark.parametrize("partition", [0, 5])
def test_acks_0_that_failed_costs_the_connection(wire, topic, partition):
    """T10. Nothing else tells the client to refresh what it knows."""
    spoiled = batch(b"x")
    spoiled[-1] ^= 1
    wire.post(wire.produce_request(topic, bytes(spoiled), partition=partition, acks=0), 9)
    assert wire.is_closed()


def test_the_advertised_address_is_one_that_clients_reach(wire, broker):
    """T12. A name such as localhost may mean ::1 to a client, where nobody listens."""
    (node,) = wire.ask(MetadataRequest(topics=[]), 12).brokers
    assert (node.host, node.port) == ("127.0.0.1", broker.port)


def test_bytes_behind_a_request_are_ignored(wire, topic):
    """librdkafka sends three too many in Metadata 13 for all topics."""
    assert wire.ask(MetadataRequest(topics=None), 13, more=bytes(3)).error_code == 0
    assert wire.ask(MetadataRequest(topics=None), 1, more=b"\xff" * 3).topics
    wire.ask(wire.produce_request(topic, bytes(batch(b"x"))), 9, more=b"\xff" * 3)
    (answer,) = wire.ask(wire.fetch_request(topic, {0: 0}), 12, more=b"\xff" * 3).responses
    assert answer.partitions[0].high_watermark == 1
