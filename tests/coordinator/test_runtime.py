"""The runtime on virtual time: leadership, timers, replies, and requests to other brokers."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.effects import Ask, Effects
from odradek.coordinator.runtime import InternalTopic, Runtime
from odradek.protocol.messages.p12_heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.sim.loop import SimLoop
from support.group_broker import LoopClock, LoopSpawner
from support.memory_partition import MemoryPartition

TOPIC = InternalTopic(
    name="__state", partition_count=1, key_chars_max=10, key_too_long=ErrorCode.INVALID_REQUEST, commit_timeout_ms=5000
)


class Counter:
    """Counts. The only change is the new value, as text."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.value = 0
        self.heard: list[object] = []
        self.unloaded = False

    def encode(self, change):
        return b"count", str(change).encode()

    def decode(self, _key, value):
        return int(value)

    def replay(self, change, _at, _producer_id):
        self.value = change

    def replay_marker(self, producer_id, committed, at): ...

    def commit(self, high_watermark): ...

    def loaded(self, now, _image):
        return Effects(now)

    def unload(self, now):
        self.unloaded = True
        return Effects(now)

    def metadata_changed(self, now, _image, _delta):
        return Effects(now)

    def timer_fired(self, key, now):
        self.heard.append(key)
        return Effects(now)

    def increment(self, to, now):
        effects = Effects(now)
        after = self.value + 1

        def stored(error, now):
            then = Effects(now)
            then.reply(to, KafkaError(error) if error else after)
            return then

        effects.write([after], stored)
        return effects

    def beat(self, to, now):
        """Asks broker 2, and answers with its answer."""
        effects = Effects(now)

        def answered(answer, now):
            then = Effects(now)
            then.reply(to, answer)
            self.heard.append(answer)
            return then

        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        effects.ask(Ask(broker_id=2, request=request, version=4, timeout_ms=1000, then=answered))
        return effects


class World:
    def __init__(self) -> None:
        self.loop = SimLoop(Random(1))
        self.partition: MemoryPartition | None = MemoryPartition()
        self.answer: asyncio.Future | None = None
        self.asked: list[tuple] = []
        self.runtime = Runtime(
            topic=TOPIC,
            new_shard=Counter,
            lead=lambda _topic, _index: self.partition,
            ask_broker=self._ask,
            clock=LoopClock(self.loop),
            spawner=LoopSpawner(self.loop),
        )

    async def _ask(self, broker_id, request, version, timeout_ms):
        self.asked.append((broker_id, type(request).__name__, version, timeout_ms))
        return await self.answer

    def run(self, story):
        return self.loop.run_until_complete(story)

    def lead(self, epoch: int) -> None:
        """Another leader epoch of the same log."""
        before = self.partition
        self.partition = before.led_in(epoch)
        self.runtime.look_again()


@pytest.fixture
def world():
    return World()


def increment(shard, to, now):
    return shard.increment(to, now)


def test_a_new_leader_epoch_loads_the_log_and_counts_on(world):
    async def story():
        world.runtime.look_again()
        assert await world.runtime.answered("k", increment) == 1
        first = world.runtime.shard("k")
        world.lead(epoch=4)
        with pytest.raises(KafkaError) as refusal:
            world.runtime.shard("k")
        assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(0.1)
        assert await world.runtime.answered("k", increment) == 2
        second = world.runtime.shard("k")
        assert (first.unloaded, first.epoch, second.epoch) == (True, 0, 4)

    world.run(story())


def test_a_key_that_is_too_long_is_refused(world):
    async def story():
        world.runtime.look_again()
        with pytest.raises(KafkaError) as refusal:
            world.runtime.shard("k" * 11)
        assert refusal.value.code is ErrorCode.INVALID_REQUEST

    world.run(story())


def test_the_answer_of_a_broker_comes_back_as_a_turn(world):
    async def story():
        world.runtime.look_again()
        world.answer = world.loop.create_future()
        waiting = world.loop.create_task(world.runtime.answered("k", lambda shard, to, now: shard.beat(to, now)))
        await asyncio.sleep(0.1)
        assert world.asked == [(2, "HeartbeatRequest", 4, 1000)]
        assert not waiting.done()
        world.answer.set_result(HeartbeatResponse())
        assert await waiting == HeartbeatResponse()

    world.run(story())


def test_no_answer_is_none(world):
    async def story():
        world.runtime.look_again()
        world.answer = world.loop.create_future()
        world.answer.set_result(None)
        assert await world.runtime.answered("k", lambda shard, to, now: shard.beat(to, now)) is None

    world.run(story())


def test_an_answer_that_comes_after_the_leadership_has_moved_is_dropped(world):
    async def story():
        world.runtime.look_again()
        shard = world.runtime.shard("k")
        world.answer = world.loop.create_future()
        world.loop.create_task(world.runtime.answered("k", lambda shard, to, now: shard.beat(to, now)))
        await asyncio.sleep(0.1)
        world.lead(epoch=1)
        world.answer.set_result(HeartbeatResponse())
        await asyncio.sleep(0.1)
        assert (shard.unloaded, shard.heard) == (True, [])

    world.run(story())


def test_an_append_of_an_old_leader_epoch_is_refused_and_answered(world):
    async def story():
        world.runtime.look_again()
        world.partition.replicates_at_once = False
        waiting = world.loop.create_task(world.runtime.answered("k", increment))
        await asyncio.sleep(0)
        world.lead(epoch=1)
        with pytest.raises(KafkaError) as refusal:
            await waiting
        assert refusal.value.code is ErrorCode.NOT_COORDINATOR

    world.run(story())
