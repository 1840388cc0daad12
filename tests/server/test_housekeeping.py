"""The background chores of a broker, each called by hand."""

from __future__ import annotations

import asyncio
import errno

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.log.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, decode_offsets
from odradek.replication.isolation import FetchIsolation
from support.data_broker import DataBroker, batch

T0 = TopicPartition("t", 0)


def offsets(disk, checkpoint):
    return decode_offsets(disk.read(checkpoint))


async def until(holds) -> None:
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0)


def names(disk, suffix):
    return [name for name in disk.listdir("t-0") if name.endswith(suffix)]


async def fill_segments(broker, client, count):
    """Each batch fills a segment of its own."""
    for _ in range(count):
        await client.produce("t", batch("x" * 900))
    assert broker.partition("t").log.segment_count == count


def test_expired_segments_are_removed_from_the_log_and_then_from_the_disk(run):
    async def scenario():
        disk = MemoryDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", internal_segment_bytes="1000", retention_bytes="1500", file_delete_delay_ms="0")
            client = await broker.connect()
            await fill_segments(broker, client, 4)
            await broker.housekeeping.delete_expired()
            log = broker.partition("t").log
            assert (log.segment_count, log.log_start_offset) == (2, 2)
            assert (await client.fetch("t", {0: 2}))[0].log_start_offset == 2
            await until(lambda: len(names(disk, ".log")) == 2 and not names(disk, ".deleted"))

    run(scenario())


def test_a_region_being_sent_outlives_its_segment(run):
    async def scenario():
        disk = MemoryDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", internal_segment_bytes="1000", retention_bytes="0", file_delete_delay_ms="0")
            client = await broker.connect()
            written = batch("x" * 900)
            await client.produce("t", written)
            partition = broker.partition("t")
            read = partition.read(0, 10_000, -1, FetchIsolation.HIGH_WATERMARK, whole_first_batch=True)
            await broker.housekeeping.delete_expired()
            await until(lambda: names(disk, ".log") == ["00000000000000000001.log"] and not names(disk, ".deleted"))
            content = read.records.read()
            assert len(content) == len(written)
            assert content[61:] == written[61:]
            read.records.release()

    run(scenario())


def test_high_watermarks_are_written_when_they_moved(run):
    async def scenario():
        disk = MemoryDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t")
            client = await broker.connect()
            await client.produce("t", batch("a", "b"))
            await broker.housekeeping.write_high_watermarks()
            assert offsets(disk, HIGH_WATERMARKS) == {T0: 2}
            disk.remove(HIGH_WATERMARKS)
            await broker.housekeeping.write_high_watermarks()
            assert not disk.exists(HIGH_WATERMARKS)
            await client.produce("t", batch("c"))
            await broker.housekeeping.write_high_watermarks()
            assert offsets(disk, HIGH_WATERMARKS) == {T0: 3}

    run(scenario())


def test_filled_segments_are_synced_in_the_background(run):
    async def scenario():
        disk = MemoryDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", internal_segment_bytes="1000")
            client = await broker.connect()
            await fill_segments(broker, client, 3)
            log = broker.partition("t").log
            assert log.recovery_point == 0
            await broker.housekeeping.flush()
            await broker.commits.idle()
            assert log.recovery_point == 2
            await broker.housekeeping.write_checkpoints()
            assert offsets(disk, RECOVERY_POINTS) == {T0: 2}

    run(scenario())


def test_flush_ms_syncs_records_that_are_old_enough_and_sets_the_check_interval(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", flush_ms="20")
            broker.create_topic("u")
            client = await broker.connect()
            await client.produce("t", batch("a"))
            await client.produce("u", batch("a"))
            assert await broker.housekeeping.flush() == 20
            await until(lambda: broker.partition("t").log.recovery_point == 1)
            assert broker.partition("u").log.recovery_point == 0
            assert broker.partition("t").high_watermark == 1

    run(scenario())


def test_the_chores_run_in_the_background_and_end_with_the_broker(run):
    async def scenario():
        disk = MemoryDisk()
        settings = {"replica.high.watermark.checkpoint.interval.ms": "5", "log.retention.check.interval.ms": "5"}
        async with DataBroker(disk=disk, settings=settings) as broker:
            broker.create_topic("t", internal_segment_bytes="1000", retention_bytes="0")
            client = await broker.connect()
            await client.produce("t", batch("x" * 900))
            await until(lambda: disk.exists(HIGH_WATERMARKS) and offsets(disk, HIGH_WATERMARKS) == {T0: 1})
            await until(lambda: broker.partition("t").log.log_start_offset == 1)
        assert offsets(disk, HIGH_WATERMARKS) == {T0: 1}

    run(scenario())


class FullDisk(MemoryDisk):
    """Takes no new bytes while it is full."""

    full = False

    def open(self, path, *, create=False):
        return FullFile(super().open(path, create=create), self)

    def replace(self, path, data) -> None:
        self.refuse_if_full()
        super().replace(path, data)

    def refuse_if_full(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")


class FullFile:
    def __init__(self, file, disk) -> None:
        self._file = file
        self._disk = disk

    def __getattr__(self, name):
        return getattr(self._file, name)

    def pwrite(self, data, position):
        self._disk.refuse_if_full()
        return self._file.pwrite(data, position)


def segments_on_disk(disk, topic):
    return [name for name in disk.listdir(f"{topic}-0") if name.endswith(".log")]


def test_segments_that_expired_while_the_disk_was_full_are_removed_once_there_is_room(run):
    """In every partition: after an error in the first one, the others are still handled."""

    async def scenario():
        disk = FullDisk()
        async with DataBroker(disk=disk) as broker:
            client = await broker.connect()
            for topic in ("t", "u"):
                broker.create_topic(
                    topic, internal_segment_bytes="1000", retention_bytes="1500", file_delete_delay_ms="0"
                )
                for _ in range(4):
                    await client.produce(topic, batch("x" * 900))
            disk.full = True
            await broker.housekeeping.delete_expired()
            await broker.housekeeping.delete_expired()
            assert [broker.partition(topic).log.log_start_offset for topic in ("t", "u")] == [2, 2]
            assert [len(segments_on_disk(disk, topic)) for topic in ("t", "u")] == [4, 4]
            disk.full = False
            await broker.housekeeping.delete_expired()
            assert [len(segments_on_disk(disk, topic)) for topic in ("t", "u")] == [2, 2]
            await until(lambda: not names(disk, ".deleted"))

    run(scenario())


def test_a_log_restarted_at_the_offset_of_an_expired_segment_keeps_its_file(run):
    async def scenario():
        disk = FullDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", internal_segment_bytes="1000", retention_bytes="1500", file_delete_delay_ms="0")
            client = await broker.connect()
            await fill_segments(broker, client, 4)
            disk.full = True
            await broker.housekeeping.delete_expired()
            disk.full = False
            broker.partition("t").log.truncation.fully_and_start_at(1)
            await broker.housekeeping.delete_expired()
            assert names(disk, ".log") == ["00000000000000000001.log"]

    run(scenario())


def test_expired_segments_of_a_deleted_topic_are_forgotten(run):
    async def scenario():
        disk = FullDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", internal_segment_bytes="1000", retention_bytes="1500")
            client = await broker.connect()
            await fill_segments(broker, client, 4)
            disk.full = True
            await broker.housekeeping.delete_expired()
            disk.full = False
            broker.delete_topic("t")
            broker.create_topic("t")
            await broker.housekeeping.delete_expired()
            assert names(disk, ".log") == ["00000000000000000000.log"]
            assert not broker.housekeeping._unretired

    run(scenario())


def test_a_full_disk_is_an_error_of_the_partitions_written_to_and_the_node_goes_on(run, caplog):
    """No acknowledged record is lost, refused records are not stored, and a restart accepts writes again."""
    disk = FullDisk()
    often = {"replica.high.watermark.checkpoint.interval.ms": "5", "log.flush.offset.checkpoint.interval.ms": "5"}

    async def filled_up():
        async with DataBroker(disk=disk, settings=often) as broker:
            broker.create_topic("t", partitions=2)
            client = await broker.connect()
            await client.produce("t", batch("kept"))
            disk.full = True
            (answer,) = await client.produce("t", batch("refused"))
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            await until(lambda: "checkpoints: [Errno 28] No space left on device" in caplog.messages)
            disk.full = False
            (offline,) = await client.produce("t", batch("refused"))
            (other,) = await client.produce("t", (1, batch("another partition")))
            assert (offline.error_code, other.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
            assert (await client.fetch("t", {0: 0}))[0].high_watermark == 1

    async def restarted():
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", partitions=2)
            client = await broker.connect()
            (answer,) = await client.produce("t", batch("after it"))
            assert (answer.error_code, answer.base_offset) == (0, 1)

    run(filled_up())
    run(restarted())


def test_a_removal_that_fails_is_left_to_the_next_start(run, caplog):
    async def scenario():
        disk = MemoryDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", file_delete_delay_ms="0")

            def refuse(path):
                raise OSError(errno.ENOTEMPTY, "Directory not empty")

            disk.remove_tree = refuse
            broker.delete_topic("t")
            await until(lambda: any("Directory not empty" in message for message in caplog.messages))

    run(scenario())
