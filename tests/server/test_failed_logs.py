"""Logs that failed: what the broker reports to the controller until the image shows it, and how they are reopened."""

from __future__ import annotations

import asyncio
import contextlib
import threading

from odradek.adapters.disk import OsDisk
from odradek.base.errors import ErrorCode
from odradek.base.ids import DirectoryId
from odradek.log import reopening
from odradek.metadata.image import LOST_DIRECTORY
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.p12_heartbeat import HeartbeatRequest
from odradek.server.failed_logs import FailedLogs
from support.data_broker import BROKER_ID, DataBroker, batch
from support.group_broker import GroupBroker

HERE = DirectoryId(b"d" * 16)


class Controller:
    def __init__(self) -> None:
        self.told: list[tuple[bytes, int]] = []

    async def ask(self, request, response, *, timeout_ms):
        for directory in request.directories:
            self.told += [
                (directory.id, each.partition_index) for topic in directory.topics for each in topic.partitions
            ]
        return response()


async def in_turn(call, *args):
    return call(*args)


def looking(broker, controller, slow=in_turn, on_opened=lambda: None):
    return FailedLogs(
        channel=controller,
        broker_id=BROKER_ID,
        broker_epoch=1,
        directory=HERE,
        clock=broker.clock,
        logs=broker.logs,
        partitions=broker.partitions,
        image=lambda: broker.broker.image,
        slow=slow,
        on_opened=on_opened,
    )


def test_a_working_log_that_the_image_calls_lost_is_reported_until_the_image_is_correct(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2)
            controller = Controller()
            failed_logs = looking(broker, controller)
            await failed_logs.look()
            assert controller.told == []
            broker.change_partition("t", 1, directories=[LOST_DIRECTORY])
            await failed_logs.look()
            await failed_logs.look()
            assert controller.told == [(HERE, 1), (HERE, 1)]
            broker.change_partition("t", 1, directories=[HERE])
            await failed_logs.look()
            assert controller.told == [(HERE, 1), (HERE, 1)]

    run(scenario())


def lose(broker, topic, index=0):
    """Its disk failed, and the controller knows."""
    broker.partition(topic, index).log.fail(OSError("no space"))
    broker.change_partition(topic, index, directories=[LOST_DIRECTORY], leader=-1, isr=[])


@contextlib.asynccontextmanager
async def with_one_lost(disk=None, **configs):
    """A broker whose one log has three records and failed, and a client of it."""
    async with DataBroker(disk=disk) as broker:
        broker.create_topic("t", **configs)
        client = await broker.connect()
        await client.produce("t", batch("a", "b", "c", timestamp=broker.clock.wall_ms() - 2000))
        lose(broker, "t")
        yield broker, client


async def make_anew(broker, client):
    """Recreates the topic, with one acknowledged record in it."""
    broker.delete_topic("t")
    broker.create_topic("t")
    await client.produce("t", batch("acknowledged"))


def stored(broker):
    return broker.disk.read("t-0/00000000000000000000.log")


def test_a_topic_recreated_before_its_log_is_reopened_keeps_its_new_log(run):
    async def scenario():
        async with with_one_lost() as (broker, client):
            broker.partition("t").log.advance_log_start(3)

            async def slow(call, *args):
                if call == broker.logs.probe:
                    await make_anew(broker, client)
                return call(*args)

            await looking(broker, Controller(), slow).look()
            log = broker.partition("t").log
            assert (log.offline, log.log_start_offset, log.log_end_offset) == (None, 0, 1)
            assert b"acknowledged" in stored(broker)
            (answer,) = await client.produce("t", batch("more"))
            assert (answer.error_code, answer.base_offset) == (0, 1)

    run(scenario())


def test_a_topic_recreated_while_its_old_log_is_read_gets_its_log_after_that(run, monkeypatch):
    async def scenario():
        async with with_one_lost() as (broker, client):
            broker.partition("t").log.advance_log_start(3)
            write_again = reopening.write_again
            met = []

            def write_again_and_meet_another(*args):
                write_again(*args)
                if not met:
                    broker.delete_topic("t")
                    broker.create_topic("t")
                    met.append(broker.partitions.get("t", 0))

            monkeypatch.setattr(reopening, "write_again", write_again_and_meet_another)
            await looking(broker, Controller()).look()
            assert met == [None]
            (answer,) = await client.produce("t", batch("acknowledged"))
            assert (answer.error_code, answer.base_offset) == (0, 0)
            assert b"acknowledged" in stored(broker)

    run(scenario())


def test_reopening_the_log_of_a_topic_deleted_meanwhile_touches_only_its_own_files(run):
    """It waits for its turn at the disk, and then deletes only its own files."""

    async def scenario():
        async with with_one_lost() as (broker, _):
            directories = []

            async def slow(call, *args):
                if call != broker.logs.reopen:
                    return call(*args)
                broker.delete_topic("t")
                reopened = call(*args)
                directories.append(reopened.directory)
                return reopened

            await looking(broker, Controller(), slow).look()
            (directory,) = directories
            assert directory.endswith("-delete")
            assert broker.logs.logs == {}

    run(scenario())


def test_a_topic_recreated_while_a_thread_reads_the_old_log_is_not_a_disk_error(run, tmp_path, monkeypatch, caplog):
    """Its files are removed under the thread: that is not a disk error, so nothing waits for the disk to recover."""
    is_reading, is_made_anew = threading.Event(), threading.Event()
    write_again = reopening.write_again

    def read_slowly(*args):
        is_reading.set()
        is_made_anew.wait()
        write_again(*args)

    monkeypatch.setattr(reopening, "write_again", read_slowly)

    async def scenario():
        async with with_one_lost(OsDisk(str(tmp_path))) as (broker, client):
            failed_logs = looking(broker, Controller(), asyncio.to_thread)
            look = asyncio.ensure_future(failed_logs.look())
            await asyncio.to_thread(is_reading.wait)
            broker.delete_topic("t")
            broker.create_topic("t")
            assert broker.partitions.get("t", 0) is None
            is_made_anew.set()
            await look
            (answer,) = await client.produce("t", batch("acknowledged"))
            assert (answer.error_code, answer.base_offset) == (0, 0)
            assert b"acknowledged" in (tmp_path / "t-0" / "00000000000000000000.log").read_bytes()

    run(scenario())
    assert "the disk still fails" not in caplog.text


def test_retention_skips_a_log_while_it_is_reopened(run):
    """The reopened log has the files that would have expired, and later records are written to them."""

    async def scenario():
        async with with_one_lost(retention_ms="1000") as (broker, client):

            async def slow(call, *args):
                result = call(*args)
                if call == broker.logs.reopen:
                    await broker.housekeeping.delete_expired()
                return result

            await looking(broker, Controller(), slow).look()
            broker.change_partition("t", 0, directories=[HERE], leader=BROKER_ID, isr=[BROKER_ID])
            (answer,) = await client.produce("t", batch("acknowledged"))
            assert (answer.error_code, answer.base_offset) == (0, 3)
            assert b"acknowledged" in stored(broker)

    run(scenario())


def test_expired_segments_of_a_failed_log_are_deleted_to_free_a_full_disk(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", internal_segment_bytes="1000", retention_bytes="1500")
            client = await broker.connect()
            for _ in range(4):
                await client.produce("t", batch("x" * 900))
            lose(broker, "t")
            await broker.housekeeping.delete_expired()
            await looking(broker, Controller()).look()
            log = broker.partition("t").log
            assert (log.offline, log.log_start_offset, log.log_end_offset, log.segment_count) == (None, 2, 4, 2)

    run(scenario())


def test_groups_are_coordinated_once_the_log_of_their_partition_could_be_created(monkeypatch):
    """No metadata commit announces it: the image named this broker as the leader all the time."""
    broker = GroupBroker()
    groups = broker.broker.groups

    def full(*_):
        raise OSError("no space left")

    async def told():
        answer = await broker.send(12, HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody"), 4)
        return ErrorCode(answer.error_code)

    async def story():
        with monkeypatch.context() as disk:
            disk.setattr(broker.logs, "create_log", full)
            await broker.send(10, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            assert await told() is ErrorCode.NOT_COORDINATOR
        await looking(broker, Controller(), on_opened=groups.look_again).look()
        assert await told() is ErrorCode.UNKNOWN_MEMBER_ID
        shard = groups.shard("g")
        groups.look_again()
        assert groups.shard("g") is shard
        groups.stop()
        groups.look_again()
        assert await told() is ErrorCode.NOT_COORDINATOR

    broker.run(story())
