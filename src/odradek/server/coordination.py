"""The group coordinator of this broker: an engine for each partition of `__consumer_offsets` that it leads.

Gives the cores what they ask for: appends through the partition, timers from one heap, answers to parked requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import Offset
from odradek.base.ports import Clock, Spawner
from odradek.coordinator.effects import Append, Effects, Now, TimerKey
from odradek.coordinator.engine import Engine, Phase
from odradek.coordinator.group.config import GroupConfig
from odradek.coordinator.group.shard import GroupShard
from odradek.coordinator.timers import Timers
from odradek.protocol.malformed import MalformedRecords
from odradek.server.outcome import outcome

if TYPE_CHECKING:
    from odradek.metadata.configs.broker import BrokerConfig
    from odradek.metadata.image import ClusterImage, ImageDelta, TopicImage
    from odradek.replication.partition import Partition
    from odradek.replication.partition_table import PartitionTable

OFFSETS_TOPIC = "__consumer_offsets"
LOAD_BYTES = 256 * limits.KIB
# Timers handled before other tasks get the event loop.
TIMERS_PER_TURN = 50
_COMMIT_TIMEOUT: TimerKey = ("commit timeout", "", "")

log = logging.getLogger(__name__)


class Answer:
    """Where a turn leaves its reply: there at once, or awaited. `KafkaError` is raised, anything else returned."""

    __slots__ = ("_future", "_given", "_response")

    def __init__(self) -> None:
        self._given = False
        self._response: Any = None
        self._future: asyncio.Future[Any] | None = None

    def give(self, response: object) -> None:
        self._given = True
        self._response = response
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    @property
    def is_given(self) -> bool:
        return self._given

    def take(self) -> Any:  # noqa: ANN401, as various as the requests
        if isinstance(self._response, KafkaError):
            raise self._response
        return self._response

    async def wait(self) -> Any:  # noqa: ANN401
        if not self._given:
            self._future = asyncio.get_running_loop().create_future()
            await self._future
        return self.take()


Turn = Callable[[GroupShard, Answer, Now], Effects]


class LedWriter:
    """`PartitionWriter` of one partition, for as long as this broker leads it in one epoch."""

    __slots__ = ("_clock", "_leader_epoch", "_partition")

    def __init__(self, partition: Partition, clock: Clock) -> None:
        self._partition = partition
        self._leader_epoch = partition.leader_epoch
        self._clock = clock

    def append(self, batch: bytearray) -> Offset:
        partition = self._partition
        if partition.leader_epoch != self._leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(batch) > partition.log.config.max_message_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{len(batch)} bytes for {partition}")
        return Offset(partition.append_internal(batch, self._clock.wall_ms()).base_offset)

    def is_committed(self, offset: Offset) -> bool:
        return self._partition.is_committed(offset)

    def when_committed(self, offset: Offset, callback: Callable[[ErrorCode], None]) -> None:
        self._partition.when_committed(offset, callback)


class Led:
    """One partition of the offsets topic under this broker's leadership."""

    __slots__ = ("engine", "finishing", "leader_epoch", "partition")

    def __init__(self, partition: Partition, engine: Engine[GroupShard]) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.engine = engine
        # Set once the log has been read: waits until all of it is committed. Ends with the leadership.
        self.finishing: asyncio.Task[None] | None = None


class GroupCoordination:
    def __init__(self, *, config: BrokerConfig, clock: Clock, spawner: Spawner, partitions: PartitionTable) -> None:
        self._config = config
        self._clock = clock
        self._spawner = spawner
        self._partitions = partitions
        # Fixed by the topic once it exists; until then what it will be created with.
        self._partition_count = config.offsets_topic_num_partitions
        self._topics_by_id: Mapping[bytes, TopicImage] = {}
        self._led: dict[int, Led] = {}
        # The first of them is being read.
        self._to_load: deque[Led] = deque()
        self._timers: Timers[tuple[Led, TimerKey]] = Timers()
        self._wakeup: asyncio.TimerHandle | None = None
        self._wakeup_at_ms = 0
        self._stopped = False

    # For handlers

    def partition_for(self, group_id: str) -> int:
        """The same hash as in Kafka: tools compute it, too."""
        return positive_java_hash(group_id) % self._partition_count

    def ask(self, group_id: str, turn: Turn) -> Any:  # noqa: ANN401
        """One turn for this group: what it answers, or an awaitable of it. KafkaError when we do not coordinate it."""
        led = self._active(group_id)
        answer = Answer()
        self._perform(led, turn(led.engine.state, answer, self._now()))
        return answer.take() if answer.is_given else answer.wait()

    async def answered(self, group_id: str, turn: Turn) -> Any:  # noqa: ANN401
        """As `ask`, for a caller that can await the answer."""
        answer = self.ask(group_id, turn)
        return await answer if isawaitable(answer) else answer

    def shard(self, group_id: str) -> GroupShard:
        """For reading. KafkaError when we do not coordinate this group."""
        return self._active(group_id).engine.state

    async def stable_shard(self, group_id: str) -> GroupShard:
        """For reading, once nothing that was written before is pending."""
        led = self._active(group_id)
        answer = Answer()
        led.engine.when_all_committed(
            self._now(), lambda error: answer.give(KafkaError(error) if error else led.engine.state)
        )
        if not answer.is_given:
            self._watch_commit_timeout(led)
        shard: GroupShard = await answer.wait()
        return shard

    def shards(self) -> Iterator[GroupShard]:
        """All that this broker coordinates. KafkaError while one of them is still being read."""
        for led in self._led.values():
            if led.engine.is_closed():
                continue
            if led.finishing is None:
                led.engine.check_active()
            yield led.engine.state

    def _active(self, group_id: str) -> Led:
        if len(group_id) > limits.group_id_chars_max:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        led = self._led.get(self.partition_for(group_id))
        if led is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        led.engine.check_active()
        return led

    # Leadership

    def apply(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Called after the partitions have taken the same commit."""
        if self._stopped:
            return
        self._topics_by_id = image.topics_by_id
        if any(topic.name == OFFSETS_TOPIC for topic in delta.deleted):
            self._lead_nothing()
        offsets_topic = image.topics.get(OFFSETS_TOPIC)
        touched = [topic.name for topic in delta.created] + [change.after.name for change in delta.changed]
        if offsets_topic is not None and OFFSETS_TOPIC in touched:
            self._partition_count = len(offsets_topic.partitions)
            self.look_again()
        deleted: dict[bytes, str] = {topic.topic_id: topic.name for topic in delta.deleted}
        if deleted:
            self._topics_deleted(deleted)

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
        partition = self._partitions.get(OFFSETS_TOPIC, index)
        if partition is not None and not partition.is_leader:
            partition = None
        led = self._led.get(index)
        if led is not None and (partition is not led.partition or partition.leader_epoch != led.leader_epoch):
            self._unload(index)
            log.info("the leadership of %s moved: its new leader loads its groups", led.partition)
        if partition is not None and index not in self._led:
            self._load(index, partition)

    def _lead_nothing(self) -> None:
        for index in list(self._led):
            self._unload(index)

    def _unload(self, index: int) -> None:
        led = self._led.pop(index)
        if led.finishing is not None:
            led.finishing.cancel()
        self._perform(led, led.engine.unload(self._now()))

    def _load(self, index: int, partition: Partition) -> None:
        writer = LedWriter(partition, self._clock)
        engine = Engine(GroupShard(GroupConfig.of(self._config)), writer, self._config.offsets_commit_timeout_ms)
        led = self._led[index] = Led(partition, engine)
        if partition.log.log_start_offset == partition.log.log_end_offset:
            self._perform(led, engine.finish_loading(self._now()))
        else:
            self._to_load.append(led)
            if len(self._to_load) == 1:
                self._spawner.spawn("load groups", self._load_all())

    async def _load_all(self) -> None:
        """One partition at a time, in slices, so that nothing else waits long.

        Meanwhile requests get COORDINATOR_LOAD_IN_PROGRESS.
        """
        while self._to_load:
            led = self._to_load[0]
            with self._unloaded_on_failure(led):
                await self._read_log(led)
            self._to_load.popleft()

    @contextmanager
    def _unloaded_on_failure(self, led: Led) -> Iterator[None]:
        try:
            yield
        except (OSError, KafkaError, MalformedRecords):
            log.exception("groups of %s cannot be loaded", led.partition)
            self._perform(led, led.engine.unload(self._now()))

    async def _read_log(self, led: Led) -> None:
        if led.engine.is_closed():
            return
        partition_log = led.partition.log
        offset, end = partition_log.log_start_offset, partition_log.log_end_offset
        while offset < end:
            region = partition_log.read(offset, LOAD_BYTES, end, whole_first_batch=True)
            if region is None:
                break
            try:
                batches = await self._spawner.blocking(region.read)
            finally:
                region.release()
            if led.engine.is_closed():
                return
            for _ in led.engine.load(batches):
                await asyncio.sleep(0)
                if led.engine.is_closed():
                    return
            offset = led.engine.written_up_to
        # In a task of its own: with too few in-sync replicas this may wait until they are back.
        led.finishing = self._spawner.spawn("finish loading groups", self._finish_loading(led, end))

    async def _finish_loading(self, led: Led, end: int) -> None:
        with self._unloaded_on_failure(led):
            # Otherwise offsets that groups committed before a crash would be invisible, as if never committed.
            await _until_committed(led.partition, end - 1)
            self._perform(led, led.engine.finish_loading(self._now()))
            self._perform(led, led.engine.state.topics_known(self._topics_by_id, self._now()))
            log.info("coordinates %d groups of %s", len(led.engine.state.groups), led.partition)

    def _topics_deleted(self, names_by_id: Mapping[bytes, str]) -> None:
        for led in self._led.values():
            if led.engine.phase is Phase.ACTIVE:
                self._perform(led, led.engine.state.topics_deleted(names_by_id, self._now()))

    # Effects

    def _now(self) -> Now:
        return Now(self._clock.monotonic_ms(), self._clock.wall_ms())

    def _perform(self, led: Led, effects: Effects) -> None:
        for to, response in effects.replies:
            to.give(response)
        if effects.timers:
            self._set_timers(led, effects)
        if effects.append is not None:
            self._write(led, effects.append, effects.now)

    def _write(self, led: Led, append: Append, now: Now) -> None:
        led.engine.write(append, now, lambda error: self._perform(led, append.then(error, self._now())))
        self._watch_commit_timeout(led)

    def _watch_commit_timeout(self, led: Led) -> None:
        deadline = led.engine.next_deadline()
        if deadline is not None:
            self._timers.set((led, _COMMIT_TIMEOUT), deadline)
            self._plan_wakeup()

    def _set_timers(self, led: Led, effects: Effects) -> None:
        timers = self._timers
        for key, deadline in effects.timers.items():
            if deadline is None:
                timers.cancel((led, key))
            else:
                timers.set((led, key), deadline)
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

    def _fire(self, led: Led, key: TimerKey) -> None:
        if led.engine.is_closed():
            return
        if key != _COMMIT_TIMEOUT:
            self._perform(led, led.engine.state.timer_fired(key, self._now()))
            return
        try:
            led.engine.give_up_waiting(self._now())
        finally:
            self._watch_commit_timeout(led)


@lru_cache(maxsize=16_384)
def positive_java_hash(text: str) -> int:
    """The absolute value of Java's `String.hashCode`; 0 for -2**31, which has none."""
    code = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code if code < 2**31 else (2**32 - code) % 2**31


async def _until_committed(partition: Partition, offset: int) -> None:
    error = await outcome(partition, partition.when_committed, offset)
    if error:
        raise KafkaError(error)
