"""Fetch over real sockets: whole batches, KIP-74's limits, waking, sessions, errors."""

from __future__ import annotations

import asyncio
import errno

import pytest

from odradek.base import limits
from odradek.base.errors import ErrorCode
from odradek.protocol.batch import iter_batches, iter_records
from odradek.protocol.compression import Codec
from odradek.protocol.messages.p01_fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic
from odradek.security.authorizer import Operation
from odradek.server.api.p01_fetch import CODEC_CHUNK_BYTES
from support.admin_broker import Denying
from support.data_broker import DataBroker, batch

NOBODY = b"nobody has this!"
FOREVER_MS = 60_000


def values(records: bytes) -> list[bytes]:
    return [record.value for found in iter_batches(records) for record in iter_records(found.data)]


def offsets(records: bytes) -> list[int]:
    return [found.header.base_offset for found in iter_batches(records)]


class Watched:
    """A file that counts its pins and where codecs were looked at. May break there."""

    def __init__(self, file, *, is_broken=True) -> None:
        self._file = file
        self._is_broken = is_broken
        self.pins = 0
        self.looks = []

    def __getattr__(self, name):
        return getattr(self._file, name)

    def pin(self) -> None:
        self.pins += 1

    def unpin(self) -> None:
        self.pins -= 1

    def pread(self, length, position):
        if length == CODEC_CHUNK_BYTES:
            self.looks.append(position)
            if self._is_broken:
                raise OSError(errno.EIO, "input/output error")
        return self._file.pread(length, position)


async def parked(broker) -> None:
    while not broker.broker.parked_fetches:  # noqa: ASYNC110
        await asyncio.sleep(0)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_what_was_written(run, version):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2)
            client = await broker.connect()
            await client.produce("t", batch("a", "b"), batch("c"))
            answer = await client.fetch("t", {0: 0, 1: 0}, version=version)
            assert values(answer[0].records) == [b"a", b"b"]
            assert values(answer[1].records) == [b"c"]
            assert (answer[0].error_code, answer[0].high_watermark, answer[0].last_stable_offset) == (0, 2, 2)
            assert answer[0].log_start_offset == (0 if version >= 5 else -1)
            assert answer[0].aborted_transactions is None
            committed = await client.fetch("t", {0: 0}, version=version, isolation_level=1)
            assert values(committed[0].records) == [b"a", b"b"]
            assert committed[0].aborted_transactions == []

    run(scenario())


def test_an_offset_inside_a_batch_gives_the_whole_batch(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            await client.produce("t", batch("a", "b", "c"))
            await client.produce("t", batch("d"))
            answer = await client.fetch("t", {0: 2})
            assert values(answer[0].records) == [b"a", b"b", b"c", b"d"]

    run(scenario())


def test_limits_of_kip_74(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 3)
            client = await broker.connect()
            written = batch("x" * 1000)
            size = len(written)
            for _ in range(3):
                await client.produce("t", written, written, written)

            async def sizes(wanted, **limits):
                answer = await client.fetch("t", wanted, **limits)
                return [len(answer[index].records) // size for index in wanted]

            everything = {0: 0, 1: 0, 2: 0}
            assert await sizes(everything) == [3, 3, 3]
            # A partition's own limit, in whole batches.
            assert await sizes(everything, partition_max=2 * size + 5) == [2, 2, 2]
            # The request's limit, in the order of the request.
            assert await sizes(everything, max_bytes=4 * size) == [3, 1, 0]
            assert await sizes({2: 0, 0: 0, 1: 0}, max_bytes=4 * size) == [3, 1, 0]
            # The first batch is whole whatever the limits are, but only the first.
            assert await sizes(everything, max_bytes=1) == [1, 0, 0]
            assert await sizes(everything, partition_max=1) == [1, 0, 0]
            assert await sizes({0: 3, 1: 0, 2: 0}, partition_max=0, max_bytes=0) == [0, 1, 0]

    run(scenario())


def test_fetch_max_bytes_of_the_broker_limits_the_answer(run):
    async def scenario():
        async with DataBroker(settings={"fetch.max.bytes": "1024"}) as broker:
            broker.create_topic("t")
            client = await broker.connect()
            for _ in range(3):
                await client.produce("t", batch("x" * 500))
            answer = await client.fetch("t", {0: 0})
            assert offsets(answer[0].records) == [0]

    run(scenario())


@pytest.mark.parametrize("offset", [-1, 4, 2**62])
def test_an_offset_out_of_range(run, offset):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            await client.produce("t", batch("a", "b", "c"))
            answer = (await client.fetch("t", {0: offset}, max_wait_ms=FOREVER_MS))[0]
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)
            assert answer.records == b""
            # The end itself is in range.
            assert (await client.fetch("t", {0: 3}))[0].error_code == 0

    run(scenario())


def test_below_the_log_start(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            await client.produce("t", batch("a", "b", "c"))
            broker.partition("t").log.advance_log_start(2)
            assert (await client.fetch("t", {0: 1}))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            answer = (await client.fetch("t", {0: 2}))[0]
            assert (answer.log_start_offset, values(answer.records)) == (2, [b"a", b"b", b"c"])

    run(scenario())


def test_leader_epochs(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            broker.change_partition("t", 0, leader=1)
            client = await broker.connect()

            async def error(epoch):
                request = client.fetch_request("t", {0: 0})
                request.topics[0].partitions[0].current_leader_epoch = epoch
                answer = await client.ask(request, FetchResponse, 12)
                return answer.responses[0].partitions[0].error_code

            epoch = broker.partition("t").leader_epoch
            assert epoch > 0
            assert await error(-1) == 0
            assert await error(epoch) == 0
            assert await error(epoch - 1) == ErrorCode.FENCED_LEADER_EPOCH
            assert await error(epoch + 1) == ErrorCode.UNKNOWN_LEADER_EPOCH

    run(scenario())


def test_unknown_topics_and_partitions(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            answer = await client.fetch("t", {0: 0, 1: 0}, max_wait_ms=FOREVER_MS)
            assert [answer[index].error_code for index in (0, 1)] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            assert answer[1].records == b""
            assert (await client.fetch("u", {0: 0}))[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            request = client.fetch_request("t", {0: 0}, version=13)
            request.topics = [FetchTopic(topic_id=NOBODY, partitions=request.topics[0].partitions)]
            by_id = await client.ask(request, FetchResponse, 13)
            assert by_id.responses[0].topic_id == NOBODY
            assert by_id.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    run(scenario())


def test_a_partition_led_elsewhere(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            broker.change_partition("t", 0, leader=2, isr=[2], replicas=[1, 2])
            client = await broker.connect()
            answer = await client.fetch("t", {0: 0}, version=10)
            assert answer[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario())


def test_fetching_without_read_permission_is_refused(run):
    denying = Denying(lambda operation, _, name: operation is Operation.READ and name == "t")

    async def scenario():
        async with DataBroker(authorizer=denying) as broker:
            broker.create_topic("t")
            client = await broker.connect()
            for version in (12, 13):
                answer = await client.fetch("t", {0: 0}, version=version)
                assert answer[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(scenario())


@pytest.mark.parametrize(("version", "error"), [(9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (10, ErrorCode.NONE)])
def test_zstd_only_from_version_10(run, version, error):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            await client.produce("t", batch("plain"))
            assert (await client.fetch("t", {0: 0}, version=version))[0].error_code == 0
            await client.produce("t", batch("x" * 100, codec=Codec.ZSTD))
            assert (await client.fetch("t", {0: 0}, version=version))[0].error_code == error

    run(scenario())


def test_a_batch_whose_codec_cannot_be_read_is_an_error_of_its_partition(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            await client.produce("t", batch("x"))
            segment = broker.partition("t").log.segments.active
            segment.file = counted = Watched(segment.file)
            answer = await client.fetch("t", {0: 0}, version=9)
            assert answer[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert counted.pins == 0

    run(scenario())


def test_codecs_of_small_batches_are_read_many_at_once(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            one = batch("x")
            for _ in range(300):
                await client.produce("t", one)
            segment = broker.partition("t").log.segments.active
            segment.file = counted = Watched(segment.file, is_broken=False)
            answer = await client.fetch("t", {0: 0}, version=9)
            assert len(answer[0].records) == 300 * len(one)
            assert 1 <= len(counted.looks) <= 1 + 300 * len(one) / (CODEC_CHUNK_BYTES - len(one))
            assert counted.pins == 0

    run(scenario())


def test_a_client_without_zstd_gets_a_limited_number_of_batches_at_once(run, monkeypatch):
    """The broker looks at the codec of each, while the event loop waits."""
    monkeypatch.setattr(limits, "fetch_checked_batches_max", 100)

    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2)
            client = await broker.connect()
            for _ in range(150):
                await client.produce("t", batch("x"))
            await client.produce("t", batch("y", codec=Codec.ZSTD), batch("z"))

            async def counts(offset, version, **more):
                answer = await client.fetch("t", {0: offset, 1: 0}, version=version, **more)
                return [(part.error_code, len(offsets(part.records))) for part in answer.values()]

            assert await counts(0, 10) == [(0, 151), (0, 1)]
            assert await counts(0, 9) == [(0, 100), (0, 0)]
            # It is answered at once, because it never gets more.
            assert await counts(0, 9, min_bytes=2**20, max_wait_ms=FOREVER_MS) == [(0, 100), (0, 0)]
            assert await counts(100, 9) == [(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0), (0, 1)]

    run(scenario())


def test_a_parked_fetch_looks_once_at_the_codec_of_each_batch(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2)
            client, producer = await broker.connect(), await broker.connect()
            large = batch("x" * CODEC_CHUNK_BYTES)
            await producer.produce("t", large)
            segment = broker.partition("t").log.segments.active
            segment.file = counted = Watched(segment.file, is_broken=False)
            wanted = client.fetch_request("t", {0: 0, 1: 0}, max_wait_ms=FOREVER_MS, min_bytes=5 * len(large))
            client.send(wanted, 9)
            await parked(broker)
            for _ in range(3):
                await producer.produce("t", large)
            await producer.produce("t", batch("y", codec=Codec.ZSTD))
            _, answer = await client.receive(FetchResponse, 9)
            assert answer.responses[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            # The last one again for the reply, because it has zstd.
            assert counted.looks == [number * len(large) for number in (0, 1, 2, 3, 4, 4)]
            assert counted.pins == 0

    run(scenario())


def test_a_parked_fetch_wakes_with_the_record(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 3)
            client, producer = await broker.connect(), await broker.connect()
            client.send(client.fetch_request("t", {0: 0, 1: 0, 2: 0}, max_wait_ms=FOREVER_MS), 12)
            await parked(broker)
            await producer.produce("t", (1, batch("woken")))
            _, answer = await client.receive(FetchResponse, 12)
            found = {part.partition_index: part for part in answer.responses[0].partitions}
            assert values(found[1].records) == [b"woken"]
            assert found[0].records == b""
            assert not broker.broker.parked_fetches
            assert not any(broker.partition("t", index).readers for index in range(3))

    run(scenario())


def test_a_parked_fetch_waits_for_exactly_min_bytes(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2)
            client, producer = await broker.connect(), await broker.connect()
            written = batch("x" * 100)
            client.send(client.fetch_request("t", {0: 0, 1: 0}, max_wait_ms=FOREVER_MS, min_bytes=3 * len(written)), 12)
            await parked(broker)
            await producer.produce("t", written)
            await producer.produce("t", written)
            await producer.produce("t", (9, written))
            assert broker.broker.parked_fetches
            await producer.produce("t", (1, written))
            _, answer = await client.receive(FetchResponse, 12)
            assert [len(part.records) // len(written) for part in answer.responses[0].partitions] == [2, 1]

    run(scenario())


def test_a_parked_fetch_answers_at_its_deadline_with_what_there_is(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            await client.produce("t", batch("little"))
            answer = await client.fetch("t", {0: 0}, max_wait_ms=10, min_bytes=1_000_000)
            assert values(answer[0].records) == [b"little"]
            assert (await client.fetch("t", {0: 1}, max_wait_ms=10))[0].records == b""

    run(scenario())


@pytest.mark.parametrize(("version", "error"), [
    (12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (13, ErrorCode.UNKNOWN_TOPIC_ID),
])  # fmt: skip
def test_a_parked_fetch_is_answered_when_its_topic_is_deleted(run, version, error):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            client.send(client.fetch_request("t", {0: 0}, version=version, max_wait_ms=FOREVER_MS), version)
            await parked(broker)
            broker.delete_topic("t")
            _, answer = await client.receive(FetchResponse, version)
            assert answer.responses[0].partitions[0].error_code == error

    run(scenario())


def test_a_topic_created_again_is_another_topic(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            await client.produce("t", batch("old"))
            old = client.fetch_request("t", {0: 0}, version=13)
            broker.delete_topic("t")
            broker.create_topic("t")
            assert (await client.fetch("t", {0: 0}, version=13))[0].high_watermark == 0
            answer = await client.ask(old, FetchResponse, 13)
            assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    run(scenario())


def test_a_parked_fetch_is_answered_when_leadership_moves(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            client.send(client.fetch_request("t", {0: 0}, version=10, max_wait_ms=FOREVER_MS), 10)
            await parked(broker)
            broker.change_partition("t", 0, leader=2, isr=[2], replicas=[1, 2])
            _, answer = await client.receive(FetchResponse, 10)
            assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario())


def test_a_lost_connection_removes_its_parked_fetch(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            client.send(client.fetch_request("t", {0: 0}, max_wait_ms=FOREVER_MS), 12)
            await parked(broker)
            for connection in list(broker.listener._connections):
                connection.abort()
            assert await client.closed()
            assert not broker.broker.parked_fetches
            assert not broker.partition("t").readers

    run(scenario())


def test_a_stop_answers_parked_fetches(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            for _ in range(2):
                client.send(client.fetch_request("t", {0: 0}, max_wait_ms=FOREVER_MS), 12)
            await parked(broker)
            await broker.listener.stop_accepting()
            broker.broker.answer_parked_fetches()
            _, answer = await client.receive(FetchResponse, 12)
            assert answer.responses[0].partitions[0].error_code == 0
            assert await client.closed()

    run(scenario())


def test_a_large_fetch_is_byte_for_byte_what_was_written(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2)
            client = await broker.connect()
            texts = [bytes([65 + i]) * 700_000 for i in range(6)]
            for text in texts:
                await client.produce("t", batch(text), batch(text))
            answer = await client.fetch("t", {0: 0, 1: 0}, partition_max=10_000_000)
            assert values(answer[0].records) == values(answer[1].records) == texts

    run(scenario())


def test_a_session_over_the_wire(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 3)
            client = await broker.connect()
            full = await client.ask(client.fetch_request("t", {0: 0, 1: 0, 2: 0}, session_epoch=0), FetchResponse, 12)
            assert full.session_id
            assert len(full.responses[0].partitions) == 3

            async def incremental(epoch, wanted=None, **fields):
                request = client.fetch_request("t", wanted or {}, session_id=full.session_id, session_epoch=epoch)
                for name, value in fields.items():
                    setattr(request, name, value)
                return await client.ask(request, FetchResponse, 12)

            nothing = await incremental(1)
            assert (nothing.error_code, nothing.session_id, nothing.responses) == (0, full.session_id, [])
            await client.produce("t", (2, batch("news")))
            news = await incremental(2)
            assert [part.partition_index for part in news.responses[0].partitions] == [2]
            assert values(news.responses[0].partitions[0].records) == [b"news"]
            assert (await incremental(3, {2: 1})).responses == []
            # Without partitions of its own it still waits for the session's.
            client.send(
                client.fetch_request("t", {}, session_id=full.session_id, session_epoch=4, max_wait_ms=FOREVER_MS),
                12,
            )
            await parked(broker)
            producer = await broker.connect()
            await producer.produce("t", (0, batch("more")))
            _, more = await client.receive(FetchResponse, 12)
            assert [part.partition_index for part in more.responses[0].partitions] == [0]
            forgotten = [ForgottenTopic(topic="t", partitions=[0])]
            assert (await incremental(5, forgotten_topics_data=forgotten)).responses == []
            wrong = await incremental(5)
            assert (wrong.error_code, wrong.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
            ended = await incremental(-1, {1: 0})
            assert ended.session_id == 0
            unknown = await incremental(6)
            assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    run(scenario())


def test_an_empty_fetch_does_not_wait(run):
    async def scenario():
        async with DataBroker() as broker:
            client = await broker.connect()
            answer = await client.ask(client.fetch_request("t", {}, max_wait_ms=FOREVER_MS), FetchResponse, 12)
            assert answer.responses == []

    run(scenario())


def test_the_same_partition_twice(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            request = client.fetch_request("t", {0: 0}, max_wait_ms=10)
            request.topics[0].partitions.append(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100))
            answer = await client.ask(request, FetchResponse, 12)
            assert [part.partition_index for part in answer.responses[0].partitions] == [0, 0]

    run(scenario())
