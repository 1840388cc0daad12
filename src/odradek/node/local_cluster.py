"""Prepares several nodes on one machine: ids, ports, properties and formatted directories.

One directory holds `1/`, `2/`, … with the data of each node, and `1.properties`, `2.properties`, … with ports, settings
and edits of users. `forming.properties` exists until every directory is formatted, so that an interrupted formation
continues with the same ids. Afterwards an empty directory is a lost disk and is not formatted again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from odradek.base.errors import UnusableDirectory
from odradek.base.ids import BrokerId, DirectoryId, random_uuid, uuid_text
from odradek.node.config import BROKER, CONTROLLER, NodeConfig
from odradek.node.format import META_PROPERTIES, AlreadyFormatted, among, joining
from odradek.node.initial_voters import parse_initial_voters, write_initial_voters
from odradek.node.listeners import Endpoint
from odradek.node.machine import format_on_machine, machine_rng
from odradek.node.properties import amend_properties, parse_properties, write_properties
from odradek.node.tcp_ports import PortTaken, free_port, is_free, require_free
from odradek.quorum import voters as quorum

CONTROLLER_LISTENER = "CONTROLLER"
# Distance of a controller's port from the client port: high enough to avoid conflicts.
CONTROLLER_PORT_DISTANCE = 10_000
LOOPBACK = "127.0.0.1"
OTHER_PORTS = "choose other ports with --port"
_FORMING = "forming.properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    node_id: int
    # Only on a broker.
    clients: Endpoint | None
    # Only on a controller.
    controllers: Endpoint | None
    data: Path
    properties: Path

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(endpoint for endpoint in (self.clients, self.controllers) if endpoint)

    @property
    def roles(self) -> str:
        return ",".join(role for role, where in ((BROKER, self.clients), (CONTROLLER, self.controllers)) if where)


def local_nodes(
    count: int,
    directory: Path,
    host: str | None,
    port: int,
    overrides: Mapping[str, str],
    *,
    controllers: int = 0,
    own: Mapping[int, Mapping[str, str]] = MappingProxyType({}),
    before: Mapping[int, Mapping[str, str]] = MappingProxyType({}),
    choose_port: Callable[[str], int] = free_port,
) -> list[LocalNode]:
    """Formats the directories of all nodes and writes their properties.

    Each node is broker and controller, unless there are separate `controllers`: those come after the brokers. Without a
    host and with port 0, nodes keep the client ports of the last start, or get ports from `choose_port`. Settings have
    this precedence, highest first: `own` (of one node), `overrides`, `before`.
    """
    directory = directory.absolute()
    choose_port = _each_once(choose_port)
    roles = [f"{BROKER},{CONTROLLER}"] * count if not controllers else [BROKER] * count + [CONTROLLER] * controllers
    _refuse_others(len(roles), directory)
    nodes = [
        _node(node_id, role, directory, host, port and port + node_id - 1, choose_port)
        for node_id, role in enumerate(roles, start=1)
    ]
    _require_free(nodes)
    settings = [
        {
            **before.get(node.node_id, {}),
            **overrides,
            **own.get(node.node_id, {}),
            **_place(node, nodes, keep_listeners=host is None and not port),
        }
        for node in nodes
    ]
    configs = [NodeConfig.parse(entry) for entry in settings]
    formed = nodes[-1].properties.exists() and not (directory / _FORMING).exists()
    directory.mkdir(parents=True, exist_ok=True)
    plan = None if formed else _plan(directory, nodes)
    for node, entry in zip(nodes, settings, strict=True):
        _write_settings(node.properties, entry)
    if plan is not None:
        for node, config in zip(nodes, configs, strict=True):
            _format(node, config, plan)
        (directory / _FORMING).unlink()
    return nodes


def _each_once(choose_port: Callable[[str], int]) -> Callable[[str], int]:
    """Never returns a port twice: a chosen port stays free until a node listens on it."""
    chosen: set[int] = set()

    def another(host: str) -> int:
        port = choose_port(host)
        while port in chosen:
            port = choose_port(host)
        chosen.add(port)
        return port

    return another


def remembered(directory: Path) -> dict[int, dict[str, str]]:
    """The properties of each node under `directory`."""
    files = directory.glob("[0-9]*.properties")
    return {int(file.stem): parse_properties(file.read_text()) for file in files if file.stem.isdecimal()}


def holds_several(directory: Path) -> bool:
    return (directory / "1.properties").exists() or (directory / _FORMING).exists()


def _refuse_others(count: int, directory: Path) -> None:
    if (directory / META_PROPERTIES).exists():
        raise UnusableDirectory(f"{directory} holds the data of a single node; choose another directory with --data")
    existing = len(list(directory.glob("[0-9]*.properties")))
    forming = (directory / _FORMING).exists()
    if existing not in (0, count) and not forming:
        raise UnusableDirectory(f"{directory} holds a cluster of {existing} nodes; start it with -n {existing}")


def _require_free(nodes: Iterable[LocalNode]) -> None:
    """Checks all ports first. Otherwise one node would fail on a taken port while the others run without it."""
    owners: dict[Endpoint, int] = {}
    for node in nodes:
        for where in node.endpoints:
            by_option = where == node.clients
            require_free(where, OTHER_PORTS if by_option else f"change this port in listeners of {node.properties}")
            if where in owners:
                raise PortTaken(f"node {owners[where]} listens on {where} already: {OTHER_PORTS}")
            owners[where] = node.node_id


def _node(
    node_id: int, roles: str, directory: Path, host: str | None, port: int, choose_port: Callable[[str], int]
) -> LocalNode:
    properties = directory / f"{node_id}.properties"
    clients: Endpoint | None = None
    controllers: Endpoint | None = None
    if properties.exists():
        remembered = NodeConfig.from_properties(properties.read_text())
        if ",".join(remembered.roles) != roles:
            raise UnusableDirectory(f"{directory} holds a cluster whose node {node_id} is {','.join(remembered.roles)}")
        if remembered.client_listener:
            bind = remembered.client_listener.bind
            clients = Endpoint(host=bind.host if host is None else host, port=port or bind.port)
        if remembered.controller_listener:
            controllers = remembered.controller_listener.bind
    else:
        host = host or LOOPBACK
        if BROKER in roles:
            clients = Endpoint(host=host, port=port or choose_port(host))
        if CONTROLLER in roles:
            wanted = Endpoint(host=host, port=port + CONTROLLER_PORT_DISTANCE if port else 0)
            controllers = wanted if is_free(wanted) else Endpoint(host=host, port=choose_port(host))
    return LocalNode(
        node_id=node_id,
        clients=clients,
        controllers=controllers,
        data=directory / str(node_id),
        properties=properties,
    )


def _place(node: LocalNode, nodes: list[LocalNode], *, keep_listeners: bool) -> dict[str, str]:
    """Settings that depend on directory and ports. Written at each start, so that the directory can be moved."""
    identity = {"node.id": str(node.node_id), "process.roles": node.roles, "log.dirs": str(node.data)}
    if keep_listeners and node.properties.exists():
        return identity
    listeners = [f"PLAINTEXT://{node.clients}"] if node.clients else []
    if node.controllers:
        listeners.append(f"{CONTROLLER_LISTENER}://{node.controllers}")
    return {
        **identity,
        "listeners": ",".join(listeners),
        "controller.listener.names": CONTROLLER_LISTENER,
        "controller.quorum.bootstrap.servers": ",".join(str(peer.controllers) for peer in nodes if peer.controllers),
    }


def _plan(directory: Path, nodes: list[LocalNode]) -> dict[str, str]:
    """The ids of the cluster and of each directory: those of an interrupted formation, or new ones."""
    forming = directory / _FORMING
    if not forming.exists():
        rng = machine_rng()
        voters = quorum.VoterSet(
            tuple(
                quorum.Voter(
                    key=quorum.VoterKey(BrokerId(node.node_id), DirectoryId(random_uuid(rng))),
                    endpoints=(quorum.Endpoint(CONTROLLER_LISTENER, node.controllers.host, node.controllers.port),),
                )
                for node in nodes
                if node.controllers
            )
        )
        plan = {"cluster.id": uuid_text(random_uuid(rng)), "initial.controllers": write_initial_voters(voters)}
        _write(forming, plan)
    return parse_properties(forming.read_text())


def _format(node: LocalNode, config: NodeConfig, plan: Mapping[str, str]) -> None:
    cluster_id = plan["cluster.id"]
    if config.is_controller:
        voters = parse_initial_voters(plan["initial.controllers"], CONTROLLER_LISTENER)
        formatting = among(config.node_id, voters, cluster_id=cluster_id)
    else:
        formatting = joining(machine_rng(), cluster_id=cluster_id)
    try:
        format_on_machine(node.data, config.node_id, formatting)
    except AlreadyFormatted:
        return


def _write_settings(path: Path, values: dict[str, str]) -> None:
    """An existing file keeps its comments and order; keys that no longer apply are removed."""
    text = path.read_text() if path.exists() else ""
    known = parse_properties(text)
    if values != known:
        kept = known.keys() <= values.keys()
        _write_text(path, amend_properties(text, values) if kept else write_properties(values))


def _write(path: Path, values: dict[str, str]) -> None:
    _write_text(path, write_properties(values))


def _write_text(path: Path, text: str) -> None:
    """Writes the file atomically."""
    aside = path.with_name(path.name + ".new")
    with aside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
