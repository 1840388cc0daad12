"""What a node is built from: Kafka's keys in, typed settings out. A key that is not honoured is refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId
from odradek.metadata.configs.broker import BrokerConfig

_LISTENER = re.compile(r"([A-Za-z0-9_]+)://(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:/]*)):([0-9]{1,5})")
_EVERY_INTERFACE = ("", "0.0.0.0", "::")  # noqa: S104


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    node_id: BrokerId
    # Where to listen; an empty host is every interface, port 0 a free port.
    listener: Endpoint
    # What clients are told, or None: where the node listens, once its port is known.
    advertised: Endpoint | None
    data_dir: str
    rack: str | None
    # What the handlers and coordinators read.
    broker: BrokerConfig

    @classmethod
    def parse(cls, settings: Mapping[str, str] | None = None) -> NodeConfig:
        """Raises KafkaError with INVALID_CONFIG; its message names the key and what to do."""
        broker = BrokerConfig.parse(settings or {})
        listener = _single("listeners", broker.listeners)
        advertised = (
            _single("advertised.listeners", broker.advertised_listeners) if broker.advertised_listeners else None
        )
        if advertised is None and listener.host in _EVERY_INTERFACE:
            raise _refused(
                "listeners binds every interface: set advertised.listeners to the address that clients reach"
            )
        if advertised is not None and advertised.host in _EVERY_INTERFACE:
            raise _refused("advertised.listeners must name a host that clients can reach")
        if len(broker.log_dirs) != 1 or not broker.log_dirs[0]:
            raise _refused("log.dirs must be exactly one directory: several are not supported yet")
        return cls(
            node_id=BrokerId(broker.node_id),
            listener=listener,
            advertised=advertised,
            data_dir=broker.log_dirs[0],
            rack=broker.broker_rack,
            broker=broker,
        )


def _single(key: str, listeners: tuple[str, ...]) -> Endpoint:
    if len(listeners) != 1:
        raise _refused(f"{key} must be exactly one PLAINTEXT://host:port: several are not supported yet")
    matched = _LISTENER.fullmatch(listeners[0])
    if not matched or int(matched[4]) > 65535:
        raise _refused(f"{key}: {listeners[0]} is not of the form PLAINTEXT://host:port")
    if matched[1].upper() != "PLAINTEXT":
        raise _refused(f"{key}: {matched[1]} is not supported yet, only PLAINTEXT")
    return Endpoint(host=matched[2] or matched[3], port=int(matched[4]))


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
