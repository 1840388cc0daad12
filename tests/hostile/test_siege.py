"""Attacks on a broker with little memory: it returns errors or closes connections, and a normal client stays fast.

The groups: F framing, N counts, R record batches, B decompression, P names, S state. The latencies of the normal client
are printed at the end (`pytest -rP tests/hostile`). SECURITY.md lists the limits and the test for each.
"""

from __future__ import annotations

import gzip
import itertools
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import cramjam
import pytest

from hostile.bystander import Bystander
from odradek.base import limits
from odradek.base.errors import ErrorCode
from odradek.protocol.batch import ATTRIBUTES_POSITION, Codec, checksum
from odradek.protocol.headers import request_frame
from odradek.protocol.messages.p02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.p11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.p19_create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.p71_get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from odradek.protocol.messages.p72_push_telemetry import PushTelemetryRequest
from support.broker_process import BrokerProcess
from support.waiting import wait_until
from traps.wire import Wire, batch

MIB = limits.MIB
MEMORY_BYTES = 1024 * MIB
# For all attacks together. A request of 100 MiB is accepted, several threads decompress batches of that size, and freed
# memory may not return to the system at once.
RESIDENT_BYTES_MAX = 320 * MIB
LONGEST_S = 2.0
# On a busy machine, gigabytes are decompressed in minutes.
DECOMPRESSED_S = 400.0
names = itertools.count()


@pytest.fixture(scope="module")
def castle(tmp_path_factory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("siege") / "data", memory_bytes=MEMORY_BYTES) as broker:
        yield broker
        assert broker.stop() == 0


@pytest.fixture(scope="module")
def bystander(castle: BrokerProcess) -> Iterator[Bystander]:
    living = Bystander(castle.port, castle.pid)
    living.start()
    yield living
    living.stop()
    assert living.failure is None
    assert living.stored() == [b"%d" % number for number in range(living.acknowledged)]
    in_order = sorted(living.latencies_s())
    print(
        f"\nthe bystander: {len(in_order)} records acknowledged and stored, "
        f"p50 {in_order[len(in_order) // 2] * 1e3:.1f} ms, "
        f"p99 {in_order[len(in_order) * 99 // 100] * 1e3:.1f} ms, longest {in_order[-1] * 1e3:.0f} ms; "
        f"the broker ends with {castle.resident_bytes / MIB:.0f} MiB"
    )


@pytest.fixture
def siege(castle: BrokerProcess, bystander: Bystander) -> Iterator[int]:
    """Yields the port to attack, and afterwards checks memory and the normal client."""
    bystander.wait_for_more()
    said, served = len(castle.output), bystander.acknowledged
    yield castle.port
    bystander.wait_for_more()
    # Requests of connections that are closed already may still be in work, two batches of 100 MiB at a time.
    wait_until(lambda: castle.resident_bytes < RESIDENT_BYTES_MAX, lambda: f"{castle.resident_bytes} bytes resident")
    assert max(bystander.latencies_s(served)) < LONGEST_S
    assert [line for line in castle.output[said:].splitlines() if " INFO " not in line] == []


# Framing


def test_f_large_requests_announced_and_never_sent(siege):
    with ExitStack() as crowd:
        for _ in range(200):
            crowd.enter_context(Wire(siege)).send(struct.pack(">i", limits.request_bytes_max) + bytes(100))


def test_f_large_requests_sent_up_to_the_last_byte(siege, bystander, castle):
    """Fifteen times sixty megabytes: more than the broker's memory. Requests above the budget are refused."""
    size = 60 * MIB
    part = bytes(MIB)
    with ExitStack() as crowd:
        wires = [crowd.enter_context(Wire(siege)) for _ in range(15)]
        refused = 0
        for wire in wires:
            try:
                wire.send(struct.pack(">i", size))
                for _ in range(size // MIB - 1):
                    wire.send(part)
            except (ConnectionError, TimeoutError):
                refused += 1
        assert refused >= 5
        bystander.wait_for_more()
        assert castle.resident_bytes < MEMORY_BYTES


def test_f_requests_sent_one_byte_at_a_time(siege):
    frame = request_frame(18, 0, 1, "slow", b"")
    with ExitStack() as crowd:
        wires = [crowd.enter_context(Wire(siege)) for _ in range(100)]
        for byte in frame:
            for wire in wires:
                wire.send(bytes([byte]))
        for wire in wires:
            assert wire.receive_frame()[:4] == struct.pack(">i", 1)


def test_f_hundred_thousand_requests_without_reading_the_replies(siege):
    frame = request_frame(18, 3, 1, "deaf", b"\x02a\x02b\0")
    with Wire(siege) as wire:
        wire.socket.settimeout(1.0)
        with suppress(TimeoutError):
            for _ in range(1000):
                wire.send(frame * 100)


@pytest.mark.parametrize("how", ["half closed", "reset in the middle"])
def test_f_connections_that_are_reset_or_closed_early(siege, how):
    for _ in range(200):
        wire = Wire(siege)
        wire.send(request_frame(18, 0, 1, "x", b"")[: 4 if how == "half closed" else 11])
        if how == "half closed":
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.is_closed()
        else:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.socket.close()


def test_f_many_connections_at_once(siege):
    for _ in range(5):
        with ExitStack() as crowd:
            for _ in range(500):
                crowd.enter_context(Wire(siege))


# Counts

ENDLESS = b"\xff" * 200_000


@pytest.mark.parametrize(
    ("version", "body"),
    [
        pytest.param(12, b"\0" + ENDLESS, id="an endless varint as the length of an array"),
        pytest.param(12, b"\0\x02" + ENDLESS, id="an endless varint as the length of a name"),
        pytest.param(12, ENDLESS, id="endless tagged fields"),
        pytest.param(12, b"\xff\xff\x7f" + b"\x01\0" * 100_000, id="two million tagged fields in the header"),
        pytest.param(1, struct.pack(">i", 2**31 - 1), id="two thousand million topics"),
        pytest.param(1, struct.pack(">i", 10_000_000) + bytes(20_000_000), id="ten million empty names"),
        pytest.param(1, struct.pack(">ih", 1, -2), id="a length of -2"),
        pytest.param(1, struct.pack(">ih", 1, 32_767), id="a name beyond the end"),
        pytest.param(1, struct.pack(">ih", 1, 2) + b"\xc3\x28", id="a name that is not text"),
        pytest.param(12, b"\0\x02" + bytes(16) + b"\x02a\x02\x05\x01x\x05\x01y\0", id="a tag twice"),
    ],
)
def test_n_wrong_counts_and_lengths(siege, version, body):
    with Wire(siege) as wire:
        header = struct.pack(">hhih", 3, version, 1, -1)
        wire.send_frame(header + body)
        assert wire.is_closed()


# Record batches


def damaged(change: Callable[[bytearray], None], *, sealed: bool = True, **options: object) -> bytes:
    data = batch(b"a", b"b", b"c", **options)
    change(data)
    if sealed:
        struct.pack_into(">I", data, 17, checksum(data))
    return bytes(data)


def put(position: int, form: str, value: int) -> Callable[[bytearray], None]:
    return lambda data: struct.pack_into(form, data, position, value)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(damaged(put(16, ">b", 0)), id="magic 0"),
        pytest.param(damaged(put(16, ">b", 1)), id="magic 1"),
        pytest.param(damaged(put(16, ">b", 3)), id="magic 3"),
        pytest.param(damaged(put(60, ">b", 7), sealed=False), id="a wrong checksum"),
        pytest.param(damaged(put(8, ">i", -1)), id="a negative length"),
        pytest.param(damaged(put(8, ">i", 10)), id="a length too short"),
        pytest.param(damaged(put(8, ">i", 2**31 - 1)), id="a length too long"),
        pytest.param(damaged(put(23, ">i", 7)), id="a last offset that does not fit the count"),
        pytest.param(damaged(put(57, ">i", 2**31 - 1)), id="two thousand million records"),
        pytest.param(damaged(put(57, ">i", -1)), id="a negative count"),
        pytest.param(damaged(put(ATTRIBUTES_POSITION, ">h", 0x20)), id="a control batch"),
        pytest.param(damaged(put(ATTRIBUTES_POSITION, ">h", 0x10)), id="a transaction that is none"),
        pytest.param(damaged(put(ATTRIBUTES_POSITION, ">h", 7)), id="a codec that does not exist"),
        pytest.param(damaged(put(35, ">q", 2**63 - 1)), id="the end of time"),
        pytest.param(damaged(put(51, ">h", -1), producer_id=5, base_sequence=0), id="a producer without an epoch"),
        pytest.param(b"", id="nothing"),
        pytest.param(bytes(61), id="zeros"),
        pytest.param(bytes(batch(b"a")) * 2, id="two batches"),
        pytest.param(bytes(batch(b"a"))[:-1], id="a batch cut short"),
    ],
)
def test_r_invalid_batches_are_refused(siege, data):
    with Wire(siege) as wire:
        topic = wire.create_topic(f"r-{next(names)}")
        answer = wire.produce(topic, data)
        assert answer.error_code != ErrorCode.NONE
        assert wire.fetch(topic, {0: 0})[0].high_watermark == 0


@pytest.mark.parametrize("acks", [7, -2])
def test_r_invalid_acks_are_refused(siege, acks):
    with Wire(siege) as wire:
        topic = wire.create_topic(f"r-{next(names)}")
        assert wire.produce(topic, batch(b"a"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


# Decompression, where the broker has to read the records: keys of a compacted topic, and compression.type

BOMB_BYTES = 200 * MIB


def packed(codec: Codec, data: bytes) -> bytes:
    """A batch with this data as its compressed part."""
    head = batch(b"x", key=b"k")
    body = bytearray(head[:61]) + data
    struct.pack_into(">i", body, 8, len(body) - 12)
    struct.pack_into(">h", body, ATTRIBUTES_POSITION, codec)
    struct.pack_into(">I", body, 17, checksum(body))
    return bytes(body)


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    zeros = bytes(BOMB_BYTES)
    return {
        "gzip": packed(Codec.GZIP, gzip.compress(zeros, 1)),
        "zstd": packed(Codec.ZSTD, bytes(cramjam.zstd.compress(zeros))),
        "lz4": packed(Codec.LZ4, bytes(cramjam.lz4.compress(zeros))),
        "snappy": packed(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(bytes(8 * MIB)))),
        "snappy that says two thousand million": packed(Codec.SNAPPY, b"\xff\xff\xff\xff\x07" + bytes(50)),
        "xerial with an endless block": packed(
            Codec.SNAPPY, b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 2**31 - 1) + bytes(50)
        ),
        "xerial with a negative block": packed(
            Codec.SNAPPY, b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, -1) + bytes(50)
        ),
        "zstd with a window of gigabytes": packed(Codec.ZSTD, bytes.fromhex("28b52ffd00f8") + bytes(50)),
        "gzip cut short": packed(Codec.GZIP, gzip.compress(b"k" * 1000)[:-9]),
        "empty": packed(Codec.ZSTD, b""),
        "just small enough": bytes(batch(bytes(limits.decompressed_batch_bytes_max - 100), key=b"k", codec=Codec.ZSTD)),
    }


@pytest.mark.parametrize(
    "bomb",
    ["gzip", "zstd", "lz4", "snappy", "snappy that says two thousand million", "xerial with an endless block",
     "xerial with a negative block", "zstd with a window of gigabytes", "gzip cut short", "empty"],
)  # fmt: skip
@pytest.mark.parametrize("configs", [{"cleanup_policy": "compact"}, {"compression_type": "uncompressed"}])
def test_b_bombs_that_the_broker_must_decompress(siege, bombs, bomb, configs):
    data = bombs[bomb]
    with Wire(siege) as wire:
        topic = wire.create_topic(f"b-{next(names)}", max_message_bytes=str(16 * MIB), **configs)
        for _ in range(3):
            assert wire.produce(topic, data).error_code == ErrorCode.INVALID_RECORD


def test_b_many_bombs_at_once_for_recompressed_topics(siege, bombs):
    """Each connection closes right after its request, and the next one opens."""
    with Wire(siege) as wire:
        topic = wire.create_topic(f"b-{next(names)}", 8, compression_type="gzip", max_message_bytes=str(16 * MIB))
        for number in range(24):
            bomb = bombs["zstd" if number % 6 else "just small enough"]
            with Wire(siege) as bomber:
                bomber.post(bomber.produce_request(topic, bomb, partition=number % 8), 9)
        for partition in range(8):
            assert wire.produce(topic, batch(b"a"), partition=partition).error_code == ErrorCode.NONE


def test_b_stored_bomb_is_searched_by_time(siege, bombs):
    with Wire(siege) as wire:
        topic = wire.create_topic(f"b-{next(names)}", max_message_bytes=str(16 * MIB))
        assert wire.produce(topic, bombs["zstd"]).error_code == ErrorCode.NONE
        asked = ListOffsetsPartition(partition_index=0, timestamp=1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        answer = wire.ask(request, 7)
        assert answer.topics[0].partitions[0].error_code in (
            0,
            ErrorCode.UNKNOWN_SERVER_ERROR,
            ErrorCode.CORRUPT_MESSAGE,
        )


# Telemetry

TELEMETRY_BOMBS = {
    "gzip": (Codec.GZIP, gzip.compress(bytes(BOMB_BYTES), 1)),
    "zstd": (Codec.ZSTD, bytes(cramjam.zstd.compress(bytes(BOMB_BYTES)))),
    "lz4": (Codec.LZ4, bytes(cramjam.lz4.compress(bytes(BOMB_BYTES)))),
    "snappy": (Codec.SNAPPY, b"\x80\x80\x80\x80\x01" + b"\xfe\x01\x00" * 300_000),
}
# As many fields as fit, of a number that no message has.
WIDE = b"\x78\x00" * (4 * MIB)


def telemetry_push(wire: Wire, metrics: bytes, codec: int = Codec.NONE) -> int:
    subscription = wire.ask(GetTelemetrySubscriptionsRequest(), 0)
    return wire.ask(
        PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            compression_type=codec,
            metrics=metrics,
        ),
        0,
    ).error_code


@pytest.mark.parametrize("bomb", TELEMETRY_BOMBS)
def test_b_telemetry_bombs(siege, bomb):
    codec, data = TELEMETRY_BOMBS[bomb]
    with Wire(siege) as wire:
        for _ in range(3):
            assert telemetry_push(wire, data[:MIB], codec) in (ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.INVALID_RECORD)


def test_b_telemetry_of_millions_of_empty_fields(siege):
    """The limit on fields ends the work, not the limit on bytes."""
    packed = bytes(cramjam.zstd.compress(WIDE))
    nested = WIDE[:MIB]
    for _ in range(3):
        nested = b"\x0a" + _varint(len(nested)) + nested
    with Wire(siege) as wire:
        assert telemetry_push(wire, packed, Codec.ZSTD) == ErrorCode.TELEMETRY_TOO_LARGE
        for _ in range(3):
            packed_nested = bytes(cramjam.zstd.compress(nested))
            assert telemetry_push(wire, packed_nested, Codec.ZSTD) == ErrorCode.TELEMETRY_TOO_LARGE


def _varint(number: int) -> bytes:
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def test_s_many_telemetry_instances_of_many_connections(siege):
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(siege)) for _ in range(100)]
        for wire in wires:
            for _ in range(20):
                assert wire.ask(GetTelemetrySubscriptionsRequest(), 0).error_code == 0
            assert telemetry_push(wire, b"") == 0


# Names


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\0b", "x" * 250, "ö", "a b", "\x1b[2J", "a\nb", "%2e%2e", "C:\\x"]
)
def test_p_invalid_topic_names_and_paths_are_refused(siege, castle, name):
    with Wire(siege) as wire:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics[0]
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert wire.metadata(name, 9).topics[0].error_code != ErrorCode.NONE
    assert "\x1b" not in castle.output


# State


def test_s_many_groups_and_members(siege):
    with Wire(siege) as wire:
        wire.ask(FindCoordinatorRequest(key="s"), 0)
        for number in range(2000):
            join = JoinGroupRequest(
                group_id=f"group-{number % 50}",
                session_timeout_ms=6000,
                rebalance_timeout_ms=6000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(100))],
            )
            assert wire.ask(join, 9).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_s_member_with_ten_megabytes_of_metadata(siege):
    with Wire(siege) as wire:
        wire.ask(FindCoordinatorRequest(key="s"), 0)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(10 * MIB))]
        join = JoinGroupRequest(group_id="s", session_timeout_ms=6000, protocol_type="consumer", protocols=protocols)
        assert wire.ask(join, 9).error_code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)


def test_s_offset_commit_with_too_long_metadata(siege):
    with Wire(siege) as wire:
        topic = wire.create_topic(f"s-{next(names)}")
        wire.ask(FindCoordinatorRequest(key="s"), 0)
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="x" * 30_000)
        asked = [OffsetCommitRequestTopic(name=topic, partitions=[place])]
        answer = wire.ask(OffsetCommitRequest(group_id="novel", topics=asked), 8)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_s_many_producer_ids(siege):
    with Wire(siege) as wire:
        topic = wire.create_topic(f"s-{next(names)}")
        for _ in range(500):
            given = wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
            answer = wire.produce(topic, batch(b"x", producer_id=given.producer_id, producer_epoch=0, base_sequence=0))
            assert answer.error_code == ErrorCode.NONE


def test_s_many_fetch_sessions(siege):
    with Wire(siege) as wire:
        topic = wire.create_topic(f"s-{next(names)}")
        for _ in range(3000):
            wire.fetch(topic, {0: 0}, session_id=0, session_epoch=0)


def test_s_fetches_with_an_endless_wait(siege):
    with ExitStack() as crowd:
        topic = f"s-{next(names)}"
        for number in range(200):
            wire = crowd.enter_context(Wire(siege))
            if number == 0:
                wire.create_topic(topic)
            wire.post(wire.fetch_request(topic, {0: 0}, min_bytes=2**31 - 1, max_wait_ms=2**31 - 1), 12)
