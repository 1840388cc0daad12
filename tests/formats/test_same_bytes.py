"""For the same records, our files have the same bytes as Kafka's."""

from __future__ import annotations

import pytest

from odradek.adapters.memory_disk import MemoryDisk
from odradek.adapters.rng import SystemRng
from odradek.base.ids import TopicPartition
from odradek.coordinator.group import changes
from odradek.log import checkpoints
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.node.format import decode_identity
from odradek.protocol.batch import encode_batch, iter_batches, iter_records
from odradek.protocol.control_records import (
    ControlType,
    decode_control_key,
    decode_control_value,
    encode_control_key,
    encode_control_value,
)
from odradek.protocol.metadata_records import decode_metadata_record, encode_metadata_record
from odradek.protocol.wire import read_uvarint
from odradek.quorum.election import decode_election
from support.small_world import CONFIGS, FIRST_MS, TRIMMED_TO

WRITTEN_BY_LEADERS = ["rolled-0", "rolled-1", "codecs-0", "edges-0", "trimmed-0"]


@pytest.mark.parametrize("name", WRITTEN_BY_LEADERS)
def test_partition_has_the_same_bytes_as_kafkas_in_every_file(golden, name):
    """Segments roll at the same offsets; logs, indexes, producer snapshots, epochs and the topic id are the same."""
    kafkas = golden("stopped") / name
    disk = write_again(kafkas)
    ours = {file: disk.read(f"{name}/{file}") for file in disk.listdir(name)}
    assert ours == {file.name: file.read_bytes() for file in kafkas.iterdir()}


def write_again(directory) -> MemoryDisk:
    """Write every batch of a partition again, as the client had sent it."""
    topic, _, partition = directory.name.rpartition("-")
    topic_partition = TopicPartition(topic, int(partition))
    settings = CONFIGS[topic]
    config = LogConfig(
        segment_bytes=int(settings.get("internal.segment.bytes", 1 << 30)),
        index_interval_bytes=int(settings.get("index.interval.bytes", 4096)),
    )
    disk = MemoryDisk()
    logs = LogDirectory(disk, SystemRng())
    topic_id = checkpoints.decode_topic_id((directory / "partition.metadata").read_bytes())
    log = logs.create_log(topic_partition, topic_id, config, FIRST_MS)
    log.appending.begin_epoch(0)
    for segment in sorted(directory.glob("*.log")):
        for _, batch in iter_batches(segment.read_bytes()):
            sent = bytearray(batch)
            sent[:8] = bytes(8)
            log.appending.as_leader(memoryview(sent), 0, FIRST_MS)
    if topic == "trimmed":
        log.advance_log_start(TRIMMED_TO)
    logs.close(0)
    return disk


@pytest.mark.parametrize(
    ("name", "decode", "encode"),
    [
        ("recovery-point-offset-checkpoint", checkpoints.decode_offsets, checkpoints.encode_offsets),
        ("replication-offset-checkpoint", checkpoints.decode_offsets, checkpoints.encode_offsets),
        ("log-start-offset-checkpoint", checkpoints.decode_offsets, checkpoints.encode_offsets),
        ("trimmed-0/leader-epoch-checkpoint", checkpoints.decode_epochs, checkpoints.encode_epochs),
        ("trimmed-0/partition.metadata", checkpoints.decode_topic_id, checkpoints.encode_topic_id),
        (".kafka_cleanshutdown", checkpoints.decode_clean_shutdown, checkpoints.encode_clean_shutdown),
        ("__cluster_metadata-0/quorum-state", decode_election, lambda election: election.encode()),
    ],
)
def test_small_files_have_the_same_bytes_as_kafkas(golden, name, decode, encode):
    kafkas = (golden("stopped") / name).read_bytes()
    assert kafkas
    assert encode(decode(kafkas)) == kafkas


def test_meta_properties_has_kafkas_keys_in_another_order(golden):
    kafkas = (golden("stopped") / "meta.properties").read_bytes()
    lines = [line for line in kafkas.decode().splitlines() if not line.startswith("#")]
    assert sorted(decode_identity(kafkas).encode().decode().splitlines()) == sorted(lines)


@pytest.mark.parametrize("name", ["stopped", "killed", "configured-voters"])
def test_metadata_records_have_the_same_bytes_as_kafkas(golden, name):
    seen = set()
    for header, record in records_in(golden(name) / "__cluster_metadata-0"):
        if header.is_control:
            kind = ControlType(decode_control_key(record.key))
            assert encode_control_key(kind) == record.key
            assert encode_control_value(decode_control_value(kind, record.value)) == record.value
            continue
        # frame version, type and version are one byte each
        version, _ = read_uvarint(record.value, 2)
        decoded = decode_metadata_record(record.value)
        assert encode_metadata_record(decoded, version) == record.value
        seen.add(type(decoded).__name__)
    assert len(seen) >= 11, seen


@pytest.mark.parametrize("name", ["stopped", "killed", "configured-voters"])
def test_group_records_have_the_same_bytes_as_kafkas(golden, name):
    data = golden(name)
    kinds = []
    for partition in data.glob("__consumer_offsets-?"):
        for _, record in records_in(partition):
            change = changes.decode(record.key, record.value)
            assert changes.encode(change) == (record.key, record.value)
            kinds.append(type(change).__name__)
    assert set(kinds) == {"OffsetStored", "GroupStored"}


@pytest.mark.parametrize("topic", ["rolled-0", "rolled-1", "edges-0"])
def test_record_batches_have_the_same_bytes_as_kafkas(golden, topic):
    segments = list((golden("stopped") / topic).glob("*.log"))
    assert segments
    for segment in segments:
        for header, batch in iter_batches(segment.read_bytes()):
            again = encode_batch(
                list(iter_records(batch)),
                base_offset=header.base_offset,
                leader_epoch=header.leader_epoch,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
            )
            assert again == batch


def records_in(directory):
    for segment in sorted(directory.glob("*.log")):
        for header, batch in iter_batches(segment.read_bytes()):
            for record in iter_records(batch):
                yield header, record
