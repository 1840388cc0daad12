"""Parses `listeners`, `advertised.listeners` and the keys that refer to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.hosts import host_problem

PLAINTEXT = "PLAINTEXT"
_PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ADDRESS = r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:/@,\s]*)):([0-9]{1,5})"
_LISTENER = re.compile(rf"([A-Za-z0-9_]+)://{_ADDRESS}")
_SERVER = re.compile(_ADDRESS)
_VOTER = re.compile(rf"([0-9]{{1,10}})@{_ADDRESS}")
_EVERY_INTERFACE = ("", "0.0.0.0", "::")  # noqa: S104
_PORT_MAX = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeListener:
    name: str
    # The address to bind; an empty host means every interface, port 0 a free port.
    bind: Endpoint
    # The advertised address; None: the bound address, once its port is known.
    advertised: Endpoint | None

    @property
    def reached_at(self) -> Endpoint:
        return self.advertised or self.bind


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterAddress:
    """An entry of `controller.quorum.voters`: a voter's id and address, without its directory id."""

    node_id: int
    endpoint: Endpoint


def refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def parse_listeners(
    listeners: Sequence[str], advertised: Sequence[str], protocols: Mapping[str, str]
) -> tuple[NodeListener, ...]:
    bound = _by_name("listeners", listeners, protocols)
    told = _by_name("advertised.listeners", advertised, protocols)
    for name, endpoint in told.items():
        if name not in bound:
            raise refused(f"advertised.listeners: {name} is not among listeners ({', '.join(bound)})")
        if endpoint.host in _EVERY_INTERFACE:
            raise refused("advertised.listeners must name a host that clients can reach")
    return tuple(NodeListener(name=name, bind=bind, advertised=told.get(name)) for name, bind in bound.items())


def require_reachable(listener: NodeListener) -> None:
    if listener.advertised is None and listener.bind.host in _EVERY_INTERFACE:
        raise refused(
            f"listeners binds every interface for {listener.name}: set advertised.listeners to the address that "
            "others reach"
        )


def parse_protocols(entries: Sequence[str]) -> dict[str, str]:
    """`listener.security.protocol.map`: listener name to protocol."""
    protocols = {}
    for entry in entries:
        name, colon, protocol = entry.partition(":")
        if not colon or not name:
            raise refused(f"listener.security.protocol.map: {entry} is not of the form LISTENER:PROTOCOL")
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_server(key: str, text: str) -> Endpoint:
    matched = _SERVER.fullmatch(text)
    if not matched:
        raise refused(f"{key}: {text} is not of the form host:port")
    return _endpoint(key, text, matched[1] or matched[2], matched[3])


def parse_bind(key: str, text: str) -> Endpoint:
    """Parses the address to bind: an empty host means every interface, port 0 a free port."""
    matched = _SERVER.fullmatch(text)
    if not matched or int(matched[3]) > _PORT_MAX:
        raise refused(f"{key}: {text} is not of the form host:port")
    return Endpoint(host=_host(key, matched[1] or matched[2]), port=int(matched[3]))


def parse_voter(key: str, text: str) -> VoterAddress:
    matched = _VOTER.fullmatch(text)
    if not matched:
        raise refused(f"{key}: {text} is not of the form id@host:port")
    return VoterAddress(node_id=int(matched[1]), endpoint=_endpoint(key, text, matched[2] or matched[3], matched[4]))


def _by_name(key: str, written: Sequence[str], protocols: Mapping[str, str]) -> dict[str, Endpoint]:
    endpoints: dict[str, Endpoint] = {}
    for text in written:
        matched = _LISTENER.fullmatch(text)
        if not matched or int(matched[4]) > _PORT_MAX:
            raise refused(f"{key}: {text} is not of the form PLAINTEXT://host:port")
        name = matched[1].upper()
        if name in endpoints:
            raise refused(f"{key}: {name} is listed twice")
        protocol = protocols.get(name, name)
        if protocol not in _PROTOCOLS:
            raise refused(f"{key}: listener.security.protocol.map has no protocol for {name}; add {name}:PLAINTEXT")
        if protocol != PLAINTEXT:
            raise refused(f"{key}: {protocol} is not supported yet, only PLAINTEXT")
        endpoints[name] = Endpoint(host=_host(key, matched[2] or matched[3]), port=int(matched[4]))
    return endpoints


def _endpoint(key: str, text: str, host: str, port: str) -> Endpoint:
    if host in _EVERY_INTERFACE or not 0 < int(port) <= _PORT_MAX:
        raise refused(f"{key}: {text} must name a host and a port that other nodes can reach")
    return Endpoint(host=_host(key, host), port=int(port))


def _host(key: str, host: str) -> str:
    problem = host_problem(host) if host else None
    if problem is not None:
        raise refused(f"{key}: {host!r} cannot be a host name: {problem}")
    return host
