"""Parses Kafka's keys into a node's typed settings. Refuses unsupported keys by name.

A single node, broker and only voter, needs no controller listener. In a cluster, each controller has one,
and each node knows some controllers to start with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from odradek.base.ids import BrokerId
from odradek.metadata.configs.broker import BrokerConfig
from odradek.node.listeners import (
    PLAINTEXT,
    Endpoint,
    NodeListener,
    VoterAddress,
    parse_bind,
    parse_listeners,
    parse_protocols,
    parse_server,
    parse_voter,
    refused,
    require_reachable,
)
from odradek.node.properties import parse_properties, parse_toml

if TYPE_CHECKING:
    from odradek.export.destinations import Destinations

T = TypeVar("T")
R = TypeVar("R")

__all__ = ["Endpoint", "NodeConfig", "NodeListener", "VoterAddress"]

BROKER, CONTROLLER = "broker", "controller"
# Distance of the HTTP port from that of the first listener: 9092 and 9644.
HTTP_PORT_DISTANCE = 552
_PORT_MAX = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    node_id: BrokerId
    # BROKER, CONTROLLER, or both.
    roles: tuple[str, ...]
    # Only on a broker: for clients and other brokers.
    client_listener: NodeListener | None
    # Only on a controller of a cluster: for voters, observers and brokers. Its port is never 0.
    controller_listener: NodeListener | None
    # The name of the listener of voters, on brokers too.
    controller_listener_name: str
    # controller.quorum.voters; may be empty.
    voters: tuple[VoterAddress, ...]
    # Where to find the leader of the metadata log while no voters are known; empty on a single node.
    bootstrap_servers: tuple[Endpoint, ...]
    # Address of the HTTP server; None: no HTTP.
    http: Endpoint | None
    # Collectors to which it pushes its metrics; None: it pushes none.
    push: Destinations | None
    data_dir: str
    rack: str | None
    # The settings that handlers and coordinators use.
    broker: BrokerConfig

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles

    @property
    def listeners(self) -> tuple[NodeListener, ...]:
        return tuple(listener for listener in (self.client_listener, self.controller_listener) if listener)

    @property
    def is_alone(self) -> bool:
        """Broker and only voter. Such a node formats its directory itself."""
        return not self.bootstrap_servers

    @classmethod
    def parse(cls, settings: Mapping[str, str] | None = None) -> NodeConfig:
        """Raises KafkaError with INVALID_CONFIG. Its message names each invalid key and what to do."""
        _refuse_two_ids(settings or {})
        broker = BrokerConfig.parse(settings or {})
        clients, controllers = _listeners(broker)
        voters = tuple(parse_voter("controller.quorum.voters", text) for text in broker.controller_quorum_voters)
        controller_listener = _controller_listener(broker, controllers, voters)
        _require_quorum(broker, controller_listener, voters)
        if len(broker.log_dirs) != 1 or not broker.log_dirs[0]:
            raise refused("log.dirs must be exactly one directory: several are not supported yet")
        return cls(
            node_id=BrokerId(broker.node_id),
            roles=broker.process_roles,
            client_listener=_client_listener(broker, clients),
            controller_listener=controller_listener,
            controller_listener_name=_controller_names(broker)[0] if broker.controller_listener_names else "",
            voters=voters,
            bootstrap_servers=_bootstrap_servers(broker, voters),
            http=_http(broker, clients or controllers),
            push=_push(broker),
            data_dir=broker.log_dirs[0],
            rack=broker.broker_rack,
            broker=broker,
        )

    @classmethod
    def from_properties(cls, text: str) -> NodeConfig:
        """A file such as Kafka's server.properties."""
        return cls.parse(parse_properties(text))

    @classmethod
    def from_toml(cls, text: str) -> NodeConfig:
        """The same keys in TOML: `log.retention.hours = 24`, or in tables."""
        return cls.parse(parse_toml(text))


def _refuse_two_ids(settings: Mapping[str, str]) -> None:
    if settings.get("broker.id", settings.get("node.id")) != settings.get("node.id", settings.get("broker.id")):
        raise refused("node.id and broker.id differ: broker.id is the older name of node.id, remove it")


def _http(broker: BrokerConfig, listeners: Sequence[NodeListener]) -> Endpoint | None:
    if broker.http_listener is not None:
        return parse_bind("http.listener", broker.http_listener) if broker.http_listener else None
    port = listeners[0].bind.port if listeners else 0
    port = port + HTTP_PORT_DISTANCE if 0 < port <= _PORT_MAX - HTTP_PORT_DISTANCE else 0
    return Endpoint(host="127.0.0.1", port=port)


def _push(broker: BrokerConfig) -> Destinations | None:
    if not (broker.metrics_otlp_endpoint or broker.metrics_dogstatsd_address or broker.metrics_push_labels):
        return None
    from odradek.export.destinations import Destinations, parse_dogstatsd, parse_labels, parse_otlp

    return Destinations(
        otlp=_destination("metrics.otlp.endpoint", parse_otlp, broker.metrics_otlp_endpoint),
        dogstatsd=_destination("metrics.dogstatsd.address", parse_dogstatsd, broker.metrics_dogstatsd_address),
        every_s=broker.metrics_push_interval_ms / 1000,
        labels=_destination("metrics.push.labels", parse_labels, broker.metrics_push_labels) or {},
    )


def _destination(key: str, parse: Callable[[T], R], written: T | None) -> R | None:
    from odradek.export.destinations import BadDestination

    try:
        return parse(written) if written else None
    except BadDestination as wrong:
        raise refused(f"{key}: {wrong}") from wrong


def _controller_names(broker: BrokerConfig) -> tuple[str, ...]:
    return tuple(name.upper() for name in broker.controller_listener_names)


def _listeners(broker: BrokerConfig) -> tuple[Sequence[NodeListener], Sequence[NodeListener]]:
    """For clients, and for controllers."""
    names = _controller_names(broker)
    # As in Kafka, the map needs no entry for a controller listener.
    protocols = dict.fromkeys(names, PLAINTEXT) | parse_protocols(broker.listener_security_protocol_map)
    listeners = parse_listeners(broker.listeners, broker.advertised_listeners, protocols)
    clients = [listener for listener in listeners if listener.name not in names]
    controllers = [listener for listener in listeners if listener.name in names]
    return clients, controllers


def _client_listener(broker: BrokerConfig, listeners: Sequence[NodeListener]) -> NodeListener | None:
    if BROKER not in broker.process_roles:
        if listeners:
            raise refused(
                f"listeners: {listeners[0].name} is for clients, but process.roles makes this node a controller "
                "only; name it in controller.listener.names or remove it"
            )
        return None
    if len(listeners) != 1:
        raise refused("listeners must be exactly one for clients, PLAINTEXT://host:port: several are not supported yet")
    between_brokers = (broker.inter_broker_listener_name or listeners[0].name).upper()
    if between_brokers != listeners[0].name:
        raise refused(
            f"inter.broker.listener.name: brokers use the client listener {listeners[0].name} for each other, not "
            f"{between_brokers}"
        )
    require_reachable(listeners[0])
    return listeners[0]


def _controller_listener(
    broker: BrokerConfig, listeners: Sequence[NodeListener], voters: Sequence[VoterAddress]
) -> NodeListener | None:
    if CONTROLLER not in broker.process_roles:
        if listeners:
            raise refused(f"listeners: {listeners[0].name} is for controllers, but this node is only a broker")
        return None
    if not broker.controller_listener_names:
        return None
    if len(listeners) != 1 or len(broker.controller_listener_names) != 1:
        raise refused(
            f"controller.listener.names must name exactly one of listeners, not {','.join(_controller_names(broker))}"
        )
    listener = listeners[0]
    if listener.bind.port == 0:
        raise refused(f"listeners: {listener.name} needs a fixed port: voters find each other by it")
    known = {voter.node_id: voter.endpoint for voter in voters}
    listener = replace(listener, advertised=listener.advertised or known.get(broker.node_id))
    require_reachable(listener)
    return listener


def _require_quorum(
    broker: BrokerConfig, controller_listener: NodeListener | None, voters: Sequence[VoterAddress]
) -> None:
    named = bool(voters or broker.controller_quorum_bootstrap_servers)
    ids = [voter.node_id for voter in voters]
    if len(dict.fromkeys(ids)) != len(ids):
        raise refused("controller.quorum.voters names a voter twice")
    if CONTROLLER not in broker.process_roles:
        if not named or not broker.controller_listener_names:
            raise refused(
                "a broker that is not a controller needs controller.quorum.bootstrap.servers and "
                "controller.listener.names to find the controllers"
            )
        if broker.node_id in ids:
            raise refused(f"controller.quorum.voters names node {broker.node_id}, which is only a broker")
        if broker.controller_quorum_auto_join_enable:
            raise refused("controller.quorum.auto.join.enable is for controllers, but this node is only a broker")
    elif controller_listener is None:
        if named or BROKER not in broker.process_roles:
            raise refused("a controller of a cluster needs a listener: name it in controller.listener.names")
    elif not named:
        raise refused("controller.listener.names is set: set controller.quorum.bootstrap.servers, too")
    elif voters and broker.node_id not in ids:
        raise refused(f"controller.quorum.voters does not name this node, {broker.node_id}, which is a controller")


def _bootstrap_servers(broker: BrokerConfig, voters: Sequence[VoterAddress]) -> tuple[Endpoint, ...]:
    key = "controller.quorum.bootstrap.servers"
    given = tuple(parse_server(key, text) for text in broker.controller_quorum_bootstrap_servers)
    return given or tuple(voter.endpoint for voter in voters)
