"""Produce over real sockets: the answers in each version, and when they are sent."""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import os

import pytest

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import ErrorCode
from odradek.protocol.compression import Codec
from odradek.protocol.messages.p00_produce import ProduceResponse, TopicProduceData
from odradek.security.authorizer import Operation
from support.admin_broker import Denying
from support.data_broker import DataBroker, batch
from support.held_spawner import HeldSpawner

NOBODY = b"nobody has this!"


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_answers(run, version):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2)
            client = await broker.connect()
            await client.produce("t", batch("x"), version=version)
            one, two = await client.produce("t", batch("a", "b"), batch("c"), version=version)
            assert (one.index, one.error_code, one.base_offset) == (0, 0, 1)
            assert (two.index, two.error_code, two.base_offset) == (1, 0, 0)
            assert one.log_append_time_ms == -1
            assert one.log_start_offset == (0 if version >= 5 else -1)
            assert broker.partition("t", 0).high_watermark == 3

    run(scenario())


def produce_once(run, *batches, topic="t", configs=None, broker=None, **fields):
    """The partitions' answers to one request."""

    async def scenario():
        async with broker or DataBroker() as running:
            running.create_topic("t", 2, **(configs or {}))
            client = await running.connect()
            answers = await client.produce(topic, *batches, **fields)
            return answers, running.partition("t").log.log_end_offset

    return run(scenario())


@pytest.mark.parametrize(
    ("partition", "topic", "error"),
    [
        (0, "t", ErrorCode.NONE),
        (2, "t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, "t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, "unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_producing_to_an_unknown_topic_or_partition_is_refused(run, partition, topic, error):
    (answer,), _ = produce_once(run, (partition, batch("x")), topic=topic)
    assert answer.error_code == error
    assert answer.base_offset == (-1 if error else 0)


def test_an_unknown_topic_id(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            request = client.produce_request("t", batch("x"), version=13)
            request.topic_data = [
                TopicProduceData(topic_id=NOBODY, partition_data=request.topic_data[0].partition_data)
            ]
            answer = await client.ask(request, ProduceResponse, 13)
            assert answer.responses[0].topic_id == NOBODY
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    run(scenario())


def test_a_partition_led_elsewhere(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            broker.change_partition("t", 0, leader=2, isr=[2], replicas=[1, 2])
            client = await broker.connect()
            (answer,) = await client.produce("t", batch("x"))
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario())


@pytest.mark.parametrize("acks", [-2, 2, 7])
def test_acks_that_do_not_exist(run, acks):
    (answer,), end = produce_once(run, batch("x"), acks=acks)
    assert (answer.error_code, end) == (ErrorCode.INVALID_REQUIRED_ACKS, 0)


def test_a_plain_batch_needs_no_transaction_although_its_request_names_one(run):
    (answer,), end = produce_once(run, batch("x"), transactional_id="mine")
    assert (answer.error_code, end) == (ErrorCode.NONE, 1)


def test_no_batch_at_all(run):
    (answer,), _ = produce_once(run, None)
    assert answer.error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("version", "error"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)])
def test_zstd_only_from_version_7(run, version, error):
    (answer,), _ = produce_once(run, batch("x" * 100, codec=Codec.ZSTD), version=version)
    assert answer.error_code == error


@pytest.mark.parametrize("version", [7, 8, 9])
def test_a_refused_batch_says_why_from_version_8(run, version):
    broken = batch("x")
    broken[-1] ^= 1
    (answer, fine), _ = produce_once(run, broken, batch("y"), version=version)
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
    assert bool(answer.error_message) == (version >= 8)
    assert fine.error_code == 0


def test_a_record_without_a_key_in_a_compacted_topic_is_reported_by_index(run):
    (answer,), _ = produce_once(run, batch("x", "y"), configs={"cleanup_policy": "compact"})
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [record.batch_index for record in answer.record_errors] == [0, 1]


@pytest.mark.parametrize("acks", [1, -1])
def test_compressed_batches_for_a_compacted_topic_are_checked_and_stay_in_order(run, acks):
    keyed = functools.partial(batch, key=b"k")
    packed = keyed("b", "c", codec=Codec.ZSTD)
    answers, end = produce_once(
        run, (0, keyed("a")), (0, packed), (0, keyed("d")), configs={"cleanup_policy": "compact"}, acks=acks
    )
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 1), (0, 3)]
    assert end == 4


def test_a_batch_too_large_for_a_compacted_topic_is_refused_before_it_is_decompressed(run, monkeypatch):
    looked_into = []
    monkeypatch.setattr("odradek.server.api.p00_produce.require_keys", looked_into.append)
    configs = {"cleanup_policy": "compact", "max_message_bytes": "1000"}
    packed = batch(os.urandom(2000), key=b"k", codec=Codec.GZIP)
    plain = batch(bytes(2000), key=b"k")
    answers, end = produce_once(run, (0, packed), (0, plain), configs=configs)
    assert [answer.error_code for answer in answers] == [ErrorCode.MESSAGE_TOO_LARGE] * 2
    assert "max.message.bytes" in answers[0].error_message
    assert (looked_into, end) == ([], 0)


def test_compressed_records_without_a_key_are_reported_and_nothing_is_appended(run):
    (answer,), end = produce_once(run, batch("x", codec=Codec.ZSTD), configs={"cleanup_policy": "compact"})
    assert (answer.error_code, end) == (ErrorCode.INVALID_RECORD, 0)
    assert [record.batch_index for record in answer.record_errors] == [0]
    assert "key" in answer.error_message


def test_the_same_partition_twice_is_appended_twice_in_order(run):
    answers, end = produce_once(run, (0, batch("a", "b")), (0, batch("c")))
    assert [(answer.index, answer.base_offset) for answer in answers] == [(0, 0), (0, 2)]
    assert end == 3


def test_the_answer_has_the_log_append_time(run):
    (answer,), _ = produce_once(run, batch("x"), configs={"message_timestamp_type": "LogAppendTime"})
    assert answer.log_append_time_ms > 1_600_000_000_000


def test_producing_without_write_permission_is_refused(run):
    broker = DataBroker(authorizer=Denying(lambda operation, _, name: operation is Operation.WRITE and name == "t"))
    (answer,), end = produce_once(run, batch("x"), broker=broker)
    assert (answer.error_code, end) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)


def test_too_few_in_sync_replicas_refuse_only_acks_all(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", min_insync_replicas="2")
            client = await broker.connect()
            broker.change_partition("t", 0, replicas=[1, 2])
            (refused,) = await client.produce("t", batch("x"), acks=-1)
            assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
            assert broker.partition("t").log.log_end_offset == 0
            (taken,) = await client.produce("t", batch("x"), acks=1)
            assert taken.error_code == 0
            broker.configure_topic("t", "min.insync.replicas", "1")
            (taken,) = await client.produce("t", batch("x"), acks=-1)
            assert (taken.error_code, taken.base_offset) == (0, 1)

    run(scenario())


def test_acks_0_gets_no_answer_and_an_error_closes_the_connection(run, caplog):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            client.send(client.produce_request("t", batch("quiet"), acks=0), 9)
            (answer,) = await client.produce("t", batch("loud"), acks=1)
            assert answer.base_offset == 1
            client.send(client.produce_request("t", (9, batch("lost")), acks=0), 9)
            assert await client.closed()

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert [line for line in caplog.messages if "UNKNOWN_TOPIC_OR_PARTITION" in line]


class SlowDisk(MemoryDisk):
    """Syncs when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs: list[str] = []

    def open(self, path, *, create=False):
        return SlowFile(super().open(path, create=create), self)


class SlowFile:
    def __init__(self, file, disk) -> None:
        self._file = file
        self._disk = disk

    def __getattr__(self, name):
        return getattr(self._file, name)

    def sync(self) -> None:
        self._disk.syncs.append(self.path)
        self._file.sync()


def hold_syncs(broker) -> HeldSpawner:
    held = HeldSpawner(broker.spawner)
    broker.commits._spawner = held
    return held


@pytest.mark.parametrize("acks", [1, -1])
def test_with_flush_messages_nothing_is_acknowledged_or_visible_before_its_fsync(run, acks):
    async def scenario():
        disk = SlowDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", flush_messages="1")
            held = hold_syncs(broker)
            client, reader = await broker.connect(), await broker.connect()
            client.send(client.produce_request("t", batch("x"), acks=acks), 9)
            gate = await held.held.get()
            # A batch that comes during the fsync belongs to the next one.
            client.send(client.produce_request("t", batch("y"), acks=acks), 9)
            hidden = await reader.fetch("t", {0: 0})
            assert (hidden[0].high_watermark, hidden[0].records) == (0, b"")
            assert disk.syncs == []
            gate.set()
            _, first = await client.receive(ProduceResponse, 9)
            assert first.responses[0].partition_responses[0].base_offset == 0
            assert [path for path in disk.syncs if path.endswith(".log")]
            assert (await reader.fetch("t", {0: 0}))[0].high_watermark == 1
            (await held.held.get()).set()
            _, second = await client.receive(ProduceResponse, 9)
            assert second.responses[0].partition_responses[0].base_offset == 1
            assert (await reader.fetch("t", {0: 0}))[0].high_watermark == 2

    run(scenario())


def test_one_fsync_covers_all_batches_that_arrived_meanwhile(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", flush_messages="1")
            held = hold_syncs(broker)
            clients = [await broker.connect() for _ in range(5)]
            clients[0].send(clients[0].produce_request("t", batch("x"), acks=1), 9)
            gate = await held.held.get()
            for client in clients[1:]:
                client.send(client.produce_request("t", batch("y"), acks=1), 9)
            while broker.partition("t").log.log_end_offset < 5:  # noqa: ASYNC110
                await asyncio.sleep(0)
            gate.set()
            (await held.held.get()).set()
            offsets = []
            for client in clients:
                _, answer = await client.receive(ProduceResponse, 9)
                offsets.append(answer.responses[0].partition_responses[0].base_offset)
            assert sorted(offsets) == [0, 1, 2, 3, 4]
            assert held.held.empty()

    run(scenario())


def test_a_batch_not_committed_in_time_is_timed_out_and_forgotten(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", flush_messages="1")
            held = hold_syncs(broker)
            client = await broker.connect()
            (answer,) = await client.produce("t", batch("x"), acks=-1, timeout_ms=20)
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert broker.partition("t")._committing.waits == []
            (await held.held.get()).set()

    run(scenario())


@pytest.mark.parametrize(("lose", "error"), [
    (lambda broker: broker.delete_topic("t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (
        lambda broker: broker.change_partition("t", 0, leader=2, isr=[2], replicas=[1, 2]),
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ),
])  # fmt: skip
def test_a_produce_waiting_for_a_commit_is_answered_when_leadership_ends(run, lose, error):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", flush_messages="1")
            held = hold_syncs(broker)
            client = await broker.connect()
            client.send(client.produce_request("t", batch("x"), acks=-1), 9)
            gate = await held.held.get()
            lose(broker)
            _, answer = await client.receive(ProduceResponse, 9)
            assert answer.responses[0].partition_responses[0].error_code == error
            gate.set()

    run(scenario())


def test_a_failed_fsync_takes_the_partition_offline(run, caplog):
    class BrokenDisk(SlowDisk):
        broken = False

        def open(self, path, *, create=False):
            return BrokenFile(MemoryDisk.open(self, path, create=create), self)

    class BrokenFile(SlowFile):
        def sync(self) -> None:
            if self._disk.broken:
                raise OSError(5, "input/output error")
            super().sync()

    async def scenario():
        disk = BrokenDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", flush_messages="1")
            client = await broker.connect()
            disk.broken = True
            for _ in range(2):
                (answer,) = await client.produce("t", batch("x"), acks=1)
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await client.fetch("t", {0: 0}))[0].high_watermark == 0
            disk.broken = False

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert [line for line in caplog.messages if "t-0 is offline" in line]


def test_idle_does_not_wait_for_a_group_commit_that_failed(run):
    async def scenario():
        async with DataBroker() as broker:

            def broken(call, *args):
                raise RuntimeError("a bug")

            broker.commits._spawner = HeldSpawner(broker.spawner)
            broker.commits._spawner.blocking = broken
            broker.create_topic("t", flush_messages="1")
            client = await broker.connect()
            client.send(client.produce_request("t", batch("x"), acks=1), 9)
            while not broker.failures:  # noqa: ASYNC110
                await asyncio.sleep(0)
            async with asyncio.timeout(60):
                await broker.commits.idle()
            assert [str(failure) for failure in broker.failures] == ["a bug"]
            broker.failures.clear()

    run(scenario())


def test_producers_that_cannot_be_read_from_disk_are_an_error_of_their_partition(run, monkeypatch):
    def broken(*_):
        raise OSError(5, "input/output error")

    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", partitions=2)
            client = await broker.connect()
            broker.partition("t").log.producers.known = None  # as after a start
            monkeypatch.setattr("odradek.log.producer_memory.restore_producers", broken)
            idempotent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
            first, second = await client.produce("t", batch("x", **idempotent), batch("x", **idempotent))
            assert (first.error_code, second.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)

    run(scenario())


class FullDisk(MemoryDisk):
    full = False

    def make_dir(self, path):
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().make_dir(path)


def test_a_topic_whose_log_cannot_be_created_does_not_affect_others(run):
    async def scenario():
        disk = FullDisk()
        async with DataBroker(disk=disk) as running:
            running.create_topic("t")
            disk.full = True
            running.create_topic("late")
            client = await running.connect()
            [late] = await client.produce("late", batch("x"))
            [early] = await client.produce("t", batch("x"))
            return late.error_code, early.error_code

    assert run(scenario()) == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
