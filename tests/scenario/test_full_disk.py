"""A disk fills up, and has room again: other replicas take over, nothing is lost, and no node needs a restart."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.base.ports import Ports
from odradek.node.config import NodeConfig
from odradek.node.local_cluster import LocalNode, local_nodes
from odradek.node.process import serve
from odradek.node.properties import parse_properties
from odradek.testing.embedded import QUICK, QUICK_TOGETHER
from support.waiting import wait_until

WITHIN_S = 60.0
# What the coordinator stores in turn for one transaction: its partition joined, its outcome, and that it is complete.
STORED = 3


class FullFile:
    """A file that cannot grow while its disk is full."""

    def __init__(self, inner, disk: FullDisk) -> None:
        self._inner = inner
        self._disk = disk

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def pwrite(self, data, position: int) -> int:
        self._disk.refuse_if_full(self._inner.path)
        return self._inner.pwrite(data, position)


class FullDisk:
    """A node's disk. Metadata can still be written when it is full: without that a node would just stop."""

    def __init__(self, inner) -> None:
        self._inner = inner
        self.full = False
        # Only names with this in them find no more room, after so many writes.
        self.only = ""
        self.writes_left = 0
        self.refused = 0

    def fill_after(self, writes: int, only: str) -> None:
        self.full, self.only, self.writes_left, self.refused = True, only, writes, 0

    shared = False

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def open(self, path: str, *, create: bool = False):
        return FullFile(self._inner.open(path, create=create), self)

    def replace(self, path: str, data: bytes) -> None:
        self.refuse_if_full(path)
        self._inner.replace(path, data)

    def make_dir(self, path: str) -> None:
        self.refuse_if_full(path)
        self._inner.make_dir(path)

    def refuse_if_full(self, path: str) -> None:
        if not self.full or self.only not in path or "__cluster_metadata" in path:
            return
        if self.writes_left:
            self.writes_left -= 1
        else:
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


class Story:
    def __init__(self, nodes: list[LocalNode], disks: dict[int, FullDisk]) -> None:
        self.bootstrap = ",".join(str(node.clients) for node in nodes)
        self.disks = disks
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self.producer = Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0, "retry.backoff.ms": 20}
        )
        self.sent = 0

    def create(self, topic: str, replicas: int, **config: str) -> None:
        created = self._admin.create_topics([NewTopic(topic, 1, replicas, config=config)])[topic]
        created.result(WITHIN_S)

    def partition(self, topic: str = "t"):
        return self._admin.list_topics(topic, timeout=WITHIN_S).topics[topic].partitions[0]

    def produce(self, count: int, topic: str = "t") -> None:
        """Produces until all records are acknowledged, with retries."""
        failures: list[object] = []
        for _ in range(count):
            self.producer.produce(topic, str(self.sent), on_delivery=lambda error, _: error and failures.append(error))
            self.sent += 1
        assert self.producer.flush(WITHIN_S) == 0
        assert not failures

    def transactor(self) -> Producer:
        settings = {"transactional.id": "payer", "retry.backoff.ms": 20, "log_level": 0}
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})
        producer.init_transactions(WITHIN_S)
        return producer

    def transact(self, producer: Producer) -> None:
        """Three records in one transaction, with retries."""
        producer.begin_transaction()
        for _ in range(3):
            producer.produce("t", str(self.sent))
            self.sent += 1
        producer.commit_transaction(WITHIN_S)

    def coordinator(self) -> int:
        return self.partition("__transaction_state").leader

    def read(self, topic: str = "t") -> list[int]:
        """Read committed, which is librdkafka's default."""
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "g", "log_level": 0})
        try:
            end = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=WITHIN_S)[1]
            reader.assign([TopicPartition(topic, 0, 0)])
            found: list[int] = []
            while reader.position([TopicPartition(topic, 0)])[0].offset < end:
                found += [int(message.value()) for message in reader.consume(1000, 0.2) if message.error() is None]
            return found
        finally:
            reader.close()

    async def until(self, holds) -> None:
        await asyncio.to_thread(wait_until, holds)


@contextmanager
def fillable(disks: dict[int, FullDisk], node_id: int) -> Iterator:
    def around(ports: Ports) -> Ports:
        disks[node_id] = FullDisk(ports.disk)
        return replace(ports, disk=disks[node_id])

    yield around


def play(directory: Path, count: int, scenario) -> None:
    async def run() -> None:
        settings = {**QUICK, **QUICK_TOGETHER, "default.replication.factor": str(min(count, 3))}
        nodes = local_nodes(count, directory, "127.0.0.1", 0, settings)
        disks: dict[int, FullDisk] = {}
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            ready = []
            for node in nodes:
                config = NodeConfig.parse(parse_properties(node.properties.read_text()))
                started = asyncio.Event()
                ready.append(started)
                with fillable(disks, node.node_id) as around:
                    tasks.create_task(serve(config, node.data, lambda _, it=started: it.set(), stopping, around=around))
            for started in ready:
                await started.wait()
            try:
                await scenario(Story(nodes, disks))
            finally:
                for disk in disks.values():
                    disk.full = False
                stopping.set()

    asyncio.run(run())


def test_a_leader_whose_disk_is_full_loses_leadership_and_rejoins_when_there_is_room(tmp_path: Path) -> None:
    async def scenario(story: Story) -> None:
        await asyncio.to_thread(story.create, "t", 3, **{"min.insync.replicas": "2"})
        await asyncio.to_thread(story.produce, 10)
        leader = (await asyncio.to_thread(story.partition)).leader
        story.disks[leader].full = True
        # No node stopped and no session ended: another replica leads because the broker reported the failed log.
        await asyncio.to_thread(story.produce, 10)
        await story.until(lambda: story.partition().leader != leader)
        await story.until(lambda: leader not in story.partition().isrs)
        story.disks[leader].full = False
        await story.until(lambda: leader in story.partition().isrs)
        await asyncio.to_thread(story.produce, 10)
        assert await asyncio.to_thread(story.read) == list(range(30))

    play(tmp_path, 3, scenario)


def test_the_only_replica_serves_reads_while_its_disk_is_full(tmp_path: Path) -> None:
    async def scenario(story: Story) -> None:
        await asyncio.to_thread(story.create, "t", 1)
        await asyncio.to_thread(story.produce, 10)
        story.disks[1].full = True
        story.producer.produce("t", str(story.sent))
        story.sent += 1
        assert await asyncio.to_thread(story.read) == list(range(10))
        story.disks[1].full = False
        await asyncio.to_thread(story.produce, 10)
        assert await asyncio.to_thread(story.read) == list(range(21))

    play(tmp_path, 1, scenario)


def test_a_partition_whose_log_found_no_room_is_created_later(tmp_path: Path) -> None:
    async def scenario(story: Story) -> None:
        await asyncio.to_thread(story.create, "t", 1)
        story.disks[1].full = True
        await asyncio.to_thread(story.create, "late", 1)
        reader = Consumer({"bootstrap.servers": story.bootstrap, "group.id": "g", "log_level": 0})
        with pytest.raises(KafkaException):
            await asyncio.to_thread(reader.get_watermark_offsets, TopicPartition("late", 0), timeout=1)
        reader.close()
        story.disks[1].full = False
        await asyncio.to_thread(story.produce, 5, "late")
        assert await asyncio.to_thread(story.read, "late") == list(range(5))

    play(tmp_path, 1, scenario)


def test_transactions_go_on_with_another_coordinator_when_the_disk_of_the_first_is_full(tmp_path: Path) -> None:
    async def scenario(story: Story) -> None:
        await asyncio.to_thread(story.create, "t", 3, **{"min.insync.replicas": "2"})
        producer = await asyncio.to_thread(story.transactor)
        for stored in range(STORED):
            coordinator = await asyncio.to_thread(story.coordinator)
            disk = story.disks[coordinator]
            disk.fill_after(stored, "__transaction_state")
            await asyncio.to_thread(story.transact, producer)
            await story.until(lambda disk=disk: disk.refused)
            await story.until(lambda coordinator=coordinator: story.coordinator() != coordinator)
            assert await asyncio.to_thread(story.read) == list(range(story.sent))
            disk.full = False
            await story.until(lambda: len(story.partition("__transaction_state").isrs) == 3)
        await asyncio.to_thread(story.transact, producer)  # only after the one before is complete

    play(tmp_path, 3, scenario)


def test_transactions_of_the_only_coordinator_wait_for_room_on_its_disk(tmp_path: Path) -> None:
    async def scenario(story: Story) -> None:
        await asyncio.to_thread(story.create, "t", 1)
        producer = await asyncio.to_thread(story.transactor)
        for stored in range(STORED):
            story.disks[1].fill_after(stored, "__transaction_state")
            transaction = asyncio.create_task(asyncio.to_thread(story.transact, producer))
            await story.until(lambda: story.disks[1].refused)
            story.disks[1].full = False
            await transaction
            assert await asyncio.to_thread(story.read) == list(range(story.sent))
        await asyncio.to_thread(story.transact, producer)  # only after the one before is complete

    play(tmp_path, 1, scenario)
