"""The partitions of a broker follow the image: created, configured, deleted, loaded after a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.controller.fencing import fence_broker
from odradek.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from odradek.protocol.metadata_records import ConfigRecord, PartitionChangeRecord
from odradek.replication.partition import Partition
from support.data_broker import BROKER_ID, DataBroker, batch
from support.loops import run_within_limit as run


def directories(disk) -> list[str]:
    return [name for name in disk.listdir("") if name[-1].isdigit() or name.endswith(("-delete", "-stray"))]


async def gone(disk, suffix: str) -> None:
    while any(name.endswith(suffix) for name in disk.listdir("")):  # noqa: ASYNC110
        await asyncio.sleep(0)


def test_partitions_are_created_and_deleted_with_their_topic():
    async def scenario():
        disk = MemoryDisk()
        async with DataBroker(disk=disk) as broker:
            topic = broker.create_topic("t", 2, file_delete_delay_ms="0")
            partition = broker.partition("t", 1)
            assert broker.partitions.topics_by_id[topic.topic_id].partitions[1] is partition
            assert partition.is_leader
            assert directories(disk) == ["t-0", "t-1"]
            assert [str(each) for each in broker.partitions.all()] == ["t-0", "t-1"]
            broker.delete_topic("t")
            assert broker.partitions.get("t", 1) is None
            assert topic.topic_id not in broker.partitions.topics_by_id
            assert all(name.endswith("-delete") for name in directories(disk))
            assert not partition.is_leader
            await gone(disk, "-delete")

    run(scenario())


def test_deleted_directory_is_kept_for_file_delete_delay_ms():
    async def scenario():
        disk = MemoryDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("t")
            broker.delete_topic("t")
            # The removal of the old topic does not affect the new topic with its name.
            broker.create_topic("t")
            assert [name.endswith("-delete") for name in directories(disk)].count(True) == 1
        assert "t-0" in directories(disk)

    run(scenario())


def test_topic_config_change_applies_to_its_logs_at_once():
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2, segment_bytes="2000000")
            broker.create_topic("u")
            logs = [broker.partition("t", index).log for index in (0, 1)]
            assert [log.config.segment_bytes for log in logs] == [2_000_000] * 2
            broker.configure_topic("t", "segment.bytes", "3000000")
            broker.configure_topic("t", "min.insync.replicas", "2")
            assert [log.config.segment_bytes for log in logs] == [3_000_000] * 2
            assert broker.partition("t").min_isr == 1  # at most the number of replicas
            broker.change_partition("t", 0, replicas=[1, 2])
            assert broker.partition("t").min_isr == 2
            broker.configure_topic("t", "segment.bytes", None)
            assert logs[0].config.segment_bytes == 1 << 30
            assert broker.partition("u").min_isr == 1

    run(scenario())


def test_broker_config_change_applies_to_topics_without_own_config():
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            broker.create_topic("u", segment_bytes="2000000")
            broker.commit(
                ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="log.segment.bytes", value="5000000")
            )
            assert broker.partition("t").log.config.segment_bytes == 5_000_000
            assert broker.partition("u").log.config.segment_bytes == 2_000_000

    run(scenario())


def test_restart_loads_the_logs_and_puts_unknown_ones_aside():
    async def scenario():
        disk = MemoryDisk()
        async with DataBroker(disk=disk) as broker:
            broker.create_topic("kept")
            broker.create_topic("dropped")
            client = await broker.connect()
            await client.produce("kept", batch("a", "b"))
            image = broker.broker.image
        async with DataBroker(disk=disk) as restarted:
            assert set(restarted.logs.logs) == {TopicPartition("kept", 0), TopicPartition("dropped", 0)}
            image = replace(
                image,
                topics=image.topics.changed({"dropped": None}),
                topics_by_id=image.topics_by_id.changed({image.topics["dropped"].topic_id: None}),
            )
            restarted.broker.image = image
            restarted.partitions.start(image)
            assert restarted.partition("kept").high_watermark == 2
            assert restarted.partitions.get("dropped", 0) is None
            assert [name for name in directories(disk) if name.endswith("-stray")]

    run(scenario())


def test_min_isr_change_applies_before_an_election_in_the_same_image():
    """Otherwise the new leader would commit alone, while the controller keeps other replicas eligible."""

    async def scenario():
        async with DataBroker() as broker:
            topic = broker.create_topic("t")
            others = [BROKER_ID + 1, BROKER_ID + 2]
            everyone = [BROKER_ID, *others]
            broker.change_partition("t", 0, replicas=everyone, isr=everyone, leader=others[0])
            partition = broker.partition("t")
            partition.append_fetched(memoryview(batch("a", "b")), 0)
            assert (partition.high_watermark, partition.log.log_end_offset) == (0, 2)
            broker.commit(
                ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="min.insync.replicas", value="2"),
                PartitionChangeRecord(topic_id=topic.topic_id, partition_id=0, isr=[BROKER_ID], leader=BROKER_ID),
            )
            assert partition.is_leader
            assert partition.high_watermark == 0
            broker.configure_topic("t", "min.insync.replicas", "1")
            assert partition.high_watermark == 2

    run(scenario())


class FullDisk(MemoryDisk):
    full = True

    def make_dir(self, path):
        if self.full:
            raise OSError("no space left")
        super().make_dir(path)


def test_log_creation_is_retried_with_the_next_change_of_its_topic():
    async def scenario():
        disk = FullDisk()
        async with DataBroker(disk=disk) as broker:
            topic = broker.create_topic("t")
            changed = PartitionChangeRecord(topic_id=topic.topic_id, partition_id=0, isr=[BROKER_ID])
            assert list(broker.partitions.unopened) == [(topic.topic_id, 0)]
            broker.commit(changed)
            assert list(broker.partitions.unopened) == [(topic.topic_id, 0)]
            disk.full = False
            broker.commit(changed)
            assert not broker.partitions.unopened
            assert broker.partition("t").log.offline is None

    run(scenario())


def led_with_another(broker, other):
    """A partition with this broker alone in the ISR. The other broker has a replica and is alive."""
    broker.create_topic("t")
    broker.register(other)
    broker.change_partition("t", 0, replicas=[BROKER_ID, other], isr=[BROKER_ID], leader=BROKER_ID)
    return broker.partition("t")


def fence(broker, broker_id):
    image = broker.broker.image
    broker.commit(
        *fence_broker(image, broker_id, image.brokers[broker_id].broker_epoch, "as if it were silent").records
    )


def test_high_watermark_stops_waiting_for_a_fenced_follower_outside_the_isr():
    """No partition image changes, because the broker was in no ISR."""

    async def scenario():
        async with DataBroker() as broker:
            other = BROKER_ID + 1
            partition = led_with_another(broker, other)
            epoch, now_ms = broker.broker.image.brokers[other].broker_epoch, broker.clock.monotonic_ms()
            partition.fetched_by(other, epoch, 0, log_start_offset=0, now_ms=now_ms)
            partition.isr_refused(partition.leading.proposal, ErrorCode.INELIGIBLE_REPLICA, now_ms)
            partition.append(memoryview(batch("a")), 1, broker.clock.wall_ms())
            assert partition.high_watermark == 0
            fence(broker, other)
            assert partition.high_watermark == 1

    run(scenario())


def test_high_watermark_stops_waiting_for_a_follower_that_is_fenced_together_with_another_broker():
    async def scenario():
        async with DataBroker() as broker:
            other, third = BROKER_ID + 1, BROKER_ID + 2
            partition = led_with_another(broker, other)
            broker.register(third)
            epoch, now_ms = broker.broker.image.brokers[other].broker_epoch, broker.clock.monotonic_ms()
            partition.fetched_by(other, epoch, 0, log_start_offset=0, now_ms=now_ms)
            partition.isr_refused(partition.leading.proposal, ErrorCode.INELIGIBLE_REPLICA, now_ms)
            partition.append(memoryview(batch("a")), 1, broker.clock.wall_ms())
            image = broker.broker.image
            broker.commit(
                *(
                    record
                    for one in (third, other)
                    for record in fence_broker(image, one, image.brokers[one].broker_epoch, "silent").records
                )
            )
            assert partition.high_watermark == 1

    run(scenario())


def test_delete_records_stops_waiting_for_a_fenced_follower_outside_the_isr():
    async def scenario():
        async with DataBroker() as broker:
            partition = led_with_another(broker, BROKER_ID + 1)
            partition.append(memoryview(batch("a")), 1, broker.clock.wall_ms())
            partition.log.advance_log_start(1)
            told = []
            partition.when_trimmed(1, told.append)
            assert told == []
            fence(broker, BROKER_ID + 1)
            assert told == [ErrorCode.NONE]

    run(scenario())


def test_broker_change_is_applied_only_to_partitions_with_a_replica_on_it(monkeypatch):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("alone")
            led_with_another(broker, BROKER_ID + 1)
            broker.register(BROKER_ID + 2)
            looked_at = []
            monkeypatch.setattr(Partition, "brokers_changed", lambda partition, _: looked_at.append(str(partition)))
            fence(broker, BROKER_ID + 2)
            broker.configure_topic("t", "segment.bytes", "2000000")
            assert looked_at == []
            fence(broker, BROKER_ID + 1)
            assert looked_at == ["t-0"]

    run(scenario())
