"""What the handlers of one broker share. Built by `node`, handed to every request's context."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from odradek.base.ids import BrokerId
from odradek.base.ports import Clock, Rng, Spawner
from odradek.metadata.configs.in_force import effective_broker_config
from odradek.metadata.image import BROKER_RESOURCE
from odradek.server.fetch_sessions import FetchSessions
from odradek.server.loggers import Loggers
from odradek.server.tally import Tally
from odradek.server.telemetry import ClientTelemetry
from odradek.server.unappended import Unappended

if TYPE_CHECKING:
    from odradek.coordinator.group.shard import GroupShard
    from odradek.coordinator.runtime import Runtime
    from odradek.coordinator.transaction.shard import TransactionShard
    from odradek.metadata.configs.broker import BrokerConfig
    from odradek.metadata.image import ClusterImage, ImageDelta
    from odradek.replication.partition_table import PartitionTable
    from odradek.security.authorizer import Authorizer
    from odradek.server.api.p01_fetch import ParkedFetch
    from odradek.server.controller.active_controller import ActiveController
    from odradek.server.controller.controller_channel import ControllerChannel
    from odradek.server.network.request import Api, FrameApi
    from odradek.server.producer_ids import ProducerIds
    from odradek.server.transactions.partitions import TransactionPartitions

NEWS_TIMEOUT_S = 5.0


@dataclass(slots=True, kw_only=True, eq=False)
class Broker:
    node_id: BrokerId
    cluster_id: str
    # The listener for clients; brokers reach each other there, too.
    listener_name: str
    # Currently in force.
    config: BrokerConfig
    clock: Clock
    rng: Rng
    spawner: Spawner
    authorizer: Authorizer
    # What this broker advertises and answers, by API key.
    apis: Mapping[int, Api | FrameApi]
    partitions: PartitionTable
    # Decides while this node leads the metadata quorum; `channel` reaches the node that leads.
    controller: ActiveController
    channel: ControllerChannel
    producer_ids: ProducerIds
    groups: Runtime[GroupShard]
    transactions: Runtime[TransactionShard]
    # Of transactions that any broker coordinates.
    transaction_partitions: TransactionPartitions
    # The latest committed cluster image this broker has applied.
    image: ClusterImage

    loggers: Loggers = field(default_factory=Loggers)
    tally: Tally = field(default_factory=Tally)
    # Called with the configuration when a dynamic key changed.
    on_configured: Callable[[BrokerConfig], None] = lambda _config: None

    fetch_sessions: FetchSessions = field(init=False)
    unappended: Unappended = field(init=False)
    telemetry: ClientTelemetry = field(init=False)
    _waiting_for_news: list[asyncio.Event] = field(init=False, default_factory=list)
    # In order of arrival.
    parked_fetches: dict[ParkedFetch, None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        slots = self.config.max_incremental_fetch_session_cache_slots
        self.fetch_sessions = FetchSessions(slots, self.clock, self.rng, self.tally.fetch_session_evictions)
        self.unappended = Unappended(self.clock, self.spawner)
        self.telemetry = ClientTelemetry(
            bytes_max=self.config.telemetry_max_bytes,
            image=self.image,
            clock=self.clock,
            rng=self.rng,
            spawner=self.spawner,
        )

    def answer_parked_fetches(self) -> None:
        """Before a stop: parked fetches must not wait for more records."""
        for fetch in list(self.parked_fetches):
            fetch.answer()

    def apply(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Applies a metadata commit. Partitions come first: later steps may write to a partition just led."""
        self.image = image
        if any(resource.type == BROKER_RESOURCE for resource in delta.configs):
            self.config = effective_broker_config(image, self.config)
            self.on_configured(self.config)
        self.partitions.apply(image, delta)
        self.groups.apply(image, delta)
        self.telemetry.apply(image, delta)
        self.transactions.apply(image, delta)
        waiting, self._waiting_for_news = self._waiting_for_news, []
        for event in waiting:
            event.set()

    def look_for_leadership(self) -> None:
        """A partition may become leader after the commit that says so: once its log has been opened."""
        self.groups.look_again()
        self.transactions.look_again()

    def stop_coordinating(self) -> None:
        self.groups.stop()
        self.transactions.stop()

    async def knows_topic(self, name: str) -> None:
        """Waits until this broker knows a topic that the controller has created, or until NEWS_TIMEOUT_S."""
        with suppress(TimeoutError):
            async with asyncio.timeout(NEWS_TIMEOUT_S):
                while name not in self.image.topics:
                    heard = asyncio.Event()
                    self._waiting_for_news.append(heard)
                    await heard.wait()
