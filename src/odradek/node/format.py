"""Formats data directories: `meta.properties`, and the files that a new directory needs.

The same files as `kafka-storage format` writes: the initial voters in the metadata log's first checkpoint (none in the
directory of a node that joins later), the bootstrap records in `bootstrap.checkpoint`. `meta.properties` is written
last: without it the directory is not formatted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from odradek.base.errors import UnusableDirectory
from odradek.base.ids import BrokerId, DirectoryId, random_uuid, uuid_from_text, uuid_text
from odradek.base.ports import Clock, Disk, Rng
from odradek.metadata.bootstrap import (
    BOOTSTRAP_CHECKPOINT,
    METADATA_LOG_DIRECTORY,
    VOTERS_CHECKPOINT,
    encode_bootstrap,
    encode_voters,
)
from odradek.metadata.features import bootstrap_records
from odradek.node.listeners import refused
from odradek.node.properties import parse_properties
from odradek.quorum.voters import Endpoint, Voter, VoterKey, VoterSet

META_PROPERTIES = "meta.properties"
_VERSION = "1"


class AlreadyFormatted(UnusableDirectory):
    """Formatting a directory again would erase the votes and the log of a voter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryIdentity:
    cluster_id: str
    node_id: BrokerId
    directory_id: DirectoryId

    def encode(self) -> bytes:
        lines = (
            f"cluster.id={self.cluster_id}",
            f"directory.id={uuid_text(self.directory_id)}",
            f"node.id={self.node_id}",
            f"version={_VERSION}",
        )
        return "\n".join((*lines, "")).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatting:
    """The content of a new directory."""

    cluster_id: str
    directory_id: DirectoryId
    # The initial voters; None: this node learns the voters from the others.
    voters: VoterSet | None


def require_cluster_id(text: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text):
        raise refused(f"{text!r} is not a cluster id. Create one with: odradek cluster id")


def standalone(
    node_id: BrokerId, rng: Rng, *, cluster_id: str | None = None, controller_endpoints: tuple[Endpoint, ...] = ()
) -> Formatting:
    """For the only voter. Creates a cluster id unless one is given."""
    directory_id = DirectoryId(random_uuid(rng))
    voter = Voter(key=VoterKey(node_id, directory_id), endpoints=controller_endpoints)
    return Formatting(
        cluster_id=cluster_id or uuid_text(random_uuid(rng)), directory_id=directory_id, voters=VoterSet((voter,))
    )


def among(node_id: BrokerId, voters: VoterSet, *, cluster_id: str) -> Formatting:
    """For one of several initial voters. Format all of them with the same list of voters."""
    own = [key for key in voters.keys if key.voter_id == node_id]
    if not own:
        known = ", ".join(str(key.voter_id) for key in voters.keys)
        raise refused(f"node {node_id} is not among the initial controllers {known}")
    return Formatting(cluster_id=cluster_id, directory_id=own[0].directory_id, voters=voters)


def joining(rng: Rng, *, cluster_id: str) -> Formatting:
    """For a broker, or a controller that is not a voter yet."""
    return Formatting(cluster_id=cluster_id, directory_id=DirectoryId(random_uuid(rng)), voters=None)


def open_directory(
    disk: Disk,
    *,
    node_id: BrokerId,
    clock: Clock,
    rng: Rng,
    cluster_id: str | None = None,
    controller_endpoints: tuple[Endpoint, ...] = (),
) -> DirectoryIdentity:
    """Slow. Formats an empty directory; checks that any other belongs to this node. Without a cluster id, takes any."""
    if not disk.exists(META_PROPERTIES):
        alone = standalone(node_id, rng, cluster_id=cluster_id, controller_endpoints=controller_endpoints)
        return format_directory(disk, node_id, alone, clock)
    identity = open_formatted(disk, node_id=node_id)
    if cluster_id is not None and identity.cluster_id != cluster_id:
        raise UnusableDirectory(f"the directory belongs to cluster {identity.cluster_id}, not to {cluster_id}")
    return identity


def open_formatted(disk: Disk, *, node_id: BrokerId) -> DirectoryIdentity:
    """Slow. For a cluster node: an unformatted directory is a lost or wrong disk and must not become an empty voter."""
    if not disk.exists(META_PROPERTIES):
        raise UnusableDirectory("the directory is not formatted. Format it with: odradek node format")
    identity = decode_identity(disk.read(META_PROPERTIES))
    if identity.node_id != node_id:
        raise UnusableDirectory(f"the directory belongs to node {identity.node_id}, this is node {node_id}")
    return identity


def format_directory(disk: Disk, node_id: BrokerId, formatting: Formatting, clock: Clock) -> DirectoryIdentity:
    """Slow."""
    if disk.exists(META_PROPERTIES):
        identity = decode_identity(disk.read(META_PROPERTIES))
        raise AlreadyFormatted(
            f"the directory is formatted already, for node {identity.node_id} of {identity.cluster_id}"
        )
    _refuse_foreign_data(disk)
    now_ms = clock.wall_ms()
    if not disk.exists(METADATA_LOG_DIRECTORY):
        disk.make_dir(METADATA_LOG_DIRECTORY)
        disk.sync_dir("")
    if formatting.voters is not None:
        disk.replace(VOTERS_CHECKPOINT, encode_voters(formatting.voters, now_ms))
    elif disk.exists(VOTERS_CHECKPOINT):
        disk.remove(VOTERS_CHECKPOINT)
        disk.sync_dir(METADATA_LOG_DIRECTORY)
    disk.replace(BOOTSTRAP_CHECKPOINT, encode_bootstrap(bootstrap_records(), now_ms))
    identity = DirectoryIdentity(
        cluster_id=formatting.cluster_id, node_id=node_id, directory_id=formatting.directory_id
    )
    disk.replace(META_PROPERTIES, identity.encode())
    return identity


def decode_identity(data: bytes) -> DirectoryIdentity:
    values = parse_properties(data.decode(errors="replace"))
    try:
        if values["version"] != _VERSION:
            raise UnusableDirectory(
                f"meta.properties has version {values['version']}, but only {_VERSION} is supported"
            )
        return DirectoryIdentity(
            cluster_id=values["cluster.id"],
            node_id=BrokerId(int(values["node.id"])),
            directory_id=DirectoryId(uuid_from_text(values["directory.id"])),
        )
    except (KeyError, ValueError) as broken:
        raise UnusableDirectory(f"meta.properties has missing or invalid values: {broken}") from broken


def _refuse_foreign_data(disk: Disk) -> None:
    """Refuses a directory with data. Files of an interrupted formatting are not data."""
    for name in disk.listdir(""):
        if name == METADATA_LOG_DIRECTORY:
            leavings = all(not entry.endswith(".log") for entry in disk.listdir(name))
        else:
            leavings = name.startswith(BOOTSTRAP_CHECKPOINT) or "meta.properties" in name or not _looks_like_a_log(name)
        if not leavings:
            raise UnusableDirectory(f"the directory has no meta.properties, but it holds {name}: not formatting it")


def _looks_like_a_log(name: str) -> bool:
    topic, _, partition = name.rpartition("-")
    return bool(topic) and partition.isdecimal()
