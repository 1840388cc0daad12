"""Several nodes on one machine: who they are, where they listen, and what their directories were told.

Under one directory: `1/`, `2/`, … with a node's records each, and beside them `1.properties`, `2.properties`, …, which
remember the ports and what people wrote into them. `forming.properties` is there from the first plan until every
directory is formatted, so that a formation that was cut short goes on with the same ids; afterwards an empty directory
is a lost disk, and no voter.
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
# Where controllers listen, seen from where clients come: high enough to be out of the way.
CONTROLLER_PORT_DISTANCE = 10_000
LOOPBACK = "127.0.0.1"
_FORMING = "forming.properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    node_id: int
    # Of a broker.
    clients: Endpoint | None
    # Of a controller.
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
    """The nodes under `directory`, formatted and with their properties written: ready to be started.

    Each is broker and controller, unless there are `controllers` of their own: they come after the brokers. Without a
    host and with port 0, clients come where they came last time, or to ports that `choose_port` finds. `own` are
    settings of one node. `before` has what counts for a node where neither `overrides` nor `own` say otherwise.
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
    """A port is free for the next one, too, until somebody listens there."""
    chosen: set[int] = set()

    def another(host: str) -> int:
        port = choose_port(host)
        while port in chosen:
            port = choose_port(host)
        chosen.add(port)
        return port

    return another


def remembered(directory: Path) -> dict[int, dict[str, str]]:
    """What the properties of each node under `directory` say."""
    files = directory.glob("[0-9]*.properties")
    return {int(file.stem): parse_properties(file.read_text()) for file in files if file.stem.isdecimal()}


def holds_several(directory: Path) -> bool:
    return (directory / "1.properties").exists() or (directory / _FORMING).exists()


def _refuse_others(count: int, directory: Path) -> None:
    if (directory / META_PROPERTIES).exists():
        raise UnusableDirectory(f"{directory} holds the records of a node alone; choose another with --data")
    existing = len(list(directory.glob("[0-9]*.properties")))
    forming = (directory / _FORMING).exists()
    if existing not in (0, count) and not forming:
        raise UnusableDirectory(f"{directory} holds a cluster of {existing} nodes; start it with -n {existing}")


def _require_free(nodes: Iterable[LocalNode]) -> None:
    """Or the one that finds its port taken would end alone, and the others go on without it."""
    owners: dict[Endpoint, int] = {}
    for node in nodes:
        for where in node.endpoints:
            require_free(where)
            if where in owners:
                raise PortTaken(f"node {owners[where]} listens on {where} already: name other ports")
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
    """What follows from the directory and its ports. A moved or copied directory is a cluster of its own place."""
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
    """The ids of the cluster and of each directory: those of the formation that was cut short, or new ones."""
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
    """A file that is there keeps its comments and its order; a key that counts no longer goes."""
    text = path.read_text() if path.exists() else ""
    known = parse_properties(text)
    if values != known:
        kept = known.keys() <= values.keys()
        _write_text(path, amend_properties(text, values) if kept else write_properties(values))


def _write(path: Path, values: dict[str, str]) -> None:
    _write_text(path, write_properties(values))


def _write_text(path: Path, text: str) -> None:
    """Whole or not at all."""
    aside = path.with_name(path.name + ".new")
    with aside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
