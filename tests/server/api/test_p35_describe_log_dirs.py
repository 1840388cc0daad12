import errno

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from support.admin_broker import AdminBroker
from support.data_broker import batch


def a_broker_with_logs():
    admin = AdminBroker()
    admin.create_topic("orders", 2)
    for index in (0, 1):
        admin.host("orders", index)
    admin.create_topic("empty")
    admin.host("empty")
    first = admin.partitions.get("orders", 0)
    first.append(memoryview(batch("one", "two", timestamp=0)), 1, wall_ms=0)
    return admin, first


def described(admin, topics, version=4):
    answer = admin.ask(35, DescribeLogDirsRequest(topics=topics), version)
    (directory,) = answer.results
    return directory, {(topic.name, row.partition_index): row for topic in directory.topics for row in topic.partitions}


def test_every_log_when_no_topic_is_named():
    admin, first = a_broker_with_logs()
    directory, rows = described(admin, None)
    assert (directory.log_dir, directory.total_bytes, directory.usable_bytes) == ("/records", 1000, 400)
    assert sorted(rows) == [("empty", 0), ("orders", 0), ("orders", 1)]
    assert rows["orders", 0].partition_size == first.log.size_bytes > 61
    assert rows["empty", 0].partition_size == 0
    assert {row.offset_lag for row in rows.values()} == {0}


def test_only_named_partitions_on_this_broker_are_described():
    admin, _ = a_broker_with_logs()
    named = [
        DescribableLogDirTopic(topic="orders", partitions=[1, 7, 1]),
        DescribableLogDirTopic(topic="nowhere", partitions=[0]),
    ]
    _, rows = described(admin, named)
    assert list(rows) == [("orders", 1)]


def test_before_version_4_the_volume_size_is_left_out():
    admin, _ = a_broker_with_logs()
    directory, _ = described(admin, None, version=1)
    assert (directory.log_dir, directory.total_bytes) == ("/records", -1)


def test_a_followers_lag_counts_committed_records_that_it_lacks():
    admin, first = a_broker_with_logs()
    first.log.truncation.fully_and_start_at(0)
    _, rows = described(admin, None)
    assert rows["orders", 0].offset_lag == 2


def test_a_directory_whose_disk_does_not_answer_has_a_storage_error_and_no_logs():
    admin, _ = a_broker_with_logs()
    admin.partitions.disk_error = OSError(errno.EIO, "Input/output error")
    directory, rows = described(admin, None)
    assert (directory.log_dir, directory.error_code) == ("/records", ErrorCode.KAFKA_STORAGE_ERROR)
    assert (directory.total_bytes, directory.usable_bytes, rows) == (-1, -1, {})
