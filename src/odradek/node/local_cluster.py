"""Several nodes on one machine: who they are, where they listen, and what their directories were told.

Under one directory: `1/`, `2/`, … with a node's records each, and beside them `1.properties`, `2.properties`, …, which
remember the ports. `forming.properties` is there from the first plan until every directory is formatted, so that a
formation that was cut short goes on with the same ids; afterwards an empty directory is a lost disk, and no voter.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from odradek.base.errors import UnusableDirectory
from odradek.base.ids import BrokerId, DirectoryId, random_uuid, uuid_text
from odradek.node.config import NodeConfig
from odradek.node.format import META_PROPERTIES, AlreadyFormatted, among
from odradek.node.initial_voters import parse_initial_voters, write_initial_voters
from odradek.node.listeners import Endpoint
from odradek.node.machine import format_on_machine, machine_rng
from odradek.node.properties import parse_properties, write_properties
from odradek.quorum import voters as quorum

CONTROLLER_LISTENER = "CONTROLLER"
# Where controllers listen, seen from where clients come: high enough to be out of the way.
CONTROLLER_PORT_DISTANCE = 10_000
_FORMING = "forming.properties"
_PORT_MAX = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    node_id: int
    clients: Endpoint
    controllers: Endpoint
    data: Path
    properties: Path


def free_port(host: str) -> int:
    with socket.socket(_family(host)) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def local_nodes(
    count: int,
    directory: Path,
    host: str,
    port: int,
    overrides: Mapping[str, str],
    *,
    choose_port: Callable[[str], int] = free_port,
) -> list[LocalNode]:
    """The nodes under `directory`, formatted and with their properties written: ready to be started.

    With port 0, clients come where they came last time, or to ports that `choose_port` finds.
    """
    directory = directory.absolute()
    _refuse_others(count, directory)
    directory.mkdir(parents=True, exist_ok=True)
    node_ids = range(1, count + 1)
    nodes = [_node(node_id, directory, host, port and port + node_id - 1, choose_port) for node_id in node_ids]
    settings = [_settings(node, nodes, overrides) for node in nodes]
    configs = [NodeConfig.parse(entry) for entry in settings]
    formed = nodes[-1].properties.exists() and not (directory / _FORMING).exists()
    plan = None if formed else _plan(directory, nodes)
    for node, entry in zip(nodes, settings, strict=True):
        _write(node.properties, entry)
    if plan is not None:
        for node, config in zip(nodes, configs, strict=True):
            _format(node, config, plan)
        (directory / _FORMING).unlink()
    return nodes


def holds_several(directory: Path) -> bool:
    return (directory / "1.properties").exists() or (directory / _FORMING).exists()


def _refuse_others(count: int, directory: Path) -> None:
    if (directory / META_PROPERTIES).exists():
        raise UnusableDirectory(f"{directory} holds the records of a node alone; choose another with --data")
    existing = len(list(directory.glob("[0-9]*.properties")))
    forming = (directory / _FORMING).exists()
    if existing not in (0, count) and not forming:
        raise UnusableDirectory(f"{directory} holds a cluster of {existing} nodes; start it with -n {existing}")


def _node(node_id: int, directory: Path, host: str, port: int, choose_port: Callable[[str], int]) -> LocalNode:
    properties = directory / f"{node_id}.properties"
    remembered = NodeConfig.from_properties(properties.read_text()) if properties.exists() else None
    if remembered and remembered.client_listener and remembered.controller_listener:
        clients, controllers = remembered.client_listener.bind, remembered.controller_listener.bind
        if port:
            clients = Endpoint(host=host, port=port)
    else:
        wanted = port + CONTROLLER_PORT_DISTANCE if port else 0
        clients = Endpoint(host=host, port=port or choose_port(host))
        controllers = Endpoint(host=host, port=wanted if _is_free(host, wanted) else choose_port(host))
    return LocalNode(
        node_id=node_id,
        clients=clients,
        controllers=controllers,
        data=directory / str(node_id),
        properties=properties,
    )


def _is_free(host: str, port: int) -> bool:
    if not 0 < port <= _PORT_MAX:
        return False
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _settings(node: LocalNode, nodes: list[LocalNode], overrides: Mapping[str, str]) -> dict[str, str]:
    return {
        **overrides,
        "node.id": str(node.node_id),
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{node.clients},{CONTROLLER_LISTENER}://{node.controllers}",
        "controller.listener.names": CONTROLLER_LISTENER,
        "controller.quorum.bootstrap.servers": ",".join(str(peer.controllers) for peer in nodes),
        "log.dirs": str(node.data),
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
            )
        )
        plan = {"cluster.id": uuid_text(random_uuid(rng)), "initial.controllers": write_initial_voters(voters)}
        _write(forming, plan)
    return parse_properties(forming.read_text())


def _format(node: LocalNode, config: NodeConfig, plan: Mapping[str, str]) -> None:
    voters = parse_initial_voters(plan["initial.controllers"], CONTROLLER_LISTENER)
    formatting = among(config.node_id, voters, cluster_id=plan["cluster.id"])
    try:
        format_on_machine(node.data, config.node_id, formatting)
    except AlreadyFormatted:
        return


def _write(path: Path, values: dict[str, str]) -> None:
    """Whole or not at all."""
    aside = path.with_name(path.name + ".new")
    with aside.open("w") as file:
        file.write(write_properties(values))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
