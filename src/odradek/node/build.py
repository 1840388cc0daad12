"""Assembles a node from its parts, and starts and stops them in order.

Start: the node checks the identity of its directory, loads the metadata log, joins its quorum and serves controllers. A
broker then waits for the committed metadata, opens and recovers its logs, binds its port and registers. Registration
ends the leader epochs of its previous run. Only then does it serve clients, and the controller may make it a leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from odradek.base.ids import NO_BROKER, BrokerId, random_uuid
from odradek.base.ports import Ports
from odradek.controller.brokers import Registration
from odradek.coordinator.ports import AskBroker
from odradek.coordinator.runtime import Runtime
from odradek.coordinator.transaction.shard import TransactionShard
from odradek.log.directory import LogDirectory
from odradek.metadata.configs.in_force import effective_broker_config, not_honoured
from odradek.metadata.features import SUPPORTED_FEATURES
from odradek.metadata.image import ControllerRegistration, Listener
from odradek.monitor.registry import Registry
from odradek.node.config import Endpoint, NodeConfig, NodeListener
from odradek.node.format import DirectoryIdentity, open_directory, open_formatted
from odradek.quorum.timing import QuorumTiming
from odradek.quorum.voters import Endpoint as VoterEndpoint
from odradek.quorum.voters import Voter, VoterKey
from odradek.replication.partition_table import PartitionTable, TopicSettings
from odradek.replication.traffic import Traffic
from odradek.security.authorizer import AllowAll
from odradek.server.api.controller_table import load_controller_apis
from odradek.server.api.table import load_apis
from odradek.server.broker import Broker
from odradek.server.broker_channel import BrokerChannel
from odradek.server.controller.active_controller import ActiveController
from odradek.server.controller.controller import Controller
from odradek.server.controller.controller_channel import ControllerChannel
from odradek.server.controller.forwarding import TIMEOUT_MS as FORWARDING_TIMEOUT_MS
from odradek.server.controller.forwarding import Forwarding, quorum_apis, with_forwarding
from odradek.server.failed_logs import LOOK_EVERY_MS, FailedLogs
from odradek.server.fetchers import Fetchers
from odradek.server.group_commit import GroupCommit
from odradek.server.housekeeping import Housekeeping
from odradek.server.internal_topics import group_coordinator, leader_for, transaction_coordinator
from odradek.server.isr_proposals import IsrProposals
from odradek.server.lifecycle import BrokerLifecycle, register_controller
from odradek.server.metrics.node import BrokerState, NodeMetrics
from odradek.server.network.dispatch import Dispatcher
from odradek.server.network.listener import ClientListener, ConnectionLimits, FrameSink
from odradek.server.network.peers import Peers
from odradek.server.network.request import Api, BrokerContext, ControllerContext, FrameApi
from odradek.server.producer_ids import ProducerIds
from odradek.server.quorum.member import Member
from odradek.server.quorum.metadata_quorum import MetadataQuorum
from odradek.server.tally import Tally
from odradek.server.telemetry import EXPIRY_CHECK_MS
from odradek.server.transactions.markers import MarkerGathering
from odradek.server.transactions.partitions import TransactionPartitions
from odradek.server.visible_cluster import live_broker_ids

logger = logging.getLogger(__name__)

PLAINTEXT = 0
QUORUM_TIMEOUT_MS = 2_000


class Node:
    def __init__(self, config: NodeConfig, ports: Ports, registry: Registry | None = None) -> None:
        """`registry`: where its metrics are to be found."""
        self._config = config
        self._ports = ports
        self._metrics: NodeMetrics | None = None
        if config.broker.metrics_enable:
            self._metrics = NodeMetrics(registry or Registry(ports.clock.monotonic_ns), ports)
        # New at each start.
        self._incarnation_id = random_uuid(ports.rng)
        self._logs = LogDirectory(ports.disk, ports.rng)
        bounds = ConnectionLimits(
            request_bytes_max=config.broker.socket_request_max_bytes,
            idle_ms_max=config.broker.connections_max_idle_ms,
        )
        self._clients = ClientListener(ports.net, bounds)
        self._controllers = ClientListener(ports.net, bounds)
        self._commits = GroupCommit(ports.spawner, ports.clock)
        if self._metrics is not None:
            self._commits.took = self._metrics.flushed
        self._housekeeping = Housekeeping(
            config=config.broker,
            clock=ports.clock,
            spawner=ports.spawner,
            logs=self._logs,
            commits=self._commits,
        )
        self._quorum: MetadataQuorum
        self._controller: ActiveController
        # Connections to controllers and to other brokers.
        self._peers: Peers
        self._brokers: Peers
        self._fetchers: Fetchers
        self._lifecycle: BrokerLifecycle | None = None
        self._proposals: IsrProposals
        self._broker: Broker
        self._broker_epoch = -1
        # Runs until the cluster knows this controller.
        self._registering: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port of the client listener; on a node without the broker role, of the controller listener."""
        return (self._clients if self._config.is_broker else self._controllers).port

    @property
    def known_brokers(self) -> frozenset[int]:
        """The brokers that this node lists to clients."""
        return frozenset(live_broker_ids(self._broker.image, self._broker.listener_name))

    @property
    def registry(self) -> Registry | None:
        """Its metrics; None if they are turned off."""
        return None if self._metrics is None else self._metrics.registry

    def not_ready(self) -> list[str]:
        """Reasons, as sentences, why clients should not use this node now; empty when it is ready."""
        leader = self._quorum.leader_id
        if leader == NO_BROKER:
            return ["this node knows no leader of the metadata quorum"]
        if not self._quorum.core.hears_leader:
            # Without a majority no other is elected, and a follower returns to its dead leader after each attempt.
            return [f"node {leader}, the last known leader of the metadata quorum, does not answer this node"]
        if self._config.is_broker:
            itself = self._broker.image.brokers.get(self._broker.node_id)
            if itself is None or itself.fenced:
                return [f"broker {self._broker.node_id} is fenced: the controller receives no heartbeats from it"]
        return []

    def measure(self, registry: Registry) -> None:
        """Adds the metrics of this node, which has started, to those of its process."""
        if self._config.is_broker:
            self._broker.telemetry.measure(registry)

    def intercept(self, around: Callable[[FrameSink], FrameSink]) -> None:
        """For tests: `around` sees every request of a client before its handler does."""
        self._clients.handle = around(self._clients.handle)

    async def start(self) -> None:
        """Returns when clients are served; on a node without the broker role, when controllers are served."""
        identity = await self._ports.spawner.blocking(self._open_directory)
        self._peers = self._new_peers(identity, self._controller_endpoint)
        self._peers.on_lost = self._controller_lost
        self._brokers = self._new_peers(identity, self._broker_endpoint)
        self._quorum = MetadataQuorum(self._member(identity), self._ports, self._peers)
        self._controller = ActiveController(self._quorum, self._config.broker, self._ports.clock, self._ports.spawner)
        await self._quorum.start()
        apart = Controller(
            node_id=identity.node_id,
            cluster_id=identity.cluster_id,
            config=self._config.broker,
            clock=self._ports.clock,
            rng=self._ports.rng,
            spawner=self._ports.spawner,
            authorizer=AllowAll(),
            apis=load_controller_apis(),
            quorum=self._quorum,
            controller=self._controller,
        )
        channel = ControllerChannel(
            node_id=identity.node_id,
            quorum=self._quorum,
            peers=self._peers,
            apis=apart.apis,
            context=lambda connection, version: ControllerContext(apart, connection, version),
        )
        if self._metrics is not None:
            self._metrics.measure_quorum(self._quorum)
            if self._config.is_controller:
                self._metrics.measure_controller(self._quorum, self._controller)
            self._metrics.start()
        if self._config.controller_listener is not None:
            await self._start_controller(self._config.controller_listener, apart, channel)
        if self._config.client_listener is not None:
            await self._start_broker(self._config.client_listener, identity, apart, channel)

    async def _start_controller(
        self, listener: NodeListener, controller: Controller, channel: ControllerChannel
    ) -> None:
        if self._metrics is not None:
            self._metrics.observe(self._controllers, listener.name, controller.apis)
        await self._controllers.bind(listener.bind.host, listener.bind.port)
        self._controllers.on_lost = controller.lost
        self._controllers.serve(Dispatcher(controller, ControllerContext).handle)
        itself = ControllerRegistration(
            controller_id=controller.node_id,
            incarnation_id=self._incarnation_id,
            listeners=(_told(listener, listener.reached_at),),
            features=SUPPORTED_FEATURES,
        )
        self._registering = self._ports.spawner.spawn("controller registration", register_controller(channel, itself))

    async def _start_broker(
        self,
        listener: NodeListener,
        identity: DirectoryIdentity,
        controller: Controller,
        channel: ControllerChannel,
    ) -> None:
        forwarding = self._new_forwarding(identity, FORWARDING_TIMEOUT_MS)

        def new_leader(former: BrokerId) -> None:
            channel.leader_was(former)
            forwarding.leader_was(former)
            if self._lifecycle is not None:
                self._lifecycle.hurry()

        self._quorum.on_new_leader = new_leader
        await self._quorum.caught_up()
        for sentence in not_honoured(self._quorum.feed.image):
            logger.warning(sentence)
        self._is_in(BrokerState.RECOVERY)
        settings = TopicSettings(self._quorum.feed.image, self._config.broker)
        await self._ports.spawner.blocking(
            self._logs.load, lambda topic: settings.of(topic)[0], self._ports.clock.wall_ms()
        )
        apis = {
            **with_forwarding(load_apis(), forwarding),
            **quorum_apis(controller, forwarding, self._new_forwarding(identity, QUORUM_TIMEOUT_MS)),
        }
        if self._metrics is not None:
            self._metrics.observe(self._clients, listener.name, apis)
        await self._clients.bind(listener.bind.host, listener.bind.port)
        self._lifecycle = BrokerLifecycle(
            channel=channel,
            registration=self._registration(listener, identity),
            config=self._config.broker,
            feed=self._quorum.feed,
            clock=self._ports.clock,
            spawner=self._ports.spawner,
            nobody_decides=lambda: self._quorum.others.majority_is_silent,
        )
        self._broker_epoch = await self._lifecycle.register()
        self._broker = self._new_broker(listener.name, identity, channel, apis)
        if self._metrics is not None:
            self._metrics.measure_broker(self._broker, self._clients, self._fetchers)
        # No await between the first image and the subscription: a commit in between would be missed.
        image = self._quorum.feed.image
        self._broker.partitions.start(image)
        self._broker.groups.apply(image, image.as_delta())
        self._broker.transactions.apply(image, image.as_delta())
        apply = self._broker.apply
        self._quorum.feed.subscribe(apply if self._metrics is None else self._metrics.timed(apply))
        failed = self._failed_logs(channel, identity, self._broker)
        self._housekeeping.configure(self._broker.config)
        telemetry = self._broker.telemetry
        self._clients.on_lost = telemetry.lost
        self._housekeeping.start(
            self._broker.partitions,
            [
                ("failed logs", LOOK_EVERY_MS, failed.look),
                ("client telemetry", EXPIRY_CHECK_MS, telemetry.expire),
            ],
        )
        await self._lifecycle.serve()
        # Not earlier: a client that gets an empty list of brokers may not refresh its metadata for minutes.
        self._clients.serve(Dispatcher(self._broker, BrokerContext).handle)
        self._is_in(BrokerState.RUNNING)

    def _is_in(self, state: BrokerState) -> None:
        if self._metrics is not None:
            self._metrics.state = state

    def _controller_lost(self, node_id: BrokerId) -> None:
        self._quorum.others.lost(node_id)
        if self._lifecycle is not None and node_id == self._quorum.leader_id:
            self._lifecycle.hurry()

    async def stop(self) -> None:
        """Stops cleanly: hands over leadership, answers accepted requests, syncs logs. The next start scans nothing."""
        if self._lifecycle is not None:
            await self._stop_broker(self._lifecycle)
        if self._metrics is not None:
            self._metrics.stop()
        if self._registering is not None:
            self._registering.cancel()
        self._controller.stop_deciding()
        await self._quorum.stop()
        await self._controllers.stop()
        await self._peers.close()
        if self._lifecycle is not None:
            await self._ports.spawner.blocking(self._logs.close, self._broker_epoch)

    async def _stop_broker(self, lifecycle: BrokerLifecycle) -> None:
        self._is_in(BrokerState.STOPPING)
        if not self._config.is_alone:
            await lifecycle.leave()
        await self._clients.stop_accepting()
        self._broker.stop_coordinating()
        self._broker.answer_parked_fetches()
        await self._clients.stop()
        await self._broker.unappended.stop()
        lifecycle.stop()
        self._proposals.stop()
        await self._fetchers.stop()
        await self._housekeeping.stop()
        await self._brokers.close()

    async def abandon(self) -> None:
        """After a failure, also one of `start`: serves no more requests, and leaves the disk as a crash does."""
        if self._metrics is not None:
            self._metrics.stop()
        if self._lifecycle is not None:
            self._lifecycle.stop()
        await self._clients.abandon()
        await self._controllers.abandon()

    def _open_directory(self) -> DirectoryIdentity:
        """A single node formats its directory itself. In a cluster an operator formats it, with the initial voters."""
        if self._config.is_alone:
            return open_directory(
                self._ports.disk, node_id=self._config.node_id, clock=self._ports.clock, rng=self._ports.rng
            )
        return open_formatted(self._ports.disk, node_id=self._config.node_id)

    def _member(self, identity: DirectoryIdentity) -> Member:
        listener = self._config.controller_listener
        endpoints: tuple[VoterEndpoint, ...] = ()
        if listener is not None:
            endpoints = (VoterEndpoint(listener.name, listener.reached_at.host, listener.reached_at.port),)
        broker = self._config.broker
        return Member(
            voter=Voter(key=VoterKey(identity.node_id, identity.directory_id), endpoints=endpoints),
            cluster_id=identity.cluster_id,
            timing=QuorumTiming(
                election_timeout_ms=broker.controller_quorum_election_timeout_ms,
                fetch_timeout_ms=broker.controller_quorum_fetch_timeout_ms,
                election_backoff_max_ms=broker.controller_quorum_election_backoff_max_ms,
            ),
            bootstrap=tuple(VoterEndpoint("", each.host, each.port) for each in self._config.bootstrap_servers),
            joins=broker.controller_quorum_auto_join_enable,
            snapshot_every_bytes=broker.metadata_log_max_record_bytes_between_snapshots,
            segment_bytes=broker.internal_metadata_log_segment_bytes or broker.metadata_log_segment_bytes,
        )

    def _new_peers(
        self, identity: DirectoryIdentity, resolve: Callable[[BrokerId], VoterEndpoint | Listener | None]
    ) -> Peers:
        return Peers(
            net=self._ports.net,
            clock=self._ports.clock,
            spawner=self._ports.spawner,
            resolve=resolve,
            client_id=f"node-{identity.node_id}",
        )

    def _controller_endpoint(self, node_id: BrokerId) -> VoterEndpoint | None:
        return self._quorum.others.endpoint_of(node_id)

    def _broker_endpoint(self, node_id: BrokerId) -> Listener | None:
        broker, own = self._quorum.feed.image.brokers.get(node_id), self._config.client_listener
        if broker is None or own is None:
            return None
        # Brokers use the client listener for each other.
        return next((listener for listener in broker.listeners if listener.name == own.name), None)

    def _registration(self, listener: NodeListener, identity: DirectoryIdentity) -> Registration:
        # Without advertised.listeners: the address that the node listens on, with its actual port.
        where = listener.advertised or Endpoint(host=listener.bind.host, port=self._clients.port)
        return Registration(
            broker_id=identity.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=(_told(listener, where),),
            directories=(identity.directory_id,),
            rack=self._config.rack,
            previous_broker_epoch=self._logs.previous_broker_epoch,
        )

    def _failed_logs(self, channel: ControllerChannel, identity: DirectoryIdentity, broker: Broker) -> FailedLogs:
        return FailedLogs(
            channel=channel,
            broker_id=identity.node_id,
            broker_epoch=self._broker_epoch,
            directory=identity.directory_id,
            clock=self._ports.clock,
            logs=self._logs,
            partitions=broker.partitions,
            image=lambda: broker.image,
            slow=self._housekeeping.slow,
            on_opened=broker.look_for_leadership,
        )

    def _new_forwarding(self, identity: DirectoryIdentity, timeout_ms: int) -> Forwarding:
        return Forwarding(
            node_id=identity.node_id,
            quorum=self._quorum,
            peers=self._peers,
            clock=self._ports.clock,
            timeout_ms=timeout_ms,
        )

    def _broker_channel(self, identity: DirectoryIdentity, apis: Mapping[int, Api | FrameApi]) -> BrokerChannel:
        return BrokerChannel(
            node_id=identity.node_id,
            peers=self._brokers,
            apis=apis,
            context=lambda connection, version: BrokerContext(self._broker, connection, version, 0, None),
        )

    def _transaction_coordinator(
        self, identity: DirectoryIdentity, partitions: PartitionTable, ask_broker: AskBroker, tally: Tally
    ) -> Runtime[TransactionShard]:
        return transaction_coordinator(
            config=self._config.broker,
            broker_id=identity.node_id,
            clock=self._ports.clock,
            spawner=self._ports.spawner,
            partitions=partitions,
            ask_broker=MarkerGathering(ask_broker, self._ports.spawner).ask,
            timed_out=tally.timed_out_transactions,
        )

    def _transaction_partitions(self, ask_broker: AskBroker, tally: Tally) -> TransactionPartitions:
        return TransactionPartitions(
            config=self._config.broker,
            coordinator=lambda key: leader_for(self._broker, self._broker.transactions, key),
            ask_broker=ask_broker,
            clock=self._ports.clock,
            spawner=self._ports.spawner,
            tally=tally,
        )

    def _new_broker(
        self,
        listener_name: str,
        identity: DirectoryIdentity,
        channel: ControllerChannel,
        apis: Mapping[int, Api | FrameApi],
    ) -> Broker:
        config, ports = self._config.broker, self._ports
        tally = Tally(self.registry)
        self._proposals = IsrProposals(
            channel=channel, broker_id=identity.node_id, clock=ports.clock, spawner=ports.spawner, tally=tally
        )
        self._proposals.broker_epoch = self._broker_epoch
        self._fetchers = Fetchers(
            config=config,
            cluster_id=identity.cluster_id,
            broker_epoch=lambda: self._broker_epoch,
            peers=self._brokers,
            clock=ports.clock,
            spawner=ports.spawner,
        )
        partitions = PartitionTable(
            config=config,
            clock=ports.clock,
            logs=self._logs,
            request_sync=self._commits.request,
            remove_later=self._housekeeping.remove_later,
            propose=self._proposals.propose,
            follow=self._fetchers.follow,
            traffic=None if self.registry is None else Traffic(self.registry),
        )
        ask_broker = self._broker_channel(identity, apis).ask
        return Broker(
            node_id=identity.node_id,
            cluster_id=identity.cluster_id,
            listener_name=listener_name,
            config=effective_broker_config(self._quorum.feed.image, config),
            clock=ports.clock,
            rng=ports.rng,
            spawner=ports.spawner,
            authorizer=AllowAll(),
            apis=apis,
            partitions=partitions,
            controller=self._controller,
            channel=channel,
            producer_ids=ProducerIds(channel, identity.node_id, self._broker_epoch),
            groups=group_coordinator(
                config=config,
                clock=ports.clock,
                spawner=ports.spawner,
                partitions=partitions,
                ask_broker=ask_broker,
            ),
            transactions=self._transaction_coordinator(identity, partitions, ask_broker, tally),
            transaction_partitions=self._transaction_partitions(ask_broker, tally),
            image=self._quorum.feed.image,
            on_configured=self._housekeeping.configure,
            tally=tally,
        )


def _told(listener: NodeListener, where: Endpoint) -> Listener:
    return Listener(listener.name, where.host, where.port, PLAINTEXT)
