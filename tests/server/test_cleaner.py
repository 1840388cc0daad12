"""Background compaction: which log, when, and what happens to a result that comes too late."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading

import pytest

from odradek.adapters.disk import OsDisk
from odradek.adapters.memory_disk import MemoryDisk
from odradek.base import limits
from odradek.base.ids import TopicPartition
from odradek.log import cleaning
from odradek.log.checkpoints import CLEANED_OFFSETS, decode_offsets
from odradek.protocol.batch import iter_batches, iter_records
from odradek.server import cleaner, housekeeping
from support.data_broker import DataBroker, batch
from support.waiting import until

COMPACTED = {"cleanup_policy": "compact", "internal_segment_bytes": "1000", "file_delete_delay_ms": "0"}


async def fill(broker, client, topic, count, value="x" * 300):
    """Three keys, and whole segments on disk."""
    for n in range(count):
        await client.produce(topic, batch(f"{n} {value}", key=b"key %d" % (n % 3)))
    broker.partition(topic).log.syncing.whole()


def rows(broker, topic):
    log = broker.partition(topic).log
    offset, found = log.log_start_offset, []
    while (region := log.read(offset, 1 << 20, log.log_end_offset, True)) is not None:
        for header, data in iter_batches(region.read()):
            found += [(record.offset, record.key) for record in iter_records(data)]
            offset = header.next_offset
        region.release()
    return found


def test_a_log_is_compacted_in_the_background_and_its_old_files_are_removed(run):
    async def scenario():
        disk = MemoryDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", **COMPACTED)
            client = await broker.connect()
            await fill(broker, client, "t", 20)
            await broker.housekeeping.compact()
            assert [offset for offset, _ in rows(broker, "t")] == [15, 16, 17, 18, 19]
            assert decode_offsets(disk.read(CLEANED_OFFSETS)) == {TopicPartition("t", 0): 18}
            while any(name.endswith(".deleted") for name in disk.listdir("t-0")):  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert [name for name in disk.listdir("t-0") if name.endswith(".log")] == [
                "00000000000000000000.log",
                "00000000000000000016.log",
                "00000000000000000018.log",
            ]

    run(scenario())


def test_a_large_log_is_compacted_by_another_process(run, tmp_path, monkeypatch):
    threads = []
    monkeypatch.setattr(limits, "cleaning_in_thread_bytes_max", 5000)
    in_thread = cleaning.clean

    def noticed(disk, plan):
        threads.append(threading.current_thread().name)
        return (yield from in_thread(disk, plan))

    async def scenario():
        async with DataBroker(disk=OsDisk(str(tmp_path))) as broker:
            broker.create_topic("t", **COMPACTED)
            client = await broker.connect()
            await fill(broker, client, "t", 20)
            await broker.housekeeping.compact()
            assert [offset for offset, _ in rows(broker, "t")] == [15, 16, 17, 18, 19]
            await fill(broker, client, "t", 9)
            monkeypatch.setattr(cleaner, "clean", noticed)
            await broker.housekeeping.compact()
            assert [offset for offset, _ in rows(broker, "t")] == [25, 26, 27, 28]
            assert len(threads) == 1

    run(scenario())


def test_the_dirtiest_log_is_compacted_first(run, caplog):
    caplog.set_level(logging.INFO, "odradek.server.cleaner")

    async def scenario():
        async with DataBroker() as broker:
            client = await broker.connect()
            for topic in ("little", "much"):
                broker.create_topic(topic, **COMPACTED, min_cleanable_dirty_ratio="0.3")
                await fill(broker, client, topic, 12)
            await broker.housekeeping.compact()
            caplog.clear()
            await fill(broker, client, "little", 6)
            await fill(broker, client, "much", 12)
            await broker.housekeeping.compact()

    run(scenario())
    assert [message.split(":")[0] for message in caplog.messages] == ["much-0", "little-0"]


def test_topics_with_other_cleanup_policies_are_not_compacted(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", internal_segment_bytes="1000")
            client = await broker.connect()
            await fill(broker, client, "t", 10)
            await broker.housekeeping.compact()
            assert len(rows(broker, "t")) == 10

    run(scenario())


@pytest.mark.parametrize(
    ("position", "lag_ms"),
    [
        pytest.param(100, 0, id="a record, when it is compacted"),
        pytest.param(16, 0, id="a header, when it is compacted"),
        pytest.param(16, 1, id="a header, when it is asked how old it is"),
    ],
)
def test_a_log_that_cannot_be_read_is_left_as_it_is(run, caplog, position, lag_ms):
    async def scenario():
        disk = MemoryDisk()
        async with DataBroker(disk=disk) as broker:
            for topic in ("broken", "whole"):
                lag = {"min_compaction_lag_ms": str(lag_ms)} if topic == "broken" else {}
                broker.create_topic(topic, **COMPACTED, **lag)
                client = await broker.connect()
                await fill(broker, client, topic, 10)
            disk.open(f"broken-0/{0:020d}.log").pwrite(b"!", position)
            await broker.housekeeping.compact()
            await broker.housekeeping.compact()
            assert len(rows(broker, "whole")) < 10
            assert [name for name in disk.listdir("broken-0") if name.endswith(".cleaned")] == []
            assert broker.partition("broken").log.offline is None

    run(scenario())
    assert caplog.text.count("broken-0 is not compacted until a restart") == 1


def test_a_log_whose_compaction_fails_does_not_stop_compaction_of_others(run, monkeypatch, caplog):
    in_thread = cleaning.clean

    def failing(disk, plan):
        if plan.directory == "failing-0":
            raise ChildProcessError("killed")
        return in_thread(disk, plan)

    monkeypatch.setattr(cleaner, "clean", failing)

    async def scenario():
        async with DataBroker() as broker:
            for topic in ("failing", "other"):
                broker.create_topic(topic, **COMPACTED)
                client = await broker.connect()
                await fill(broker, client, topic, 10)
            await broker.housekeeping.compact()
            assert len(rows(broker, "other")) < 10
            monkeypatch.setattr(cleaner, "clean", in_thread)
            await broker.housekeeping.compact()
            assert len(rows(broker, "failing")) < 10

    run(scenario())
    assert caplog.text.count("failing-0 is not compacted this time: killed") == 1


def test_a_log_truncated_during_its_compaction_is_not_changed(run, monkeypatch):
    disk = MemoryDisk()

    async def scenario():
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", **COMPACTED)
            client = await broker.connect()
            await fill(broker, client, "t", 10)
            in_thread = cleaning.clean

            def meanwhile(disk, plan):
                cleaned = yield from in_thread(disk, plan)
                broker.partition("t").log.truncation.to(4)
                return cleaned

            monkeypatch.setattr(cleaner, "clean", meanwhile)
            await broker.housekeeping.compact()
            assert [offset for offset, _ in rows(broker, "t")] == [0, 1, 2, 3]
            assert [name for name in disk.listdir("t-0") if name.endswith((".cleaned", ".swap"))] == []

    run(scenario())


class FailingSwaps(MemoryDisk):
    """The given sync of a topic's names fails, counted from when it was `armed`; not at once, if `meanwhile` is set."""

    def __init__(self):
        super().__init__()
        self.armed = 0
        self.meanwhile = lambda: None

    def sync_dir(self, path):
        if path == "t-0" and self.armed:
            self.armed -= 1
            if not self.armed:
                self.meanwhile()
                raise OSError(errno.EIO, "the disk is failing")
        super().sync_dir(path)


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_log_whose_new_names_may_not_be_durable_is_offline_until_it_is_opened_again(run, failing):
    disk = FailingSwaps()

    async def scenario():
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", **COMPACTED)
            broker.create_topic("other", **COMPACTED)
            client = await broker.connect()
            await fill(broker, client, "t", 20)
            await fill(broker, client, "other", 10)
            disk.armed = failing
            await broker.housekeeping.compact()
            assert disk.armed == 0
            partition = broker.partition("t")
            assert "the disk is failing" in partition.log.offline
            assert len(rows(broker, "other")) < 10
            partition.log = broker.logs.reopen(partition.log, broker.clock.wall_ms())
            broker.logs.logs[partition.log.topic_partition] = partition.log
            assert [offset for offset, _ in rows(broker, "t")][-3:] == [17, 18, 19]
            assert [name for name in disk.listdir("t-0") if name.endswith((".cleaned", ".swap", ".deleted"))] == []
            await fill(broker, client, "t", 3)
            await broker.housekeeping.compact()
            assert [key for _, key in rows(broker, "t")].count(b"key 0") <= 2

    run(scenario())


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_truncation_meanwhile_does_not_hide_that_the_names_may_not_be_durable(run, failing):
    """It makes the remaining steps, while the sync of the last one has not ended."""
    disk = FailingSwaps()

    async def scenario():
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", **COMPACTED)
            client = await broker.connect()
            await fill(broker, client, "t", 20)
            log = broker.partition("t").log
            disk.meanwhile = lambda: log.truncation.to(19)
            disk.armed = failing
            await broker.housekeeping.compact()
            assert log.log_end_offset == 19
            assert "the disk is failing" in log.offline

    run(scenario())


def test_segments_deleted_by_retention_meanwhile_do_not_undo_the_rest_of_the_compaction(run, monkeypatch):
    """A throttled run may take so long that retention always deletes something meanwhile."""
    disk = MemoryDisk()

    async def scenario():
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t", **COMPACTED)
            client = await broker.connect()
            await fill(broker, client, "t", 20)
            log = broker.partition("t").log
            in_thread = cleaning.clean

            def meanwhile(disk, plan):
                cleaned = yield from in_thread(disk, plan)
                assert len(cleaned.replacements) > 1
                log.advance_log_start(plan.segments[1].base_offset)
                broker.logs.retire(log.retention.delete_expired(0, log.log_end_offset))
                return cleaned

            monkeypatch.setattr(cleaner, "clean", meanwhile)
            monkeypatch.setattr(cleaning._Rewriting, "has_room_for", lambda *_: False)
            await broker.housekeeping.compact()
            assert log.cleaned_until == 18
            assert [offset for offset, _ in rows(broker, "t")] == [15, 16, 17, 18, 19]
            assert [name for name in disk.listdir("t-0") if name.endswith((".cleaned", ".swap"))] == []

    run(scenario())


def test_compacting_a_topic_that_is_deleted_meanwhile_changes_nothing(run, monkeypatch):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", **COMPACTED)
            client = await broker.connect()
            await fill(broker, client, "t", 10)
            in_thread = cleaning.clean

            def meanwhile(disk, plan):
                cleaned = yield from in_thread(disk, plan)
                broker.loop.call_soon_threadsafe(broker.delete_topic, "t")
                return cleaned

            broker.loop = asyncio.get_running_loop()
            monkeypatch.setattr(cleaner, "clean", meanwhile)
            await broker.housekeeping.compact()
            assert broker.failures == []

    run(scenario())


def test_a_stop_does_not_wait_for_a_long_run(run, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "cleaning_in_thread_bytes_max", 0)
    monkeypatch.setattr(cleaner, "clean", for_ever)

    async def scenario():
        async with DataBroker(disk=OsDisk(str(tmp_path)), settings={"log.cleaner.backoff.ms": "0"}) as broker:
            broker.create_topic("t", **COMPACTED)
            client = await broker.connect()
            await fill(broker, client, "t", 10)
            await until(lambda: broker.housekeeping._cleaner.interruptible)

    run(scenario())


def test_a_stop_during_the_search_for_dirty_logs_starts_no_compaction(run, monkeypatch):
    monkeypatch.setattr(housekeeping, "PARTITIONS_PER_TURN", 1)
    runs = []

    async def scenario():
        async with DataBroker(settings={"log.cleaner.backoff.ms": "0"}) as broker:
            due = broker.housekeeping._cleaner._due
            stopped = []

            def stop_now(partition):
                if not stopped:
                    stopped.append(asyncio.ensure_future(broker.housekeeping.stop()))
                return due(partition)

            broker.create_topic("t", **COMPACTED)
            client = await broker.connect()
            await fill(broker, client, "t", 10)
            for n in range(3):
                broker.create_topic(f"other-{n}")
            monkeypatch.setattr(cleaner, "clean", lambda _disk, plan: runs.append(plan))
            monkeypatch.setattr(broker.housekeeping._cleaner, "_due", stop_now)
            await until(lambda: stopped, every_s=0.001)
            await stopped[0]

    run(scenario())
    assert runs == []


def for_ever(_disk, _plan):
    threading.Event().wait()
