"""Hosts a state machine on each partition of an internal topic that this broker leads.

Follows leadership, loads logs, and carries out what turns ask for: appends, timers from one heap, replies to parked
requests, requests to other brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Generic, TypeVar

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import Offset
from odradek.base.ports import Clock, Spawner
from odradek.coordinator.answer import Answer
from odradek.coordinator.effects import Append, Ask, Effects, Now, TimerKey
from odradek.coordinator.engine import Engine, Phase
from odradek.coordinator.placing import partition_of
from odradek.coordinator.ports import AskBroker, Leadership
from odradek.coordinator.shard import Shard
from odradek.coordinator.timers import Timers
from odradek.metadata.image import ClusterImage, ImageDelta
from odradek.monitor.instruments import Recent
from odradek.protocol.malformed import MalformedRecords

LOAD_BYTES = 256 * limits.KIB
# Timers handled before other tasks get the event loop.
TIMERS_PER_TURN = 50
_COMMIT_TIMEOUT: TimerKey = ("commit timeout",)

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard)
Turn = Callable[[S, Answer, Now], Effects]


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    name: str
    # What it will be created with. Once it exists, the topic itself counts.
    partition_count: int
    key_chars_max: int
    # The error for a longer key.
    key_too_long: ErrorCode
    commit_timeout_ms: int


class Hosted(Generic[S]):
    """The engine of one partition, for as long as this broker leads it in one epoch."""

    __slots__ = ("began_ms", "engine", "finishing", "leadership")

    def __init__(self, leadership: Leadership, engine: Engine[S], began_ms: int) -> None:
        self.began_ms = began_ms
        self.leadership = leadership
        self.engine = engine
        # Set once the log has been read: waits until all of it is committed. Ends with the leadership.
        self.finishing: asyncio.Task[None] | None = None


class Runtime(Generic[S]):
    def __init__(
        self,
        *,
        topic: InternalTopic,
        new_shard: Callable[[int], S],
        lead: Callable[[str, int], Leadership | None],
        ask_broker: AskBroker,
        clock: Clock,
        spawner: Spawner,
    ) -> None:
        """`new_shard` gets the leader epoch. `lead`: the leadership of a partition that this broker leads now."""
        self.topic = topic
        self._new_shard = new_shard
        self._lead = lead
        self._ask_broker = ask_broker
        self._clock = clock
        self._spawner = spawner
        self._partition_count = topic.partition_count
        self._image = ClusterImage(cluster_id="")
        self._hosted: dict[int, Hosted[S]] = {}
        # The first of them is being read.
        self._to_load: deque[Hosted[S]] = deque()
        self.load_ms = Recent()
        self._timers: Timers[tuple[Hosted[S], TimerKey]] = Timers()
        self._wakeup: asyncio.TimerHandle | None = None
        self._wakeup_at_ms = 0
        self._stopped = False

    # For handlers

    def partition_for(self, key: str) -> int:
        return partition_of(key, self._partition_count)

    def ask(self, key: str, turn: Turn[S]) -> Any:  # noqa: ANN401
        """One turn for this key: what it answers, or an awaitable of it. KafkaError when we do not coordinate it."""
        return self._take_turn(self._active(key), turn)

    async def answered(self, key: str, turn: Turn[S]) -> Any:  # noqa: ANN401
        """As `ask`, for a caller that can await the answer."""
        answer = self.ask(key, turn)
        return await answer if isawaitable(answer) else answer

    async def answered_at(self, index: int, turn: Turn[S]) -> Any:  # noqa: ANN401
        """As `answered`, for a request that names the partition of the internal topic."""
        answer = self._take_turn(self._active_at(index), turn)
        return await answer if isawaitable(answer) else answer

    def shard(self, key: str) -> S:
        """For reading. KafkaError when we do not coordinate this key."""
        return self._active(key).engine.shard

    async def stable_shard(self, key: str) -> S:
        """For reading, once nothing that was written before is pending."""
        hosted = self._active(key)
        answer = Answer()
        hosted.engine.when_all_committed(
            self._now(), lambda error: answer.give(KafkaError(error) if error else hosted.engine.shard)
        )
        if not answer.is_given:
            self._watch_commit_timeout(hosted)
        shard: S = await answer.wait()
        return shard

    def shards(self) -> Iterator[S]:
        """All that this broker coordinates. KafkaError while one of them is still being read."""
        for hosted in self._hosted.values():
            if hosted.engine.is_closed():
                continue
            if hosted.finishing is None:
                hosted.engine.check_active()
            yield hosted.engine.shard

    def hosted(self) -> Iterator[tuple[Phase, S]]:
        """All shards of this broker, whatever their state."""
        for hosted in list(self._hosted.values()):
            yield hosted.engine.phase, hosted.engine.shard

    def _take_turn(self, hosted: Hosted[S], turn: Turn[S]) -> Any:  # noqa: ANN401
        answer = Answer()
        self._perform(hosted, turn(hosted.engine.shard, answer, self._now()))
        return answer.take() if answer.is_given else answer.wait()

    def _active(self, key: str) -> Hosted[S]:
        if len(key) > self.topic.key_chars_max:
            raise KafkaError(self.topic.key_too_long)
        return self._active_at(self.partition_for(key))

    def _active_at(self, index: int) -> Hosted[S]:
        hosted = self._hosted.get(index)
        if hosted is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        hosted.engine.check_active()
        return hosted

    # Leadership

    def apply(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Called after the partitions have taken the same commit."""
        if self._stopped:
            return
        self._image = image
        name = self.topic.name
        if any(topic.name == name for topic in delta.deleted):
            self._lead_nothing()
        topic = image.topics.get(name)
        touched = [topic.name for topic in delta.created] + [change.after.name for change in delta.changed]
        if topic is not None and name in touched:
            self._partition_count = len(topic.partitions)
            self.look_again()
        for hosted in list(self._hosted.values()):
            if hosted.engine.phase is Phase.ACTIVE:
                self._perform(hosted, hosted.engine.shard.metadata_changed(self._now(), image, delta))

    def look_again(self) -> None:
        """A partition may become leader after the commit that says so: once its log has been created."""
        if self._stopped:
            return
        for index in range(self._partition_count):
            self._follow_leadership(index)

    def stop(self) -> None:
        """Answers waiting requests with NOT_COORDINATOR. From now on it leads nothing, whatever commits follow."""
        self._stopped = True
        self._lead_nothing()
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None

    def _follow_leadership(self, index: int) -> None:
        hosted = self._hosted.get(index)
        if hosted is not None and not hosted.leadership.is_current:
            self._unload(index)
            log.info("the leadership of %s moved: its new leader loads it", hosted.leadership)
        if index not in self._hosted:
            leadership = self._lead(self.topic.name, index)
            if leadership is not None:
                self._load(index, leadership)

    def _lead_nothing(self) -> None:
        for index in list(self._hosted):
            self._unload(index)

    def _unload(self, index: int) -> None:
        hosted = self._hosted.pop(index)
        if hosted.finishing is not None:
            hosted.finishing.cancel()
        self._perform(hosted, hosted.engine.unload(self._now()))

    # Loading

    def _load(self, index: int, leadership: Leadership) -> None:
        engine = Engine(self._new_shard(leadership.leader_epoch), leadership, self.topic.commit_timeout_ms)
        hosted = self._hosted[index] = Hosted(leadership, engine, self._clock.monotonic_ms())
        if leadership.log_start_offset == leadership.log_end_offset:
            self._perform(hosted, engine.finish_loading(self._now(), self._image))
        else:
            self._to_load.append(hosted)
            if len(self._to_load) == 1:
                self._spawner.spawn(f"load {self.topic.name}", self._load_all())

    async def _load_all(self) -> None:
        """One partition at a time, in slices, so that nothing else waits long.

        Meanwhile requests get COORDINATOR_LOAD_IN_PROGRESS.
        """
        while self._to_load:
            hosted = self._to_load[0]
            with self._unloaded_on_failure(hosted):
                await self._read_log(hosted)
            self._to_load.popleft()

    @contextmanager
    def _unloaded_on_failure(self, hosted: Hosted[S]) -> Iterator[None]:
        try:
            yield
        except (OSError, KafkaError, MalformedRecords):
            log.exception("%s cannot be loaded", hosted.leadership)
            self._perform(hosted, hosted.engine.unload(self._now()))

    async def _read_log(self, hosted: Hosted[S]) -> None:
        engine, leadership = hosted.engine, hosted.leadership
        if engine.is_closed():
            return
        offset, end = leadership.log_start_offset, leadership.log_end_offset
        while offset < end:
            region = leadership.read(offset, LOAD_BYTES, end)
            if region is None:
                break
            try:
                batches = await self._spawner.blocking(region.read)
            finally:
                region.release()
            if engine.is_closed():
                return
            for _ in engine.load(batches):
                await asyncio.sleep(0)
                if engine.is_closed():
                    return
            offset = engine.written_up_to
        # In a task of its own: with too few in-sync replicas this may wait until they are back.
        hosted.finishing = self._spawner.spawn(f"finish loading {leadership}", self._finish_loading(hosted, end))

    async def _finish_loading(self, hosted: Hosted[S], end: Offset) -> None:
        with self._unloaded_on_failure(hosted):
            # Otherwise changes that were acknowledged before a crash would be invisible, as if never made.
            await _until_committed(hosted.leadership, Offset(end - 1))
            self._perform(hosted, hosted.engine.finish_loading(self._now(), self._image))
            self.load_ms.observe(self._clock.monotonic_ms() - hosted.began_ms, self._clock.monotonic_ns())
            log.info("coordinates %s: %s", hosted.leadership, hosted.engine.shard)

    # Effects

    def _now(self) -> Now:
        return Now(self._clock.monotonic_ms(), self._clock.wall_ms())

    def _perform(self, hosted: Hosted[S], effects: Effects) -> None:
        for to, response in effects.replies:
            to.give(response)
        if effects.timers:
            self._set_timers(hosted, effects)
        if effects.append is not None:
            self._write(hosted, effects.append, effects.now)
        for question in effects.questions:
            self._spawner.spawn(f"ask broker {question.broker_id}", self._put_question(hosted, question))

    def _write(self, hosted: Hosted[S], append: Append, now: Now) -> None:
        hosted.engine.write(append, now, lambda error: self._perform(hosted, append.then(error, self._now())))
        self._watch_commit_timeout(hosted)

    async def _put_question(self, hosted: Hosted[S], question: Ask) -> None:
        answer = await self._ask_broker(question.broker_id, question.request, question.version, question.timeout_ms)
        if not hosted.engine.is_closed():
            self._perform(hosted, question.then(answer, self._now()))

    def _watch_commit_timeout(self, hosted: Hosted[S]) -> None:
        deadline = hosted.engine.next_deadline()
        if deadline is not None:
            self._timers.set((hosted, _COMMIT_TIMEOUT), deadline)
            self._plan_wakeup()

    def _set_timers(self, hosted: Hosted[S], effects: Effects) -> None:
        timers = self._timers
        for key, deadline in effects.timers.items():
            if deadline is None:
                timers.cancel((hosted, key))
            else:
                timers.set((hosted, key), deadline)
        self._plan_wakeup()

    def _plan_wakeup(self) -> None:
        at_ms = self._timers.next_wakeup()
        if at_ms is None or (self._wakeup is not None and self._wakeup_at_ms <= at_ms):
            return
        if self._wakeup is not None:
            self._wakeup.cancel()
        delay_s = max(at_ms - self._clock.monotonic_ms(), 0) / 1000
        self._wakeup_at_ms = at_ms
        self._wakeup = asyncio.get_running_loop().call_later(delay_s, self._wake_up)

    def _wake_up(self) -> None:
        self._wakeup = None
        now_ms = self._clock.monotonic_ms()
        due = deque(self._timers.due(now_ms, TIMERS_PER_TURN))
        try:
            while due:
                self._fire(*due.popleft())
        finally:
            # If one failed, the others are due at once, for as long as the node runs.
            for timer in due:
                self._timers.set(timer, now_ms)
            self._plan_wakeup()

    def _fire(self, hosted: Hosted[S], key: TimerKey) -> None:
        if hosted.engine.is_closed():
            return
        if key != _COMMIT_TIMEOUT:
            self._perform(hosted, hosted.engine.shard.timer_fired(key, self._now()))
            return
        try:
            hosted.engine.give_up_waiting(self._now())
        finally:
            self._watch_commit_timeout(hosted)


async def _until_committed(leadership: Leadership, offset: Offset) -> None:
    """KafkaError when `offset` will never be committed in this leadership."""
    told: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    leadership.when_committed(offset, lambda error: None if told.done() else told.set_result(error))
    error = await told
    if error:
        raise KafkaError(error)
