"""Offsets by timestamp and by leader epoch, and DeleteRecords."""

from __future__ import annotations

import pytest

from odradek.protocol.batch import Codec, encode_batch
from odradek.protocol.messages.p02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.p21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.p23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.records import Record
from odradek.testing import Embedded
from traps.wire import Wire, batch, now_ms, records_of

OFFSET_OUT_OF_RANGE, UNSUPPORTED_VERSION, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 1, 35, 74, 75
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6


def listed(wire: Wire, topic: str, timestamp: int, *, version: int = 7, leader_epoch: int = -1, isolation: int = 0):
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=leader_epoch)
    topics = [ListOffsetsTopic(name=topic, partitions=[wanted])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics, timeout_ms=5000)
    return wire.ask(request, version).topics[0].partitions[0]


def offset_and_time(wire: Wire, topic: str, timestamp: int, **fields) -> tuple[int, int, int]:
    found = listed(wire, topic, timestamp, **fields)
    return found.error_code, found.offset, found.timestamp


def delete_below(wire: Wire, topic: str, offset: int):
    topics = [DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])]
    return wire.ask(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2).topics[0].partitions[0]


def end_of_epoch(wire: Wire, topic: str, leader_epoch: int, *, current: int = -1) -> tuple[int, int, int]:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=leader_epoch, current_leader_epoch=current)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
    found = wire.ask(request, 4).topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", [1, 2, 7, 11])
@pytest.mark.parametrize("isolation", [0, 1])
def test_list_offsets_returns_both_ends_of_a_log(wire, topic, version, isolation):
    """T41. Also for an empty log; the timestamp is -1."""
    for records in (0, 3):
        if records:
            wire.produce(topic, batch(*[b"x"] * records))
        assert offset_and_time(wire, topic, LATEST, version=version, isolation=isolation) == (0, records, -1)
        assert offset_and_time(wire, topic, EARLIEST, version=version, isolation=isolation) == (0, 0, -1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_list_offsets_by_time_finds_the_first_record_inside_a_batch(wire, topic, codec):
    """T41. If there is none, it returns nothing and no error."""
    start = now_ms() - 1000
    for shift in (0, 100):
        times = [start + shift + step for step in (0, 10, 20)]
        wire.produce(topic, encode_batch([Record(key=None, value=b"x", timestamp=time) for time in times], codec=codec))
    for target, found in (
        (0, (0, 0, start)),
        (start + 10, (0, 1, start + 10)),
        (start + 11, (0, 2, start + 20)),
        (start + 21, (0, 3, start + 100)),
        (start + 121, (0, -1, -1)),
    ):
        assert offset_and_time(wire, topic, target) == found


def test_list_offsets_by_time_in_an_empty_topic_finds_nothing(wire, topic):
    """T41. No error either."""
    assert offset_and_time(wire, topic, now_ms()) == (0, -1, -1)
    assert offset_and_time(wire, topic, MAX_TIMESTAMP) == (0, -1, -1)


def test_max_timestamp_is_found_anywhere_in_the_log(wire, topic):
    """T41. Producers' clocks differ."""
    start = now_ms()
    for shift in (0, 50, 20):
        wire.produce(topic, batch(b"x", timestamp=start + shift))
    assert offset_and_time(wire, topic, MAX_TIMESTAMP) == (0, 1, start + 50)


@pytest.mark.parametrize(
    ("timestamp", "since"), [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING, 11)]
)
def test_special_timestamps_are_refused_before_their_version(wire, topic, timestamp, since):
    """T41. Before that they are refused, not searched for."""
    assert listed(wire, topic, timestamp, version=since).error_code == 0
    assert listed(wire, topic, timestamp, version=since - 1).error_code == UNSUPPORTED_VERSION


def test_offset_for_leader_epoch_over_three_broker_starts(tmp_path, name):
    """T36, T43. The end of the largest epoch up to the requested one. Older epochs are fenced, newer ones unknown."""
    epochs, ends = [], []
    for life in range(3):
        with Embedded(data=tmp_path) as broker, Wire(broker.port) as wire:
            if not life:
                wire.create_topic(name)
            epochs.append(wire.metadata(name, 7).topics[0].partitions[0].leader_epoch)
            if life != 1:
                wire.produce(name, batch(b"a", b"b"))
            ends.append(listed(wire, name, LATEST).offset)
            now = epochs[-1]
            for current, error in ((-1, 0), (now, 0), (now + 1, UNKNOWN_LEADER_EPOCH)):
                assert wire.fetch(name, {0: 0}, current_leader_epoch=current)[0].error_code == error
                assert listed(wire, name, LATEST, leader_epoch=current).error_code == error
                found = (-1, -1) if error else (now, ends[-1])
                assert end_of_epoch(wire, name, now, current=current) == (error, *found)
            if life:
                fenced = now - 1
                assert wire.fetch(name, {0: 0}, current_leader_epoch=fenced)[0].error_code == FENCED_LEADER_EPOCH
                assert listed(wire, name, LATEST, leader_epoch=fenced).error_code == FENCED_LEADER_EPOCH
                assert end_of_epoch(wire, name, fenced, current=fenced)[0] == FENCED_LEADER_EPOCH
            if life == 2:
                assert end_of_epoch(wire, name, epochs[0]) == (0, epochs[0], 2)
                assert end_of_epoch(wire, name, epochs[1]) == (0, epochs[0], 2), "nothing was written in that epoch"
                assert end_of_epoch(wire, name, now) == (0, now, 4)
                assert end_of_epoch(wire, name, now + 1) == (0, -1, -1)
    assert ends == [2, 2, 4]


def test_delete_records_with_minus_one_deletes_up_to_the_high_watermark(wire, topic):
    """T62."""
    wire.produce(topic, batch(b"a", b"b", b"c"))
    answer = delete_below(wire, topic, -1)
    assert (answer.error_code, answer.low_watermark) == (0, 3)
    assert offset_and_time(wire, topic, EARLIEST)[1] == 3


def test_delete_records_may_end_inside_a_batch_and_fetch_returns_it_whole(wire, topic):
    """T62. The batch is still returned whole; offsets before the log start are out of range (KAFKA-6975)."""
    wire.produce(topic, batch(b"a", b"b", b"c"))
    assert delete_below(wire, topic, 2).low_watermark == 2
    assert offset_and_time(wire, topic, EARLIEST)[1] == 2
    assert offset_and_time(wire, topic, 0)[1] == 2
    assert wire.fetch(topic, {0: 1})[0].error_code == OFFSET_OUT_OF_RANGE
    part = wire.fetch(topic, {0: 2})[0]
    assert (part.log_start_offset, len(records_of(part.records))) == (2, 3)


def test_delete_records_beyond_the_log_end_is_refused(wire, topic):
    """T62."""
    wire.produce(topic, batch(b"a"))
    answer = delete_below(wire, topic, 2)
    assert (answer.error_code, answer.low_watermark) == (OFFSET_OUT_OF_RANGE, -1)
