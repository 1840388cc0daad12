"""Broker configs that change while it runs, on virtual time: the clock shows when each took effect."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from odradek.base.errors import ErrorCode
from odradek.log import compacting
from odradek.protocol.batch import encode_batch
from odradek.protocol.messages.p44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.records import Record
from odradek.server.group_commit import GroupCommit
from odradek.server.housekeeping import Housekeeping
from support.group_broker import GroupBroker

BROKER = 4
SET, DELETE = 0, 1
BACKOFF, RATE = "log.cleaner.backoff.ms", "log.cleaner.io.max.bytes.per.second"
VALUE = b"x" * 300
# Twenty batches fill seven segments. All but the last, which grows, are read for their keys, read once more, and the
# three batches that stay are written.
MOVED_BYTES = (18 + 18 + 3) * len(encode_batch([Record(key=b"k0", value=VALUE, timestamp=0)]))


class Compacting(GroupBroker):
    """A broker with all its background chores."""

    def __init__(self, **settings: str) -> None:
        super().__init__(settings={key.replace("_", "."): value for key, value in settings.items()})
        spawner = self.broker.spawner
        self.housekeeping = Housekeeping(
            config=self.broker.config,
            clock=self.clock,
            spawner=spawner,
            logs=self.logs,
            commits=GroupCommit(spawner, self.clock),
        )
        self.broker.on_configured = self.housekeeping.configure

    async def fill(self) -> None:
        self.create_topic("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "1200"})
        partition = self.partitions.get("t", 0)
        for n in range(20):
            record = Record(key=b"k%d" % (n % 3), value=VALUE, timestamp=self.clock.wall_ms())
            partition.append(memoryview(encode_batch([record])), 1, self.clock.wall_ms())
        partition.log.syncing.whole()

    async def change(self, key: str, value: str | None, broker: str = "1") -> int:
        config = AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[config])
        answer = await self.send(44, IncrementalAlterConfigsRequest(resources=[resource]), 1)
        return answer.responses[0].error_code

    @property
    def is_compacted(self) -> bool:
        return bool(self.partitions.get("t", 0).log.cleaned_until)

    async def compacted_after_ms(self) -> int:
        began_ms = self.clock.monotonic_ms()
        while not self.is_compacted:
            assert self.clock.monotonic_ms() < began_ms + 600_000
            await asyncio.sleep(0.01)
        return self.clock.monotonic_ms() - began_ms


def told(story, **settings):
    async def with_broker(broker):
        await broker.fill()
        broker.housekeeping.start(broker.partitions)
        try:
            return await story(broker)
        finally:
            await broker.housekeeping.stop()

    broker = Compacting(**settings)
    return broker.run(with_broker(broker))


@pytest.mark.parametrize("broker_name", ["1", ""])
def test_the_pause_of_the_cleaner_becomes_shorter_while_it_lasts(broker_name):
    async def story(broker):
        await asyncio.sleep(5)
        assert not broker.is_compacted
        await broker.change(BACKOFF, "7000", broker_name)
        return await broker.compacted_after_ms()

    assert 2000 <= told(story, log_cleaner_backoff_ms="3600000") < 2100


def test_without_a_rate_limit_compaction_does_not_pause():
    assert told(Compacting.compacted_after_ms, log_cleaner_backoff_ms="0") < 100


@pytest.mark.parametrize("step_bytes", [1, 2000, 1 << 20])
def test_compaction_reads_and_writes_no_faster_than_its_rate_limit(step_bytes, monkeypatch):
    """However much it does between two pauses."""
    planned = compacting.Compacting.plan

    def in_small_steps(*args):
        return replace(planned(*args), step_bytes=step_bytes)

    monkeypatch.setattr(compacting.Compacting, "plan", in_small_steps)
    took_ms = told(Compacting.compacted_after_ms, log_cleaner_backoff_ms="0", log_cleaner_io_max_bytes_per_second="100")
    # In each step the last, partial millisecond is not waited for.
    assert MOVED_BYTES * 10 - 40 <= took_ms < MOVED_BYTES * 10 + 100


@pytest.mark.parametrize("broker_name", ["1", ""])
def test_a_changed_rate_limit_applies_at_once_and_reverts_when_the_key_is_deleted(broker_name):
    async def story(broker):
        await broker.change(RATE, "1", broker_name)
        await asyncio.sleep(1000)
        assert not broker.is_compacted
        await broker.change(RATE, None, broker_name)
        return await broker.compacted_after_ms()

    assert told(story, log_cleaner_backoff_ms="1000") < 100


@pytest.mark.parametrize(
    "settings", [{BACKOFF: "0", RATE: "1"}, {BACKOFF: "3600000"}], ids=["between steps", "between runs"]
)
def test_a_stop_does_not_wait_for_a_pause_of_compaction(settings):
    broker = Compacting(**settings)

    async def stopped():
        await broker.fill()
        broker.housekeeping.start(broker.partitions)
        await asyncio.sleep(1)
        await broker.housekeeping.stop()
        return broker.clock.monotonic_ms()

    assert broker.run(stopped()) < 1100
    assert not broker.is_compacted


def test_a_changed_dedupe_buffer_applies_to_the_next_run(monkeypatch):
    budgets = []
    planned = compacting.Compacting.plan

    def noted(log, dirt, high_watermark, wall_ms, key_bytes_max):
        budgets.append(key_bytes_max)
        return planned(log, dirt, high_watermark, wall_ms, key_bytes_max)

    monkeypatch.setattr(compacting.Compacting, "plan", noted)

    async def story(broker):
        await broker.change("log.cleaner.dedupe.buffer.size", "3000000")
        await broker.compacted_after_ms()

    told(story, log_cleaner_backoff_ms="10")
    assert budgets == [3_000_000]


@pytest.mark.parametrize("broker_name", ["1", ""])
def test_producers_expire_by_the_current_setting(broker_name):
    async def story(broker):
        log = broker.partitions.get("t", 0).log
        log.appending.as_leader(memoryview(idempotent_batch(broker)), 0, broker.clock.wall_ms())
        await broker.housekeeping.forget_producers()
        assert len(log.known_producers(broker.clock.wall_ms()).by_id) == 1
        await broker.change("producer.id.expiration.ms", "1000", broker_name)
        await asyncio.sleep(2)
        await broker.housekeeping.forget_producers()
        return len(log.known_producers(broker.clock.wall_ms()).by_id)

    assert told(story) == 0


def idempotent_batch(broker) -> bytearray:
    record = Record(key=b"k", value=b"v", timestamp=broker.clock.wall_ms())
    return encode_batch([record], producer_id=5, producer_epoch=0, base_sequence=0)


@pytest.mark.parametrize(
    ("key", "value"), [("num.partitions", "2"), (BACKOFF, "-1"), (RATE, "0"), ("num.io.threads", "9")]
)
def test_a_refused_change_changes_nothing(key, value):
    broker = Compacting()
    before = broker.broker.config
    assert broker.run(broker.change(key, value)) == ErrorCode.INVALID_REQUEST
    assert broker.broker.config is before
