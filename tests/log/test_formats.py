"""The files byte for byte, as Kafka 4 writes them."""

from __future__ import annotations

import struct

import pytest

from odradek.base.ids import TopicId, TopicPartition
from odradek.log.checkpoints import (
    decode_clean_shutdown,
    decode_epochs,
    decode_offsets,
    decode_topic_id,
    encode_clean_shutdown,
    encode_epochs,
    encode_offsets,
    encode_topic_id,
    read_checkpoint,
)


def test_offset_checkpoint():
    offsets = {TopicPartition("orders", 0): 12, TopicPartition("a-b.c", 11): 0}
    assert encode_offsets(offsets) == b"0\n2\norders 0 12\na-b.c 11 0\n"
    assert decode_offsets(encode_offsets(offsets)) == offsets
    assert decode_offsets(b"0\n0\n") == decode_offsets(b"") == {}


def test_leader_epoch_checkpoint():
    assert encode_epochs([(0, 0), (3, 17)]) == b"0\n2\n0 0\n3 17\n"
    assert decode_epochs(b"0\n2\n0 0\n3 17\n") == [(0, 0), (3, 17)]


def test_partition_metadata():
    topic_id = TopicId(bytes(range(16)))
    assert encode_topic_id(topic_id) == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert decode_topic_id(encode_topic_id(topic_id)) == topic_id


def test_clean_shutdown_marker():
    assert encode_clean_shutdown(42) == b'{"version":0,"brokerEpoch":42}'
    assert decode_clean_shutdown(b'{"version":0,"brokerEpoch":42,"more":1}') == 42
    assert decode_clean_shutdown(b"") == -1


def test_empty_offset_checkpoint_file_has_no_entries():
    assert decode_offsets(b"") == {}


@pytest.mark.parametrize("broken", [b"0", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na b c\n", b"\xff\xfe"])
def test_broken_checkpoint_is_ignored(partition, broken):
    partition.disk.replace("checkpoint", broken)
    assert read_checkpoint(partition.disk, "checkpoint", decode_offsets) is None
    assert read_checkpoint(partition.disk, "absent", decode_offsets) is None


def test_bytes_of_indexes_and_file_names(make_partition, now):
    partition = make_partition(segment_bytes=10_000, index_interval_bytes=200)
    for n in range(8):
        partition.append(b"v" * 60, timestamps=[now + (n if n < 6 else 0)])
    assert partition.bytes_of(".log").size() == 8 * 130
    partition.restart()
    # An entry for each batch that starts more than 200 bytes after the last indexed one: last offset and position.
    offset_entries = [(2, 260), (4, 520), (6, 780)]
    # With each of them, if the largest timestamp grew: that timestamp and its offset.
    time_entries = [(now + 2, 2), (now + 4, 4), (now + 5, 5)]
    assert partition.bytes_of(".index").pread(999, 0) == b"".join(
        struct.pack(">II", *entry) for entry in offset_entries
    )
    assert partition.bytes_of(".timeindex").pread(999, 0) == b"".join(
        struct.pack(">qI", *entry) for entry in time_entries
    )
    assert partition.names() == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000008.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]


def test_a_closed_segment_ends_with_its_largest_timestamp(make_partition, now):
    partition = make_partition()
    partition.append(b"v", timestamps=[now])
    partition.append(b"v", timestamps=[now + 1])
    partition.restart()
    assert partition.bytes_of(".timeindex").pread(999, 0) == struct.pack(">qI", now + 1, 1)
    partition.append(b"v", timestamps=[now + 2])
    partition.restart()
    assert partition.bytes_of(".timeindex").pread(999, 0) == struct.pack(">qI", now + 2, 2)


def test_files_of_the_data_directory(partition):
    partition.append(b"v")
    partition.logs.write_checkpoints()
    assert partition.disk.read("topic-id-checkpoint") == b"0\n1\norders 0 AAECAwQFBgcICQoLDA0ODw\n"
    partition.logs.write_high_watermarks({partition.log: 1})
    partition.logs.close(broker_epoch=9)
    assert partition.disk.listdir("") == [
        ".kafka_cleanshutdown",
        "log-start-offset-checkpoint",
        "orders-0",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    assert partition.disk.read("recovery-point-offset-checkpoint") == b"0\n1\norders 0 1\n"
    assert partition.disk.read("log-start-offset-checkpoint") == b"0\n1\norders 0 0\n"
    assert partition.disk.read("replication-offset-checkpoint") == b"0\n1\norders 0 1\n"
    assert partition.disk.read(".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":9}'
