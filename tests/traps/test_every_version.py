"""Every advertised version works: each API in each version, encoded and decoded by kio, on one real connection."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import pytest

from odradek.metadata.configs.client_metrics import INTERVAL_MS_DEFAULT
from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.p11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.p14_sync_group import SyncGroupRequest
from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.p25_add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.p28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.p35_describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.p42_delete_groups import DeleteGroupsRequest
from odradek.server.api.table import load_apis
from odradek.telemetry.subscriptions import Wanted, subscription_id
from traps import kio_wire
from traps.wire import Wire, batch

SERVED = [(key, version) for key, api in load_apis().items() for version in range(api.versions[0], api.versions[1] + 1)]
NEWER_THAN_KIO = {(18, 5), (28, 6), (42, 3)}
INSTANCE = uuid.UUID(int=99)

MEMBER_ID_REQUIRED, ELECTION_NOT_NEEDED, BROKER_ID_NOT_REGISTERED = 79, 84, 102


def expected_error(key: int, version: int) -> int:
    if key == 11 and version >= 4:
        return MEMBER_ID_REQUIRED
    return {43: ELECTION_NOT_NEEDED, 64: BROKER_ID_NOT_REGISTERED}.get(key, 0)


def plausible(key: int, here: SimpleNamespace) -> dict[str, object]:
    """A request that succeeds, with the fields of all versions."""
    topic = {"name": here.topic, "topic": here.topic, "topic_id": here.topic_id}
    group = {"group_id": here.group, "member_id": here.member, "generation_id": 1}
    config = {"resource_type": 2, "resource_name": here.topic}
    producer = {"producer_id": here.producer_id, "producer_epoch": 0, "transactional_id": here.transactional_id}
    joining = {"name": here.topic, "partitions": [0]}
    return {
        0: {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [{**topic, "partition_data": [{"index": 0, "records": bytes(batch(b"smoke"))}]}],
        },
        1: {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "topics": [{**topic, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        },
        2: {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{**topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
            "timeout_ms": 5000,
        },
        3: {
            "topics": [{**topic, "topic_id": None}],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        },
        8: {
            **group,
            "generation_id_or_member_epoch": 1,
            "retention_time_ms": -1,
            "topics": [
                {
                    **topic,
                    "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "here"}],
                }
            ],
        },
        9: {
            "group_id": here.empty_group,
            "topics": [{**topic, "partition_indexes": [0]}],
            "groups": [{"group_id": here.empty_group, "topics": [{**topic, "partition_indexes": [0]}]}],
            "require_stable": True,
        },
        10: {"key": here.group, "key_type": 0, "coordinator_keys": [here.group]},
        11: {
            **group,
            "member_id": "",
            "group_id": f"{here.group}-new",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        12: group,
        13: {**group, "members": [{"member_id": here.member, "group_instance_id": None, "reason": "smoke"}]},
        14: {
            **group,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": here.member, "assignment": b"all of it"}],
        },
        15: {"groups": [here.group], "include_authorized_operations": True},
        16: {"states_filter": [], "types_filter": []},
        18: {"client_software_name": "kio", "client_software_version": "0.6"},
        19: {
            "topics": [
                {
                    "name": f"{here.topic}-new",
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [{"name": "retention.ms", "value": "60000"}],
                }
            ],
            "timeout_ms": 5000,
        },
        20: {"topics": [{"name": here.topic, "topic_id": None}], "topic_names": [here.topic], "timeout_ms": 5000},
        21: {"topics": [{**topic, "partitions": [{"partition_index": 0, "offset": 1}]}], "timeout_ms": 5000},
        22: {"transactional_id": None, "transaction_timeout_ms": 0},
        23: {
            "replica_id": -1,
            "topics": [{**topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}],
        },
        24: {
            "transactions": [{**producer, "verify_only": False, "topics": [joining]}],
            **{f"v3_and_below_{name}": value for name, value in producer.items()},
            "v3_and_below_topics": [joining],
        },
        25: {**producer, "group_id": here.group},
        26: {**producer, "committed": True},
        27: {
            "markers": [
                {
                    "producer_id": here.producer_id,
                    "producer_epoch": 0,
                    "transaction_result": False,
                    "topics": [{"name": here.topic, "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                    "transaction_version": 0,
                }
            ]
        },
        28: {
            **producer,
            "group_id": here.group,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {**topic, "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}
            ],
        },
        32: {
            "resources": [{**config, "configuration_keys": None}],
            "include_synonyms": True,
            "include_documentation": True,
        },
        33: {"resources": [{**config, "configs": [{"name": "retention.ms", "value": "1000"}]}], "validate_only": False},
        34: {"dirs": [{"path": here.directory, "topics": [{**topic, "partitions": [0]}]}]},
        35: {"topics": [{**topic, "partitions": [0]}]},
        37: {"topics": [{**topic, "count": 2, "assignments": None}], "timeout_ms": 5000, "validate_only": False},
        42: {"groups_names": [here.empty_group]},
        43: {"election_type": 0, "topic_partitions": [{**topic, "partitions": [0]}], "timeout_ms": 5000},
        44: {
            "resources": [
                {**config, "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]},
            ],
            "validate_only": False,
        },
        45: {
            "timeout_ms": 5000,
            "allow_replication_factor_change": True,
            "topics": [{**topic, "partitions": [{"partition_index": 0, "replicas": [1]}]}],
        },
        46: {"timeout_ms": 5000, "topics": [{**topic, "partition_indexes": [0]}]},
        47: {
            "group_id": here.empty_group,
            "topics": [{**topic, "partitions": [{"partition_index": 0}]}],
        },
        57: {
            "timeout_ms": 5000,
            "feature_updates": [
                {"feature": "eligible.leader.replicas.version", "max_version_level": 1, "allow_downgrade": False}
            ],
            "validate_only": True,
        },
        60: {"include_cluster_authorized_operations": True, "endpoint_type": 1, "include_fenced_brokers": True},
        61: {"topics": [{**topic, "partition_indexes": [0]}]},
        64: {"broker_id": 99},
        71: {"client_instance_id": None},
        72: {
            "client_instance_id": INSTANCE,
            "subscription_id": subscription_id(Wanted((), INTERVAL_MS_DEFAULT), INSTANCE.bytes),
            "terminating": False,
            "compression_type": 0,
            "metrics": b"",
        },
        65: {"transactional_ids": [here.transactional_id]},
        66: {
            "state_filters": [],
            "producer_id_filters": [here.producer_id],
            "duration_filter": -1,
            "transactional_id_pattern": None,
        },
        74: {"resource_types": []},
        75: {"topics": [topic], "response_partition_limit": 100, "cursor": None},
    }[key]


@pytest.fixture
def here(wire, topic):
    """A topic with two records, a stable group of one member, a group that has only offsets, an open transaction."""
    wire.produce(topic, batch(b"one", b"two"))
    group, empty_group = f"{topic}-group", f"{topic}-empty"
    wire.ask(FindCoordinatorRequest(key=group), 2)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    join = JoinGroupRequest(group_id=group, session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols)
    joined = wire.ask(join, 0)
    wire.ask(SyncGroupRequest(group_id=group, generation_id=1, member_id=joined.member_id), 0)
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    assert wire.ask(OffsetCommitRequest(group_id=empty_group, topics=topics), 2).topics[0].partitions[0].error_code == 0
    transactional_id = f"{topic}-id"
    wire.ask(FindCoordinatorRequest(key=transactional_id, key_type=1), 2)
    init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    producer_id = wire.ask(init, 4).producer_id
    offsets = AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=0, group_id=group
    )
    assert wire.ask(offsets, 3).error_code == 0
    return SimpleNamespace(
        transactional_id=transactional_id,
        producer_id=producer_id,
        topic=topic,
        topic_id=uuid.UUID(bytes=wire.topic_id(topic)),
        group=group,
        empty_group=empty_group,
        member=joined.member_id,
        directory=wire.ask(DescribeLogDirsRequest(topics=[]), 1).results[0].log_dir,
    )


@pytest.mark.parametrize(("key", "version"), [pair for pair in SERVED if pair not in NEWER_THAN_KIO])
def test_reply_of_each_version_of_each_api_is_read_by_kio(wire, here, key, version):
    answer = kio_wire.ask(wire, key, version, plausible(key, here))
    expected = expected_error(key, version)
    assert [code for code in kio_wire.errors_in(answer) if code] == ([expected] if expected else [])
    kio_wire.ask_api_versions_by_hand(wire)


def test_replies_of_versions_that_kio_lacks(wire, here):
    assert {pair for pair in SERVED if not kio_wire.knows(*pair)} == NEWER_THAN_KIO
    hello = ApiVersionsRequest(client_software_name="trap", client_software_version="1")
    assert wire.ask(hello, 5).error_code == 0
    assert wire.ask(DeleteGroupsRequest(groups_names=[here.empty_group]), 3).results[0].error_code == 0
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = TxnOffsetCommitRequestTopic(topic_id=here.topic_id.bytes, partitions=[partition])
    offsets = TxnOffsetCommitRequest(
        transactional_id=here.transactional_id, producer_id=here.producer_id, group_id=here.group, topics=[topic]
    )
    assert wire.ask(offsets, 6).topics[0].partitions[0].error_code == 0


def test_versions_just_outside_the_served_range_are_refused(broker):
    """T8. The client never gets a reply in an unexpected format."""
    for key, api in load_apis().items():
        for version in (api.versions[0] - 1, api.versions[1] + 1):
            if key == 18:
                continue
            with Wire(broker.port) as wire:
                wire.send_frame(key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + bytes(40))
                assert wire.is_closed(), (key, version)
