import errno

import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.security.authorizer import Operation, ResourceType
from support.admin_broker import AdminBroker, Denying

HERE = "/records"


def a_broker_with_logs(**settings):
    admin = AdminBroker(**settings)
    admin.create_topic("orders", 3)
    for index in (0, 1):
        admin.host("orders", index)
    return admin


def moved(admin, *moves, version=2):
    """`moves`: (directory, topic, partitions)."""
    dirs = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=list(partitions))])
        for path, topic, partitions in moves
    ]
    answer = admin.ask(34, AlterReplicaLogDirsRequest(dirs=dirs), version)
    return [
        (topic.topic_name, [(row.partition_index, ErrorCode(row.error_code)) for row in topic.partitions])
        for topic in answer.results
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_moving_a_replica_to_its_own_directory_succeeds(version):
    told = moved(a_broker_with_logs(), (HERE, "orders", [0, 1]), version=version)
    assert told == [("orders", [(0, ErrorCode.NONE), (1, ErrorCode.NONE)])]


@pytest.mark.parametrize("path", ["/elsewhere", "", "/records/deeper", "records"])
def test_moving_a_replica_to_an_unknown_directory_is_refused(path):
    told = moved(a_broker_with_logs(), (path, "orders", [0]), (path, "unknown", [0]))
    assert told == [("orders", [(0, ErrorCode.LOG_DIR_NOT_FOUND)]), ("unknown", [(0, ErrorCode.LOG_DIR_NOT_FOUND)])]


def test_moving_a_replica_that_this_broker_does_not_have_is_refused():
    admin = a_broker_with_logs()
    assert moved(admin, (HERE, "orders", [2, 3, -1]), (HERE, "unknown", [0])) == [
        (
            "orders",
            [
                (2, ErrorCode.REPLICA_NOT_AVAILABLE),
                (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ],
        ),
        ("unknown", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]


def test_moving_a_replica_whose_log_failed_is_refused():
    admin = a_broker_with_logs()
    admin.partitions.get("orders", 0).log.release()
    assert moved(admin, (HERE, "orders", [0])) == [("orders", [(0, ErrorCode.KAFKA_STORAGE_ERROR)])]


def test_a_partition_named_for_two_directories_goes_to_the_last():
    told = moved(a_broker_with_logs(), ("/elsewhere", "orders", [0, 1]), (HERE, "orders", [1]))
    assert told == [("orders", [(0, ErrorCode.LOG_DIR_NOT_FOUND), (1, ErrorCode.NONE)])]


def test_an_empty_request_gets_an_empty_answer():
    assert moved(a_broker_with_logs()) == []


def test_without_alter_on_the_cluster_no_directories_are_revealed():
    denying = Denying(lambda operation, kind, _: operation is Operation.ALTER and kind is ResourceType.CLUSTER)
    admin = a_broker_with_logs(authorizer=denying)
    for path in (HERE, "/elsewhere"):
        assert moved(admin, (path, "orders", [0])) == [("orders", [(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)])]


def test_replicas_of_a_disk_that_does_not_answer_are_still_found_in_their_directory():
    admin = a_broker_with_logs()
    admin.partitions.disk_error = OSError(errno.EIO, "Input/output error")
    assert moved(admin, (HERE, "orders", [0])) == [("orders", [(0, ErrorCode.NONE)])]
