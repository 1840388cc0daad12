"""A data directory's identity: `meta.properties`, and what a new directory needs to start as the only voter.

The same files as `kafka-storage format --standalone` writes: the initial voters in the metadata log's first checkpoint,
the bootstrap records in `bootstrap.checkpoint`. `meta.properties` comes last: without it nothing was formatted.
"""

from __future__ import annotations

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
from odradek.quorum.voters import Endpoint, Voter, VoterKey, VoterSet

META_PROPERTIES = "meta.properties"
_VERSION = "1"


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


def open_directory(
    disk: Disk,
    *,
    node_id: BrokerId,
    clock: Clock,
    rng: Rng,
    cluster_id: str | None = None,
    controller_endpoints: tuple[Endpoint, ...] = (),
) -> DirectoryIdentity:
    """Slow. Formats an empty directory, checks that any other is this node's. No cluster id: any, or a new one."""
    if not disk.exists(META_PROPERTIES):
        _refuse_foreign_data(disk)
        return _format(disk, node_id, clock, rng, cluster_id, controller_endpoints)
    identity = decode_identity(disk.read(META_PROPERTIES))
    if identity.node_id != node_id:
        raise UnusableDirectory(f"the directory belongs to node {identity.node_id}, this is node {node_id}")
    if cluster_id is not None and identity.cluster_id != cluster_id:
        raise UnusableDirectory(f"the directory belongs to cluster {identity.cluster_id}, not to {cluster_id}")
    return identity


def decode_identity(data: bytes) -> DirectoryIdentity:
    lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
    values = dict(line.partition("=")[::2] for line in lines if line and not line.startswith("#"))
    try:
        if values["version"] != _VERSION:
            raise UnusableDirectory(
                f"meta.properties has version {values['version']}, {_VERSION} is the one understood"
            )
        return DirectoryIdentity(
            cluster_id=values["cluster.id"],
            node_id=BrokerId(int(values["node.id"])),
            directory_id=DirectoryId(uuid_from_text(values["directory.id"])),
        )
    except (KeyError, ValueError) as broken:
        raise UnusableDirectory(f"meta.properties lacks or garbles {broken}") from broken


def _refuse_foreign_data(disk: Disk) -> None:
    """Formatting may have been cut short; its own leavings are no data."""
    for name in disk.listdir(""):
        if name == METADATA_LOG_DIRECTORY:
            leavings = all(not entry.endswith(".log") for entry in disk.listdir(name))
        else:
            leavings = name.startswith(BOOTSTRAP_CHECKPOINT) or "meta.properties" in name or not _looks_like_a_log(name)
        if not leavings:
            raise UnusableDirectory(f"the directory has no meta.properties, yet it holds {name}: not formatting it")


def _looks_like_a_log(name: str) -> bool:
    topic, _, partition = name.rpartition("-")
    return bool(topic) and partition.isdecimal()


def _format(
    disk: Disk,
    node_id: BrokerId,
    clock: Clock,
    rng: Rng,
    cluster_id: str | None,
    controller_endpoints: tuple[Endpoint, ...],
) -> DirectoryIdentity:
    identity = DirectoryIdentity(
        cluster_id=cluster_id or uuid_text(random_uuid(rng)),
        node_id=node_id,
        directory_id=DirectoryId(random_uuid(rng)),
    )
    voter = Voter(key=VoterKey(node_id, identity.directory_id), endpoints=controller_endpoints)
    now_ms = clock.wall_ms()
    if not disk.exists(METADATA_LOG_DIRECTORY):
        disk.make_dir(METADATA_LOG_DIRECTORY)
        disk.sync_dir("")
    disk.replace(VOTERS_CHECKPOINT, encode_voters(VoterSet((voter,)), now_ms))
    disk.replace(BOOTSTRAP_CHECKPOINT, encode_bootstrap(bootstrap_records(), now_ms))
    disk.replace(META_PROPERTIES, identity.encode())
    return identity
