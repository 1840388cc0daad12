from __future__ import annotations

import random

import pytest

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import KafkaError, UnusableDirectory
from odradek.base.ids import BrokerId, uuid_from_text, uuid_text
from odradek.metadata.bootstrap import (
    BOOTSTRAP_CHECKPOINT,
    METADATA_LOG_DIRECTORY,
    VOTERS_CHECKPOINT,
    decode_bootstrap,
    decode_voters,
)
from odradek.node.config import NodeConfig
from odradek.node.format import (
    META_PROPERTIES,
    AlreadyFormatted,
    DirectoryIdentity,
    among,
    decode_identity,
    format_directory,
    joining,
    open_directory,
    open_formatted,
    require_cluster_id,
)
from odradek.node.initial_voters import own_endpoints, parse_initial_voters, require_agreement
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


def test_files_of_a_formatted_directory():
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
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
    )


def test_a_directory_of_another_node_or_cluster_is_refused():
    disk = MemoryDisk()
    opened(disk)
    with pytest.raises(UnusableDirectory, match="belongs to node 1, this is node 2"):
        opened(disk, node_id=2)
    with pytest.raises(UnusableDirectory, match="not to other"):
        opened(disk, cluster_id="other")


@pytest.mark.parametrize("done", range(3))
def test_interrupted_formatting_is_repeated(done):
    disk = MemoryDisk()
    if done > 0:
        disk.make_dir(METADATA_LOG_DIRECTORY)
        disk.replace(VOTERS_CHECKPOINT, b"")
    if done > 1:
        disk.replace(BOOTSTRAP_CHECKPOINT, b"half")
    identity = opened(disk)
    assert decode_identity(disk.read(META_PROPERTIES)) == identity


@pytest.mark.parametrize("path", ["orders-0", f"{METADATA_LOG_DIRECTORY}/00000000000000000000.log"])
def test_a_directory_with_data_but_no_identity_is_not_formatted(path):
    disk = MemoryDisk()
    if path == "orders-0":
        disk.make_dir(path)
    else:
        disk.make_dir(METADATA_LOG_DIRECTORY)
        disk.replace(path, b"")
    with pytest.raises(UnusableDirectory, match="not formatting it"):
        opened(disk)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version=1\ncluster.id=c\nnode.id=1",
        b"version=0\ncluster.id=c\nnode.id=1\ndirectory.id=tLXHAoVYScyPmAM8YUpUiw",
        b"version=1\ncluster.id=c\nnode.id=x\ndirectory.id=y",
    ],
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


A, B, C = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA"
THREE = f"1@one:9093:{A},2@[::1]:9093:{B},3@three:9094:{C}"


def voters_of(text=THREE):
    return parse_initial_voters(text, "CONTROLLER")


def node(node_id=2, **more):
    return NodeConfig.parse(
        {
            "node.id": str(node_id),
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://[::1]:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "one:9093",
            **more,
        }
    )


def test_several_initial_voters_with_their_directories():
    disk = MemoryDisk()
    identity = format_directory(disk, BrokerId(2), among(BrokerId(2), voters_of(), cluster_id="c"), Clock())
    assert identity == DirectoryIdentity(cluster_id="c", node_id=BrokerId(2), directory_id=uuid_from_text(B))
    assert open_formatted(disk, node_id=BrokerId(2)) == identity
    voters = decode_voters(disk.read(VOTERS_CHECKPOINT)).voters
    assert [voter.key for voter in voters] == [(1, uuid_from_text(A)), (2, uuid_from_text(B)), (3, uuid_from_text(C))]
    assert [voter.endpoints for voter in voters] == [
        (Endpoint("CONTROLLER", "one", 9093),),
        (Endpoint("CONTROLLER", "::1", 9093),),
        (Endpoint("CONTROLLER", "three", 9094),),
    ]


def test_a_joining_node_is_formatted_without_voters():
    disk = MemoryDisk()
    disk.make_dir(METADATA_LOG_DIRECTORY)
    disk.replace(VOTERS_CHECKPOINT, b"of a formatting that was cut short")
    format_directory(disk, BrokerId(4), joining(Rng(), cluster_id="c"), Clock())
    assert not disk.exists(VOTERS_CHECKPOINT)
    assert disk.exists(BOOTSTRAP_CHECKPOINT)


def test_a_directory_is_formatted_once():
    disk = MemoryDisk()
    opened(disk, cluster_id="c")
    before = disk.read(VOTERS_CHECKPOINT)
    with pytest.raises(AlreadyFormatted, match="for node 1 of c"):
        format_directory(disk, BrokerId(1), joining(Rng(), cluster_id="d"), Clock())
    assert disk.read(VOTERS_CHECKPOINT) == before


def test_a_cluster_node_refuses_an_unformatted_directory():
    """It could vote a second time in an epoch in which it has voted already."""
    disk = MemoryDisk()
    with pytest.raises(UnusableDirectory, match="not formatted"):
        open_formatted(disk, node_id=BrokerId(1))
    assert disk.listdir("") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"1@one:9093:{A},1@two:9093:{B}", "same node id"),
        (f"1@one:9093:{A},2@two:9093:{A}", "same directory id"),
        ("1@one:9093", "id@host:port"),
        ("1@one:9093:nonsense", "does not end with a directory id"),
        (f"one:9093:{A}", "id@host:port"),
        ("", "id@host:port"),
    ],
)
def test_invalid_initial_controllers_are_refused(text, said):
    with pytest.raises(KafkaError, match=said):
        voters_of(text)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (node(**{"controller.quorum.voters": "1@one:9093,2@[::1]:9093"}), "not those of controller.quorum.voters"),
        (node(3), "has address .* another"),
        (node(**{"process.roles": "broker", "listeners": "PLAINTEXT://localhost:9092"}), "only a controller"),
    ],
)
def test_initial_controllers_must_agree_with_the_configuration(config, said):
    with pytest.raises(KafkaError, match=said):
        require_agreement(voters_of(), config)


def test_a_voters_own_endpoint_equals_its_endpoint_in_the_voter_set():
    require_agreement(voters_of(), node())
    assert own_endpoints(node()) == voters_of().voters[1].endpoints
    assert own_endpoints(NodeConfig.parse()) == ()


def test_a_node_outside_the_initial_controllers_is_refused():
    with pytest.raises(KafkaError, match="node 4 is not among the initial controllers 1, 2, 3"):
        among(BrokerId(4), voters_of(), cluster_id="c")


@pytest.mark.parametrize("text", ["", "a b", "a\nnode.id=9", "x" * 65])
def test_an_invalid_cluster_id_is_refused(text):
    with pytest.raises(KafkaError, match="is not a cluster id"):
        require_cluster_id(text)
