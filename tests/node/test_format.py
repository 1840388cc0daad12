from __future__ import annotations

import random

import pytest

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import UnusableDirectory
from odradek.base.ids import BrokerId, uuid_text
from odradek.metadata.bootstrap import (
    BOOTSTRAP_CHECKPOINT,
    METADATA_LOG_DIRECTORY,
    VOTERS_CHECKPOINT,
    decode_bootstrap,
    decode_voters,
)
from odradek.node.format import META_PROPERTIES, DirectoryIdentity, decode_identity, open_directory
from odradek.protocol.metadata_records import FeatureLevelRecord
from odradek.quorum.voters import Endpoint


class Clock:
    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ms(self) -> int:
        return 0


class Rng:
    def __init__(self) -> None:
        self._random = random.Random(1)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def opened(disk, node_id=1, **options) -> DirectoryIdentity:
    return open_directory(disk, node_id=BrokerId(node_id), clock=Clock(), rng=Rng(), **options)


def test_a_new_directory_is_formatted_once():
    disk = MemoryDisk()
    identity = opened(disk)
    assert disk.listdir("") == [METADATA_LOG_DIRECTORY, BOOTSTRAP_CHECKPOINT, META_PROPERTIES]
    assert opened(disk) == identity
    assert opened(disk, cluster_id=identity.cluster_id) == identity


def test_what_a_formatted_directory_holds():
    disk = MemoryDisk()
    endpoints = (Endpoint("CONTROLLER", "localhost", 9093),)
    identity = opened(disk, cluster_id="my-cluster", controller_endpoints=endpoints)
    assert disk.read(META_PROPERTIES).decode().splitlines() == [
        "cluster.id=my-cluster",
        f"directory.id={uuid_text(identity.directory_id)}",
        "node.id=1",
        "version=1",
    ]
    (voter,) = decode_voters(disk.read(VOTERS_CHECKPOINT)).voters
    assert voter.key == (1, identity.directory_id)
    assert voter.endpoints == endpoints
    assert decode_bootstrap(disk.read(BOOTSTRAP_CHECKPOINT)) == (
        FeatureLevelRecord(name="metadata.version", feature_level=25),
    )


def test_a_directory_of_another_node_or_cluster_is_refused():
    disk = MemoryDisk()
    opened(disk)
    with pytest.raises(UnusableDirectory, match="belongs to node 1, this is node 2"):
        opened(disk, node_id=2)
    with pytest.raises(UnusableDirectory, match="not to other"):
        opened(disk, cluster_id="other")


@pytest.mark.parametrize("done", range(3))
def test_formatting_cut_short_is_done_again(done):
    disk = MemoryDisk()
    if done > 0:
        disk.make_dir(METADATA_LOG_DIRECTORY)
        disk.replace(VOTERS_CHECKPOINT, b"")
    if done > 1:
        disk.replace(BOOTSTRAP_CHECKPOINT, b"half")
    identity = opened(disk)
    assert decode_identity(disk.read(META_PROPERTIES)) == identity


@pytest.mark.parametrize("path", ["orders-0", f"{METADATA_LOG_DIRECTORY}/00000000000000000000.log"])
def test_data_without_an_identity_is_not_formatted_away(path):
    disk = MemoryDisk()
    if path == "orders-0":
        disk.make_dir(path)
    else:
        disk.make_dir(METADATA_LOG_DIRECTORY)
        disk.replace(path, b"")
    with pytest.raises(UnusableDirectory, match="not formatting it"):
        opened(disk)


@pytest.mark.parametrize(
    "content", [b"", b"version=0\ncluster.id=c\nnode.id=1", b"version=1\ncluster.id=c\nnode.id=x\ndirectory.id=y"]
)
def test_a_broken_meta_properties_is_refused(content):
    disk = MemoryDisk()
    disk.replace(META_PROPERTIES, content)
    with pytest.raises(UnusableDirectory, match=r"meta\.properties"):
        opened(disk)


def test_kafkas_own_meta_properties_is_read():
    text = (
        b"#\n#Sun Nov 15 06:13:52 UTC 2026\nnode.id=1\ndirectory.id=tLXHAoVYScyPmAM8YUpUiw\nversion=1\ncluster.id=c\n"
    )
    assert decode_identity(text).node_id == 1
