"""Every handler checks permissions: each API of the table is asked about a resource that no client may access."""

import asyncio
import inspect

import pytest

from odradek.base.errors import ErrorCode
from odradek.coordinator.transaction.states import State
from odradek.coordinator.transaction.transaction import Transaction
from odradek.protocol.error_codes import NAMES
from odradek.protocol.messages import (
    p00_produce,
    p01_fetch,
    p02_list_offsets,
    p03_metadata,
    p08_offset_commit,
    p09_offset_fetch,
    p10_find_coordinator,
    p11_join_group,
    p12_heartbeat,
    p13_leave_group,
    p14_sync_group,
    p15_describe_groups,
    p16_list_groups,
    p19_create_topics,
    p20_delete_topics,
    p21_delete_records,
    p22_init_producer_id,
    p23_offset_for_leader_epoch,
    p24_add_partitions_to_txn,
    p25_add_offsets_to_txn,
    p26_end_txn,
    p27_write_txn_markers,
    p28_txn_offset_commit,
    p32_describe_configs,
    p33_alter_configs,
    p34_alter_replica_log_dirs,
    p35_describe_log_dirs,
    p37_create_partitions,
    p42_delete_groups,
    p43_elect_leaders,
    p44_incremental_alter_configs,
    p45_alter_partition_reassignments,
    p46_list_partition_reassignments,
    p47_offset_delete,
    p57_update_features,
    p60_describe_cluster,
    p61_describe_producers,
    p64_unregister_broker,
    p65_describe_transactions,
    p66_list_transactions,
    p74_list_config_resources,
    p75_describe_topic_partitions,
)
from odradek.protocol.schema import Struct
from odradek.server.api.table import load_apis
from odradek.server.network.request import BrokerContext, FrameApi
from support.admin_broker import AdminBroker, Denying, OneConnection

# A client must learn the supported versions before it can authenticate. Kafka lets every client push its telemetry.
NEEDS_NO_PERMISSION = {18, 71, 72}
# These leave out resources without permission, without an error.
HIDES = {16, 60, 66}

REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

# API key: a request about "secret", and the version to send it in.
SAMPLES = {
    0: (
        p00_produce.ProduceRequest(
            acks=1,
            topic_data=[
                p00_produce.TopicProduceData(
                    name="secret", partition_data=[p00_produce.PartitionProduceData(index=0, records=b"")]
                )
            ],
        ),
        9,
    ),
    1: (
        p01_fetch.FetchRequest(
            topics=[p01_fetch.FetchTopic(topic="secret", partitions=[p01_fetch.FetchPartition(partition=0)])]
        ),
        12,
    ),
    2: (
        p02_list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                p02_list_offsets.ListOffsetsTopic(
                    name="secret", partitions=[p02_list_offsets.ListOffsetsPartition(timestamp=-1)]
                )
            ],
        ),
        7,
    ),
    3: (p03_metadata.MetadataRequest(topics=[p03_metadata.MetadataRequestTopic(name="secret")]), 9),
    8: (
        p08_offset_commit.OffsetCommitRequest(
            group_id="secret",
            topics=[
                p08_offset_commit.OffsetCommitRequestTopic(
                    name="secret", partitions=[p08_offset_commit.OffsetCommitRequestPartition()]
                )
            ],
        ),
        8,
    ),
    9: (
        p09_offset_fetch.OffsetFetchRequest(
            groups=[p09_offset_fetch.OffsetFetchRequestGroup(group_id="secret", topics=None)]
        ),
        8,
    ),
    10: (p10_find_coordinator.FindCoordinatorRequest(key="secret", key_type=0), 3),
    11: (p11_join_group.JoinGroupRequest(group_id="secret", protocol_type="consumer", session_timeout_ms=10000), 7),
    12: (p12_heartbeat.HeartbeatRequest(group_id="secret", member_id="m"), 4),
    13: (
        p13_leave_group.LeaveGroupRequest(group_id="secret", members=[p13_leave_group.MemberIdentity(member_id="m")]),
        4,
    ),
    14: (
        p14_sync_group.SyncGroupRequest(
            group_id="secret", member_id="m", protocol_type="consumer", protocol_name="range"
        ),
        5,
    ),
    15: (p15_describe_groups.DescribeGroupsRequest(groups=["secret"]), 5),
    16: (p16_list_groups.ListGroupsRequest(), 4),
    19: (p19_create_topics.CreateTopicsRequest(topics=[p19_create_topics.CreatableTopic(name="secret")]), 7),
    20: (p20_delete_topics.DeleteTopicsRequest(topics=[p20_delete_topics.DeleteTopicState(name="secret")]), 6),
    21: (
        p21_delete_records.DeleteRecordsRequest(
            topics=[
                p21_delete_records.DeleteRecordsTopic(
                    name="secret", partitions=[p21_delete_records.DeleteRecordsPartition()]
                )
            ]
        ),
        2,
    ),
    22: (p22_init_producer_id.InitProducerIdRequest(transactional_id=None), 4),
    23: (
        p23_offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                p23_offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic="secret", partitions=[p23_offset_for_leader_epoch.OffsetForLeaderPartition()]
                )
            ]
        ),
        4,
    ),
    24: (
        p24_add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="secret",
            v3_and_below_topics=[p24_add_partitions_to_txn.AddPartitionsToTxnTopic(name="secret", partitions=[0])],
        ),
        3,
    ),
    25: (p25_add_offsets_to_txn.AddOffsetsToTxnRequest(transactional_id="secret", group_id="secret"), 3),
    26: (p26_end_txn.EndTxnRequest(transactional_id="secret"), 5),
    27: (
        p27_write_txn_markers.WriteTxnMarkersRequest(
            markers=[
                p27_write_txn_markers.WritableTxnMarker(
                    topics=[p27_write_txn_markers.WritableTxnMarkerTopic(name="secret", partition_indexes=[0])]
                )
            ]
        ),
        2,
    ),
    28: (
        p28_txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id="secret",
            group_id="secret",
            topics=[
                p28_txn_offset_commit.TxnOffsetCommitRequestTopic(
                    name="secret", partitions=[p28_txn_offset_commit.TxnOffsetCommitRequestPartition()]
                )
            ],
        ),
        5,
    ),
    32: (
        p32_describe_configs.DescribeConfigsRequest(
            resources=[p32_describe_configs.DescribeConfigsResource(resource_type=2, resource_name="secret")]
        ),
        4,
    ),
    33: (
        p33_alter_configs.AlterConfigsRequest(
            resources=[p33_alter_configs.AlterConfigsResource(resource_type=2, resource_name="secret")]
        ),
        2,
    ),
    34: (
        p34_alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                p34_alter_replica_log_dirs.AlterReplicaLogDir(
                    path="/records",
                    topics=[p34_alter_replica_log_dirs.AlterReplicaLogDirTopic(name="secret", partitions=[0])],
                )
            ]
        ),
        2,
    ),
    35: (p35_describe_log_dirs.DescribeLogDirsRequest(topics=None), 4),
    37: (
        p37_create_partitions.CreatePartitionsRequest(
            topics=[p37_create_partitions.CreatePartitionsTopic(name="secret", count=5)]
        ),
        3,
    ),
    42: (p42_delete_groups.DeleteGroupsRequest(groups_names=["secret"]), 2),
    43: (p43_elect_leaders.ElectLeadersRequest(topic_partitions=None), 2),
    44: (
        p44_incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[p44_incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name="secret")]
        ),
        1,
    ),
    45: (p45_alter_partition_reassignments.AlterPartitionReassignmentsRequest(), 1),
    46: (p46_list_partition_reassignments.ListPartitionReassignmentsRequest(), 0),
    47: (p47_offset_delete.OffsetDeleteRequest(group_id="secret"), 0),
    57: (
        p57_update_features.UpdateFeaturesRequest(
            feature_updates=[p57_update_features.FeatureUpdateKey(feature="metadata.version", max_version_level=26)]
        ),
        1,
    ),
    60: (p60_describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True), 2),
    61: (
        p61_describe_producers.DescribeProducersRequest(
            topics=[p61_describe_producers.TopicRequest(name="secret", partition_indexes=[0])]
        ),
        0,
    ),
    64: (p64_unregister_broker.UnregisterBrokerRequest(broker_id=1), 0),
    65: (p65_describe_transactions.DescribeTransactionsRequest(transactional_ids=["secret"]), 0),
    66: (p66_list_transactions.ListTransactionsRequest(), 2),
    74: (p74_list_config_resources.ListConfigResourcesRequest(), 1),
    75: (
        p75_describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[p75_describe_topic_partitions.TopicRequest(name="secret")]
        ),
        0,
    ),
}

TABLE = load_apis()


class OneTransaction:
    """A coordinator of one transactional id."""

    def shards(self):
        return [self]

    @property
    def transactions(self):
        return self

    def committed(self):
        empty = Transaction(
            transactional_id="secret", producer_id=1, producer_epoch=0, timeout_ms=1, state=State.EMPTY, updated_ms=0
        )
        return {"secret": empty}


def answer(broker, api, request, version):
    ctx = BrokerContext(broker, OneConnection(), version, 7, "test")
    body = request.encode(version)
    if isinstance(api, FrameApi):
        reply = b"".join(bytes(part) for part in api.handle(ctx, memoryview(bytearray(body)), 0, len(body)))
        # Frame length, correlation id, the empty tags of a flexible header.
        return RESPONSES[api.key].decode(reply[9:], version)

    async def answered():
        response = api.handle(ctx, api.request.decode(body, version))
        return await response if inspect.isawaitable(response) else response

    return asyncio.run(answered())


RESPONSES = {0: p00_produce.ProduceResponse, 1: p01_fetch.FetchResponse}


def error_codes(value):
    if isinstance(value, list):
        for element in value:
            yield from error_codes(element)
    elif isinstance(value, Struct):
        for name in type(value).__annotations__:
            if name in NAMES:
                yield getattr(value, name)
            else:
                yield from error_codes(getattr(value, name))


def test_the_table_is_not_empty():
    assert len(TABLE) > 20


@pytest.mark.parametrize("key", sorted(TABLE.keys() - NEEDS_NO_PERMISSION))
def test_every_handler_refuses_or_hides_without_permission(key):
    denying = Denying(lambda *_: True)
    admin = AdminBroker(authorizer=denying)
    admin.create_topic("secret")
    admin.broker.transactions = OneTransaction()
    before = admin.broker.image
    request, version = SAMPLES[key]
    response = answer(admin.broker, TABLE[key], request, version)
    assert denying.asked, "the handler did not check permissions"
    if key not in HIDES:
        codes = list(error_codes(response))
        assert codes
        assert set(codes) - {0} <= REFUSALS
        assert any(code in REFUSALS for code in codes)
    assert admin.broker.image is before, "the handler changed metadata without permission"
