"""What makes machines a cluster: settings that name each other, and disks that were formatted together."""

from __future__ import annotations

from random import Random

from odradek.base.ids import BrokerId, DirectoryId, random_uuid, uuid_text
from odradek.node.format import among, format_directory, joining
from odradek.quorum.voters import Endpoint, Voter, VoterKey, VoterSet
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs
from odradek.sim.knobs import Knobs
from odradek.sim.ports import SimClock
from odradek.sim.randomness import SimRng

CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
_CONTROLLER = "CONTROLLER"


def address_of(number: int) -> tuple[str, int]:
    return (f"10.0.0.{number}", CLIENT_PORT)


def controller_endpoint(number: int) -> tuple[str, int]:
    return (address_of(number)[0], CONTROLLER_PORT)


def settings_of(number: int, knobs: Knobs) -> dict[str, str]:
    """The settings of one node; a single node has no cluster settings."""
    host, port = address_of(number)
    listener = f"PLAINTEXT://{host}:{port}"
    if knobs.nodes == 1:
        return {**knobs.broker, "listeners": listener}
    roles = knobs.roles[number - 1]
    listeners = [listener] if "broker" in roles else []
    if "controller" in roles:
        listeners.append(f"{_CONTROLLER}://{host}:{CONTROLLER_PORT}")
    return {
        **knobs.broker,
        **({"broker.rack": rack_of(number)} if knobs.racks else {}),
        "node.id": str(number),
        "process.roles": ",".join(roles),
        "listeners": ",".join(listeners),
        "controller.listener.names": _CONTROLLER,
        "controller.quorum.bootstrap.servers": ",".join(
            f"{address_of(voter)[0]}:{CONTROLLER_PORT}" for voter in voters_of(knobs)
        ),
    }


def rack_of(number: int) -> str:
    return f"rack {number % 2}"


def voters_of(knobs: Knobs) -> list[int]:
    return [number for number, roles in enumerate(knobs.roles, start=1) if "controller" in roles]


def draw_voters(rng: Random, knobs: Knobs) -> tuple[str, VoterSet]:
    """The id of the cluster, and its first voters."""
    ids = SimRng(rng)
    voters = tuple(
        Voter(
            key=VoterKey(BrokerId(number), DirectoryId(random_uuid(ids))),
            endpoints=(Endpoint(_CONTROLLER, address_of(number)[0], CONTROLLER_PORT),),
        )
        for number in voters_of(knobs)
    )
    return uuid_text(random_uuid(ids)), VoterSet(voters)


def format_disk(disk: SimDisk, number: int, cluster_id: str, voters: VoterSet | None, clock: SimClock) -> DirectoryId:
    """As an operator does before the first start. Without voters: a new disk for a node that has lost its own."""
    node_id = BrokerId(number)
    formatting = (
        among(node_id, voters, cluster_id=cluster_id)
        if voters is not None and voters.has_id(node_id)
        else joining(SimRng(disk.rng), cluster_id=cluster_id)
    )
    knobs, disk.knobs = disk.knobs, DiskKnobs()
    identity = format_directory(disk.mount(), node_id, formatting, clock)
    disk.kill()
    disk.knobs = knobs
    return identity.directory_id
