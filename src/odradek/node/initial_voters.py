"""Parses initial controllers in the form of kafka-storage: `1@host:port:directory-id,2@…`."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.ids import BrokerId, DirectoryId, uuid_from_text, uuid_text
from odradek.node.config import NodeConfig, VoterAddress
from odradek.node.listeners import Endpoint as Address
from odradek.node.listeners import parse_voter, refused
from odradek.quorum.voters import Endpoint, Voter, VoterKey, VoterSet


def parse_initial_voters(text: str, listener_name: str) -> VoterSet:
    """Raises KafkaError with INVALID_CONFIG."""
    voters = tuple(_voter(entry.strip(), listener_name) for entry in text.split(","))
    _refuse_twins("node", [voter.key.voter_id for voter in voters])
    _refuse_twins("directory", [voter.key.directory_id for voter in voters])
    return VoterSet(voters)


def write_initial_voters(voters: VoterSet) -> str:
    return ",".join(
        f"{voter.key.voter_id}@{Address(host=endpoint.host, port=endpoint.port)}:{uuid_text(voter.key.directory_id)}"
        for voter in voters.voters
        for endpoint in voter.endpoints
    )


def require_agreement(voters: VoterSet, config: NodeConfig) -> None:
    """Refuses initial controllers that contradict the node's configuration."""
    written = {(voter.node_id, voter.endpoint.host, voter.endpoint.port) for voter in config.voters}
    given = {(voter.key.voter_id, e.host, e.port) for voter in voters.voters for e in voter.endpoints}
    if written and written != given:
        raise refused("the initial controllers are not those of controller.quorum.voters")
    listener = config.controller_listener
    if listener is None:
        raise refused("only a controller can be among the initial controllers: see process.roles")
    own = (config.node_id, listener.reached_at.host, listener.reached_at.port)
    if any(voter.key.voter_id == config.node_id for voter in voters.voters) and own not in given:
        raise refused(
            f"node {config.node_id} has address {listener.reached_at} in its configuration, "
            "but another one in the initial controllers"
        )


def own_endpoints(config: NodeConfig) -> tuple[Endpoint, ...]:
    """This node's endpoints in a voter set."""
    listener = config.controller_listener
    if listener is None:
        return ()
    return (Endpoint(listener.name, listener.reached_at.host, listener.reached_at.port),)


def _refuse_twins(what: str, ids: Sequence[object]) -> None:
    if len(dict.fromkeys(ids)) != len(ids):
        raise refused(f"two of the initial controllers have the same {what} id")


def _voter(entry: str, listener_name: str) -> Voter:
    address_text, _, directory = entry.rpartition(":")
    address: VoterAddress = parse_voter("initial controllers", address_text)
    try:
        directory_id = DirectoryId(uuid_from_text(directory))
    except ValueError as broken:
        raise refused(f"initial controllers: {entry} does not end with a directory id ({broken})") from broken
    return Voter(
        key=VoterKey(BrokerId(address.node_id), directory_id),
        endpoints=(Endpoint(listener_name, address.endpoint.host, address.endpoint.port),),
    )
