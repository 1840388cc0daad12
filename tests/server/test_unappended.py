"""Batches that are recompressed before the append: their order, their errors, and changes that come meanwhile."""

from __future__ import annotations

import asyncio
import functools

import pytest

from odradek.base import limits
from odradek.base.errors import ErrorCode
from odradek.protocol.batch import HEADER_BYTES, iter_batches, iter_records, read_header
from odradek.protocol.compression import Codec
from odradek.protocol.messages.p00_produce import ProduceResponse
from support.data_broker import DataBroker, batch
from support.held_spawner import HeldSpawner

ZSTD = {"compression_type": "zstd"}


def hold(broker) -> HeldSpawner:
    spawner = HeldSpawner(broker.spawner)
    broker.broker.unappended._spawner = spawner
    return spawner


async def until(condition) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def answer(client):
    _, reply = await client.receive(ProduceResponse, 9)
    return reply.responses[0].partition_responses


def stored(broker, index=0):
    """(codec, values) of each batch."""
    region = broker.partition("t", index).log.read(0, 2**30, 2**60, True)
    return [] if region is None else [
        (Codec(header.codec), [record.value.decode() for record in iter_records(data)])
        for header, data in iter_batches(region.read())
    ]  # fmt: skip


def test_a_batch_is_stored_in_the_codec_of_its_topic(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", **ZSTD)
            client = await broker.connect()
            for offset, codec in enumerate(Codec):
                (told,) = await client.produce("t", batch(codec.name, codec=codec))
                assert (told.error_code, told.base_offset) == (0, offset)
            assert stored(broker) == [(Codec.ZSTD, [codec.name]) for codec in Codec]

    run(scenario())


def test_a_batch_that_has_the_codec_already_takes_no_thread_and_keeps_its_bytes(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", **ZSTD)
            held = hold(broker)
            client = await broker.connect()
            sent = batch("x" * 500, codec=Codec.ZSTD)
            await client.produce("t", sent)
            assert held.held.empty()
            assert broker.partition("t").log.read(0, 2**20, 2**60, True).read()[HEADER_BYTES:] == sent[HEADER_BYTES:]

    run(scenario())


def test_uncompressed_decompresses_batches_and_the_brokers_default_applies(run):
    async def scenario():
        async with DataBroker(settings={"compression.type": "uncompressed"}) as broker:
            broker.create_topic("t")
            client = await broker.connect()
            await client.produce("t", batch("a", "b", codec=Codec.GZIP))
            broker.configure_topic("t", "compression.type", "lz4")
            await client.produce("t", batch("c", codec=Codec.GZIP))
            broker.configure_topic("t", "compression.type", "producer")
            await client.produce("t", batch("d", codec=Codec.GZIP))
            assert stored(broker) == [(Codec.NONE, ["a", "b"]), (Codec.LZ4, ["c"]), (Codec.GZIP, ["d"])]

    run(scenario())


@pytest.mark.parametrize("acks", [1, -1])
def test_many_idempotent_requests_in_flight_stay_in_order(run, acks):
    """Every other batch has the codec already and could overtake."""

    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", **ZSTD)
            client = await broker.connect()
            codecs = [Codec.NONE, Codec.ZSTD, Codec.GZIP]
            for number in range(200):
                named = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
                sent = batch(f"{number}", codec=codecs[number % 3], **named)
                client.send(client.produce_request("t", sent, acks=acks), 9)
            told = [(await answer(client))[0] for _ in range(200)]
            assert [(one.error_code, one.base_offset) for one in told] == [(0, number) for number in range(200)]
            assert stored(broker) == [(Codec.ZSTD, [str(number)]) for number in range(200)]
            repeated = batch("199", producer_id=7, producer_epoch=0, base_sequence=199)
            (told,) = await client.produce("t", repeated)
            assert (told.error_code, told.base_offset) == (0, 199)
            assert broker.partition("t").log.log_end_offset == 200

    run(scenario())


def test_no_batch_of_another_connection_overtakes(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2, **ZSTD)
            held = hold(broker)
            slow, quick = await broker.connect(), await broker.connect()
            slow.send(slow.produce_request("t", batch("slow")), 9)
            gate = await held.held.get()
            # Needs no recompression; in another partition, it need not wait either.
            quick.send(quick.produce_request("t", (1, batch("quick", codec=Codec.ZSTD))), 9)
            await answer(quick)
            quick.send(quick.produce_request("t", batch("quick", codec=Codec.ZSTD)), 9)
            await until(lambda: broker.partition("t").unappended == 2)
            # It does not overtake either when the topic stops recompressing.
            broker.configure_topic("t", "compression.type", "producer")
            third = await broker.connect()
            third.send(third.produce_request("t", batch("third")), 9)
            await until(lambda: broker.partition("t").unappended == 3)
            gate.set()
            for _ in range(2):
                (await held.held.get()).set()
            for client in (slow, quick, third):
                await answer(client)
            assert [values for _, values in stored(broker)] == [["slow"], ["quick"], ["third"]]
            assert broker.partition("t").unappended == 0

    run(scenario())


def test_a_short_timeout_neither_ends_the_wait_for_the_append_nor_lets_anything_overtake(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", **ZSTD)
            held = hold(broker)
            client = await broker.connect()
            for number in range(2):
                client.send(client.produce_request("t", batch(f"{number}"), acks=-1, timeout_ms=0), 9)
            for _ in range(2):
                (await held.held.get()).set()
                (told,) = await answer(client)
                assert told.error_code == 0
            assert [values for _, values in stored(broker)] == [["0"], ["1"]]

    run(scenario())


def test_the_next_request_is_read_once_the_batch_is_appended_not_once_it_is_committed(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", flush_messages="1", **ZSTD)
            syncs = HeldSpawner(broker.spawner)
            broker.commits._spawner = syncs
            client = await broker.connect()
            for number in range(3):
                client.send(client.produce_request("t", batch(f"{number}"), acks=-1), 9)
            gate = await syncs.held.get()
            await until(lambda: broker.partition("t").log.log_end_offset == 3)
            gate.set()
            (await syncs.held.get()).set()
            assert [(await answer(client))[0].base_offset for _ in range(3)] == [0, 1, 2]

    run(scenario())


def test_several_batches_of_one_request_stay_in_order(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2, **ZSTD)
            client = await broker.connect()
            told = await client.produce(
                "t", (0, batch("a")), (1, batch("x")), (0, batch("b", codec=Codec.ZSTD)), (0, batch("c"))
            )
            assert [(one.index, one.base_offset) for one in told] == [(0, 0), (1, 0), (0, 1), (0, 2)]
            assert stored(broker) == [(Codec.ZSTD, ["a"]), (Codec.ZSTD, ["b"]), (Codec.ZSTD, ["c"])]

    run(scenario())


@pytest.mark.parametrize("returns", [True, False])
def test_a_queued_batch_is_appended_only_by_a_leader(run, returns):
    """A broker that leads again appends it: after a refusal, later batches of the client could overtake it."""

    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", **ZSTD)
            held = hold(broker)
            client = await broker.connect()
            client.send(client.produce_request("t", batch("x"), acks=1), 9)
            gate = await held.held.get()
            broker.change_partition("t", 0, leader=2, isr=[2], replicas=[1, 2])
            if returns:
                broker.change_partition("t", 0, leader=1, isr=[1], replicas=[1, 2])
            gate.set()
            (told,) = await answer(client)
            assert told.error_code == (0 if returns else ErrorCode.NOT_LEADER_OR_FOLLOWER)
            assert broker.partition("t").log.log_end_offset == (1 if returns else 0)

    run(scenario())


def test_acks_0_is_appended_after_the_client_has_left_and_an_error_closes_the_connection(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", **ZSTD)
            held = hold(broker)
            leaving = await broker.connect()
            leaving.send(leaving.produce_request("t", batch("x"), acks=0), 9)
            gate = await held.held.get()
            leaving.writer.close()
            gate.set()
            await until(lambda: broker.partition("t").log.log_end_offset == 1)
            careless = await broker.connect()
            careless.send(careless.produce_request("t", unreadable(), acks=0), 9)
            (await held.held.get()).set()
            assert await careless.closed()

    run(scenario())


def unreadable() -> bytearray:
    return batch("x", codec=Codec.LZ4)[:HEADER_BYTES] + b"no lz4"


def test_a_refused_batch_has_a_message_and_other_batches_of_the_request_are_appended(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 3, cleanup_policy="compact", **ZSTD)
            client = await broker.connect()
            keyed = functools.partial(batch, key=b"k")
            corrupt = keyed("y")
            corrupt[-1] ^= 1
            one, two, three = await client.produce("t", batch("x"), corrupt, keyed("z"))
            assert (one.error_code, [record.batch_index for record in one.record_errors]) == (
                ErrorCode.INVALID_RECORD,
                [0],
            )
            assert two.error_code == ErrorCode.CORRUPT_MESSAGE
            assert "checksum" in two.error_message
            assert (three.error_code, stored(broker, 2)) == (0, [(Codec.ZSTD, ["z"])])

    run(scenario())


def test_log_append_time_is_stamped_on_the_recompressed_batch(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", message_timestamp_type="LogAppendTime", **ZSTD)
            client = await broker.connect()
            (told,) = await client.produce("t", batch("x", timestamp=5))
            data = broker.partition("t").log.read(0, 2**20, 2**60, True).read()
            header = read_header(data)
            assert header.uses_append_time
            assert header.max_timestamp == told.log_append_time_ms > 5
            assert [record.timestamp for record in iter_records(data)] == [told.log_append_time_ms]

    run(scenario())


def test_zstd_from_an_old_client_is_refused_though_the_topic_stores_zstd(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", **ZSTD)
            client = await broker.connect()
            (told,) = await client.produce("t", batch("x", codec=Codec.ZSTD), version=6)
            assert told.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            (told,) = await client.produce("t", batch("x"), version=3)
            assert told.error_code == 0
            assert stored(broker) == [(Codec.ZSTD, ["x"])]

    run(scenario())


def test_queued_bytes_are_bounded_and_requests_after_a_refused_batch_are_not_read(run, monkeypatch):
    """Otherwise a producer's second batch could be appended before the retry of its first, and stay in that order."""

    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", **ZSTD)
            held = hold(broker)
            first, second = await broker.connect(), await broker.connect()
            monkeypatch.setattr(limits, "unappended_bytes_max", 1)
            first.send(first.produce_request("t", batch("x" * 1000)), 9)
            gate = await held.held.get()
            named = functools.partial(batch, producer_id=7, producer_epoch=0)
            second.send(second.produce_request("t", named("one", base_sequence=0)), 9)
            second.send(second.produce_request("t", named("two", base_sequence=1, codec=Codec.ZSTD)), 9)
            (told,) = await answer(second)
            assert told.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert "wait" in told.error_message
            assert await second.closed()
            gate.set()
            assert (await answer(first))[0].error_code == 0
            third = await broker.connect()
            third.send(third.produce_request("t", named("one", base_sequence=0)), 9)
            (await held.held.get()).set()
            assert (await answer(third))[0].base_offset == 1

    run(scenario())


def test_a_stopping_broker_appends_queued_batches(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", **ZSTD)
            held = hold(broker)
            client = await broker.connect()
            client.send(client.produce_request("t", batch("x"), acks=0), 9)
            gate = await held.held.get()
            stopping = asyncio.ensure_future(broker.broker.unappended.stop())
            gate.set()
            await stopping
            assert broker.partition("t").log.log_end_offset == 1

    run(scenario())


def test_nothing_is_appended_after_the_stop(run, monkeypatch):
    """The logs are closed then: the next start would not see the batch, which lies behind the stored log end."""

    async def scenario():
        async with DataBroker() as broker:
            monkeypatch.setattr(limits, "connection_close_grace_ms", 1)
            broker.create_topic("t", **ZSTD)
            held = hold(broker)
            client = await broker.connect()
            client.send(client.produce_request("t", batch("x")), 9)
            gate = await held.held.get()
            await broker.broker.unappended.stop()
            gate.set()
            (told,) = await answer(client)
            assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert broker.partition("t").log.log_end_offset == 0

    run(scenario())


def test_a_bug_fails_one_batch_and_not_the_node(run, monkeypatch):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", **ZSTD)
            client = await broker.connect()
            with monkeypatch.context() as patch:
                patch.setattr("odradek.server.unappended.ready_to_append", lambda *_: 1 // 0)
                (told,) = await client.produce("t", batch("x"))
            assert told.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            (told,) = await client.produce("t", batch("y"))
            assert (told.error_code, told.base_offset) == (0, 0)

    run(scenario())


def test_some_threads_are_left_for_fsync(run):
    async def scenario():
        async with DataBroker() as broker:
            most = limits.checked_batches_at_once_max
            broker.create_topic("t", most + 1, **ZSTD)
            held = hold(broker)
            client = await broker.connect()
            client.send(client.produce_request("t", *[batch("x")] * (most + 1)), 9)
            gates = [await held.held.get() for _ in range(most)]
            await until(lambda: broker.partition("t", most).unappended == 1)
            assert held.held.empty()
            gates[0].set()
            gates.append(await held.held.get())
            for gate in gates:
                gate.set()
            assert [one.error_code for one in await answer(client)] == [0] * (most + 1)

    run(scenario())
