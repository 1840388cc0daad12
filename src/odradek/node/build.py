"""A node: every room put together on a set of ports, in the order in which they can be trusted.

Start: the directory says whose it is; the metadata log is replayed; the logs are opened and recovered; the port is
bound; the broker registers, which ends every leader epoch of its life before; only then is anything served.
"""

from __future__ import annotations

import logging

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId, random_uuid
from odradek.base.ports import Ports
from odradek.controller.brokers import Registration
from odradek.controller.decision import Decision
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.metadata.configs.in_force import effective_topic_config, not_honoured
from odradek.metadata.image import ClusterImage, Listener
from odradek.node.config import Endpoint, NodeConfig
from odradek.node.format import DirectoryIdentity, open_directory
from odradek.quorum.timing import QuorumTiming
from odradek.quorum.voters import Endpoint as VoterEndpoint
from odradek.quorum.voters import Voter, VoterKey
from odradek.replication.log_config import log_config
from odradek.replication.partition_table import PartitionTable
from odradek.security.authorizer import AllowAll
from odradek.server.active_controller import ActiveController
from odradek.server.api.table import load_apis
from odradek.server.broker import Broker
from odradek.server.coordination import GroupCoordination
from odradek.server.dispatch import Dispatcher
from odradek.server.group_commit import GroupCommit
from odradek.server.housekeeping import Housekeeping
from odradek.server.listener import ClientListener, ConnectionLimits
from odradek.server.metadata_quorum import Member, MetadataQuorum
from odradek.server.peers import Peers
from odradek.server.producer_ids import ProducerIds
from odradek.server.registration import join_cluster

logger = logging.getLogger(__name__)

PLAINTEXT = 0


class Node:
    def __init__(self, config: NodeConfig, ports: Ports) -> None:
        if config.client_listener is None or not config.is_alone:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "nodes that make up a cluster together are not supported yet")
        self._config = config
        self._listener = config.client_listener
        self._ports = ports
        self._logs = LogDirectory(ports.disk, ports.rng)
        self._clients = ClientListener(
            ports.net,
            ConnectionLimits(
                request_bytes_max=config.broker.socket_request_max_bytes,
                idle_ms_max=config.broker.connections_max_idle_ms,
            ),
        )
        self._commits = GroupCommit(ports.spawner)
        self._housekeeping = Housekeeping(
            config=config.broker,
            clock=ports.clock,
            spawner=ports.spawner,
            logs=self._logs,
            commits=self._commits,
        )
        self._quorum: MetadataQuorum
        self._controller: ActiveController
        self._broker: Broker
        self._broker_epoch = -1

    @property
    def port(self) -> int:
        return self._clients.port

    async def start(self) -> None:
        """Returns when clients are served."""
        identity = await self._ports.spawner.blocking(self._open_directory)
        self._quorum = self._new_quorum(identity)
        self._controller = ActiveController(self._quorum)
        await self._quorum.start()
        await self._controller.submit(_nothing_new)
        for sentence in not_honoured(self._quorum.feed.image):
            logger.warning(sentence)
        await self._ports.spawner.blocking(self._logs.load, self._log_config_of, self._ports.clock.wall_ms())
        await self._clients.bind(self._listener.bind.host, self._listener.bind.port)
        self._broker_epoch = await join_cluster(self._controller, self._registration(identity))
        self._broker = self._new_broker(identity)
        # No await between the first image and the subscription: a commit in between would be missed.
        image = self._quorum.feed.image
        self._broker.partitions.start(image)
        self._broker.groups.apply(image, image.as_delta())
        self._quorum.feed.subscribe(self._broker.apply)
        self._housekeeping.start(self._broker.partitions)
        self._clients.serve(Dispatcher(self._broker).handle)

    async def stop(self) -> None:
        """Everything accepted is answered and on disk; the next start scans nothing."""
        await self._clients.stop_accepting()
        self._broker.groups.stop()
        self._broker.answer_parked_fetches()
        await self._clients.stop()
        await self._housekeeping.stop()
        self._controller.stop_deciding()
        await self._quorum.stop()
        await self._ports.spawner.blocking(self._logs.close, self._broker_epoch)

    async def abandon(self) -> None:
        """After a failure, be it of `start`: nobody is served any more, and the disk stays as a crash leaves it."""
        await self._clients.abandon()

    def _open_directory(self) -> DirectoryIdentity:
        return open_directory(
            self._ports.disk, node_id=self._config.node_id, clock=self._ports.clock, rng=self._ports.rng
        )

    def _new_quorum(self, identity: DirectoryIdentity) -> MetadataQuorum:
        ports = self._ports
        peers = Peers(
            net=ports.net,
            clock=ports.clock,
            spawner=ports.spawner,
            resolve=self._controller_endpoint,
            client_id=f"node-{identity.node_id}",
        )
        member = Member(
            voter=Voter(key=VoterKey(identity.node_id, identity.directory_id)),
            cluster_id=identity.cluster_id,
            timing=QuorumTiming(),
        )
        return MetadataQuorum(member, ports, peers)

    def _controller_endpoint(self, node_id: BrokerId) -> VoterEndpoint | None:
        return self._quorum.endpoint_of(node_id)

    def _log_config_of(self, topic: str) -> LogConfig:
        effective = effective_topic_config(self._quorum.feed.image, topic, self._config.broker)
        return log_config(effective, self._config.broker)

    def _registration(self, identity: DirectoryIdentity) -> Registration:
        # When clients are told nothing else, they come to where the node listens, on the port it was given.
        where = self._listener.advertised or Endpoint(host=self._listener.bind.host, port=self._clients.port)
        return Registration(
            broker_id=identity.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=random_uuid(self._ports.rng),
            listeners=(Listener(self._listener.name, where.host, where.port, PLAINTEXT),),
            directories=(identity.directory_id,),
            rack=self._config.rack,
        )

    def _new_broker(self, identity: DirectoryIdentity) -> Broker:
        config, ports = self._config.broker, self._ports
        partitions = PartitionTable(
            config=config,
            clock=ports.clock,
            logs=self._logs,
            request_sync=self._commits.request,
            remove_later=self._housekeeping.remove_later,
        )
        return Broker(
            node_id=identity.node_id,
            cluster_id=identity.cluster_id,
            config=config,
            clock=ports.clock,
            rng=ports.rng,
            spawner=ports.spawner,
            authorizer=AllowAll(),
            apis=load_apis(),
            partitions=partitions,
            controller=self._controller,
            producer_ids=ProducerIds(self._controller, identity.node_id, self._broker_epoch),
            groups=GroupCoordination(config=config, clock=ports.clock, spawner=ports.spawner, partitions=partitions),
            image=self._quorum.feed.image,
        )


def _nothing_new(_image: ClusterImage) -> Decision[None]:
    """Answered once everything in the log is committed."""
    return Decision(response=None)
