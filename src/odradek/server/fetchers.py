"""One fetcher for each leader that this broker follows: fetches, hands the answer on, and fetches again at once.

`replication.fetching` decides what to fetch and what an answer means; this module only waits. A follower whose topic
requires fsync (`flush.messages`) waits for it before the next fetch, since a fetch offset means that everything before
it is safe here.

An election may add partitions while a fetch is parked at their leader. The fetcher then closes the connection, since a
leader reads nothing behind a parked fetch. The next fetch asks for all partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from odradek.base.ids import NO_BROKER, BrokerId
from odradek.base.ports import Clock, Spawner
from odradek.metadata.configs.broker import BrokerConfig
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.replica_fetch import FETCH, VERSION, FetchReply, decode_fetch_response, encode_fetch_request
from odradek.replication.fetching import Fetching, Question
from odradek.replication.partition import Partition
from odradek.server.network.peers import Peers, PeerUnavailable
from odradek.server.outcome import outcome

logger = logging.getLogger(__name__)

PURPOSE = "replica fetch"
PAUSE_MS_MIN = 20


class Fetchers:
    """All fetchers of a broker. `PartitionTable` calls `follow` when a partition changes."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        cluster_id: str,
        broker_epoch: Callable[[], int],
        peers: Peers,
        clock: Clock,
        spawner: Spawner,
    ) -> None:
        """`broker_epoch`: the epoch of this incarnation; leaders use it to tell it from earlier ones."""
        self.config = config
        self.cluster_id = cluster_id
        self.broker_epoch = broker_epoch
        self.peers = peers
        self.clock = clock
        self.spawner = spawner
        self._fetchers: dict[BrokerId, Fetcher] = {}
        self._stopping = False

    def follow(self, partition: Partition) -> None:
        """The partition's leader or leader epoch changed, or this broker no longer has the partition."""
        leader = NO_BROKER if partition.is_leader else partition.leader_id
        for leader_id, fetcher in self._fetchers.items():
            if leader_id != leader:
                fetcher.leave(partition)
        if leader == NO_BROKER or self._stopping:
            return
        if leader not in self._fetchers:
            self._fetchers[leader] = Fetcher(self, leader)
        self._fetchers[leader].follow(partition)

    @property
    def dead_count(self) -> int:
        """Fetchers that have partitions and do not run; 0 unless the broker is stopping."""
        return sum(fetcher.is_dead for fetcher in self._fetchers.values())

    async def stop(self) -> None:
        """Nothing is appended any more when this returns."""
        self._stopping = True
        for fetcher in self._fetchers.values():
            await fetcher.stop()


class Fetcher:
    """Fetches from one leader, in a task while there is something to follow."""

    def __init__(self, owner: Fetchers, leader_id: BrokerId) -> None:
        self._owner = owner
        self._leader_id = leader_id
        config = owner.config
        self._fetching = Fetching(
            partition_max_bytes=config.replica_fetch_max_bytes,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            rest_ms_max=config.replica_fetch_backoff_ms,
        )
        self._news = asyncio.Event()
        # A fetch is under way, and its answer is still wanted.
        self._asking = False
        self._task: asyncio.Task[None] | None = None
        self._pause_ms = 0

    def follow(self, partition: Partition) -> None:
        self._fetching.follow(partition)
        self._news.set()
        if self._asking:
            self._asking = False
            self._owner.peers.hang_up(self._leader_id, PURPOSE, "there are more partitions to fetch")
        if self._task is None:
            self._task = self._owner.spawner.spawn(f"fetch from {self._leader_id}", self._run())

    @property
    def is_dead(self) -> bool:
        return self._task is None and len(self._fetching) > 0

    def leave(self, partition: Partition) -> None:
        self._fetching.leave(partition)
        self._news.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._fetching:
                self._news.clear()
                await self._sync()
                question = self._fetching.question(self._owner.clock.monotonic_ms())
                if question is None:
                    await self._idle(self._fetching.idle_ms(self._owner.clock.monotonic_ms()))
                else:
                    await self._ask(question)
        finally:
            self._task = None

    async def _sync(self) -> None:
        """Syncs what the next fetch asks for, including partitions added meanwhile."""
        while unsynced := self._fetching.unsynced(self._owner.clock.monotonic_ms()):
            for partition in unsynced:
                # Done, or failed: then its log is offline, and the next fetch leaves it out.
                await outcome(partition, partition.when_synced, partition.log.log_end_offset - 1)

    async def _ask(self, question: Question) -> None:
        try:
            reply = await self._answer(question)
        except (PeerUnavailable, MalformedMessage) as failure:
            self._fetching.failed()
            if not self._asking:
                return
            if not self._pause_ms:
                logger.warning("cannot fetch from broker %d: %s", self._leader_id, failure)
            self._asking = False
            self._pause_ms = min(max(2 * self._pause_ms, PAUSE_MS_MIN), self._owner.config.replica_fetch_backoff_ms)
            await self._idle(self._pause_ms)
            return
        self._asking = False
        if self._pause_ms:
            logger.info("fetching from broker %d again", self._leader_id)
            self._pause_ms = 0
        clock = self._owner.clock
        self._fetching.answered(reply, clock.monotonic_ms(), clock.wall_ms())

    async def _answer(self, question: Question) -> FetchReply:
        owner, config = self._owner, self._owner.config
        body = encode_fetch_request(
            replica_id=config.node_id,
            replica_epoch=owner.broker_epoch(),
            topics=question.topics,
            forgotten=question.forgotten,
            session_id=question.session_id,
            session_epoch=question.session_epoch,
            max_wait_ms=question.max_wait_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            cluster_id=owner.cluster_id,
        )
        self._asking = True
        answer = await owner.peers.ask_for_bytes(
            self._leader_id, body, FETCH, VERSION, timeout_ms=config.replica_socket_timeout_ms, purpose=PURPOSE
        )
        return decode_fetch_response(answer)

    async def _idle(self, wait_ms: int | None) -> None:
        """Until there is something new to follow, or for a while."""
        try:
            async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                await self._news.wait()
        except TimeoutError:
            return
