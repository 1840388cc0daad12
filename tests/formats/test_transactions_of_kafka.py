"""Logs of Kafka with committed, aborted and open transactions, also after compaction and a kill."""

from __future__ import annotations

import pytest

from odradek.adapters.disk import OsDisk
from odradek.adapters.memory_disk import MemoryDisk
from odradek.adapters.rng import SystemRng
from odradek.base.ids import TopicPartition
from odradek.log import checkpoints
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.log.producer_snapshots import ENTRY
from odradek.log.verification import NOT_REQUIRED
from odradek.protocol.batch import iter_batches
from odradek.protocol.txn_marker import TxnMarker, encode_marker, read_marker
from support import transactional_world
from support.read_committed import visible_records
from support.small_world import FIRST_MS
from support.transactional_world import COMPACTED, CONFIGS, TOPIC, UNDECIDED

DIRECTORIES = ("transactions", "transactions-killed")
SEGMENTS = LogConfig(segment_bytes=1500, index_interval_bytes=200)


def loaded(data) -> LogDirectory:
    logs = LogDirectory(OsDisk(str(data)), SystemRng())
    logs.load(lambda _topic: SEGMENTS, FIRST_MS)
    return logs


def visible(log) -> list[tuple[bytes, bytes]]:
    offset, found = log.log_start_offset, []
    end = log.last_stable_offset(log.log_end_offset)
    while True:
        region, aborted = log.read_committed(offset, 700, end, True)
        if region is None:
            return found
        data = region.read()
        region.release()
        records = visible_records(data, [(one.producer_id, one.first_offset) for one in aborted])
        found += [(record.key, record.value) for record in records if record.offset >= offset]
        offset = [header for header, _ in iter_batches(data)][-1].next_offset


@pytest.mark.parametrize("name", DIRECTORIES)
def test_readers_see_what_kafkas_readers_saw(golden, name):
    logs = loaded(golden(name))
    assert logs.stopped_cleanly == (name == "transactions")
    world = transactional_world.expected()
    payments = logs.logs[TopicPartition(TOPIC, 0)]
    assert [value for _, value in visible(payments)] == world.committed
    assert dict(visible(logs.logs[TopicPartition(COMPACTED, 0)])) == world.balances


@pytest.mark.parametrize("name", DIRECTORIES)
def test_open_transactions_of_kafka_are_known_and_can_be_ended(golden, name):
    log = loaded(golden(name)).logs[TopicPartition(TOPIC, 0)]
    open_here = {
        producer_id: producer
        for producer_id, producer in log.known_producers(FIRST_MS).by_id.items()
        if producer.transaction_start >= 0
    }
    ((producer_id, producer),) = open_here.items()
    assert producer.transaction_start == log.last_stable_offset(log.log_end_offset) == log.log_end_offset - 3
    log.appending.marker(TxnMarker(producer_id, producer.epoch, 1, True), 1, FIRST_MS)
    assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
    assert [value for _, value in visible(log)][-2:] == UNDECIDED


def forget_indexes(data):
    """As after a kill before any sync, with the indexes of aborted transactions lost. Returns them."""
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (data / "recovery-point-offset-checkpoint").unlink()
    indexes = {}
    for file in sorted(data.glob("*-0/*.txnindex")):
        indexes[file.relative_to(data)] = file.read_bytes()
        file.unlink()
    return indexes


@pytest.mark.parametrize("name", DIRECTORIES)
def test_rebuilt_index_has_the_same_bytes_as_kafkas(golden, name):
    data = golden(name)
    indexes = forget_indexes(data)
    loaded(data)
    kafkas = {path: content for path, content in indexes.items() if path.parent.name == f"{TOPIC}-0"}
    assert len(kafkas) > 3
    assert {path: (data / path).read_bytes() for path in kafkas} == kafkas


@pytest.mark.parametrize("name", DIRECTORIES)
def test_compacted_log_reads_the_same_with_rebuilt_indexes(golden, name):
    """They list less: the cleaner keeps the entry of a transaction longer than its records."""
    data = golden(name)
    forget_indexes(data)
    log = loaded(data).logs[TopicPartition(COMPACTED, 0)]
    assert dict(visible(log)) == transactional_world.expected().balances


def test_partition_with_transactions_has_the_same_bytes_as_kafkas_in_every_file(golden):
    """Batches as clients sent them, markers as coordinators ask for them."""
    kafkas = golden("transactions") / f"{TOPIC}-0"
    disk = MemoryDisk()
    logs = LogDirectory(disk, SystemRng())
    topic_id = checkpoints.decode_topic_id((kafkas / "partition.metadata").read_bytes())
    config = LogConfig(
        segment_bytes=int(CONFIGS[TOPIC]["internal.segment.bytes"]),
        index_interval_bytes=int(CONFIGS[TOPIC]["index.interval.bytes"]),
    )
    log = logs.create_log(TopicPartition(TOPIC, 0), topic_id, config, FIRST_MS)
    log.appending.begin_epoch(0)
    for segment in sorted(kafkas.glob("*.log")):
        for header, batch in iter_batches(segment.read_bytes()):
            marker = read_marker(header, batch) if header.is_control else None
            if marker is not None:
                assert encode_marker(marker, header.max_timestamp)[16:] == batch[16:]
                log.appending.marker(marker, 0, header.max_timestamp)
            else:
                sent = bytearray(batch)
                sent[:8] = bytes(8)
                log.appending.as_leader(memoryview(sent), 0, header.max_timestamp, NOT_REQUIRED)
    logs.close(0)
    ours = {file: disk.read(f"{TOPIC}-0/{file}") for file in disk.listdir(f"{TOPIC}-0")}
    theirs = {file.name: file.read_bytes() for file in kafkas.iterdir()}
    assert sorted(ours) == sorted(theirs)
    for name in ours:
        if name.endswith(".snapshot"):
            assert producers_in(ours[name]) == producers_in(theirs[name]), name
        else:
            assert ours[name] == theirs[name], name


def producers_in(snapshot: bytes) -> tuple[bytes, list[tuple[int, ...]]]:
    """Without the checksum, and sorted: Kafka writes producers in the order of a hash table."""
    return snapshot[:2] + snapshot[6:10], sorted(ENTRY.iter_unpack(snapshot[10:]))
