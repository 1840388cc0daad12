"""Fetches from one leader: sessions, changed partitions, backoff after errors, partitions that are left out."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.log.config import LogConfig
from odradek.protocol.fetch import FetchPartition
from odradek.protocol.replica_fetch import FetchReply, PartitionReply
from odradek.replication.fetching import REST_MS_MIN, Fetching
from support.data_broker import batch
from support.replicas import TOPIC_ID, WALL_MS, Replicas

MAX_WAIT_MS, REST_MS_MAX = 500, 100
SESSION = 77


def fetching():
    return Fetching(partition_max_bytes=1000, max_wait_ms=MAX_WAIT_MS, rest_ms_max=REST_MS_MAX)


def following(config=None):
    """A follower of a leader with one record, and its fetching."""
    replicas = Replicas(2, config=config)
    replicas[1].append("a")
    asking = fetching()
    asking.follow(replicas[2].partition)
    return replicas, asking


def reply(*parts, session_id=SESSION, error_code=0):
    return FetchReply(0, error_code, session_id, [(TOPIC_ID, list(parts))] if parts else [], [])


def part(error_code=0, *, high_watermark=0, records=b"", **fields):
    return PartitionReply(0, error_code, high_watermark, 0, memoryview(records), **fields)


def record(offset):
    return bytes(batch("x", base_offset=offset, leader_epoch=0, timestamp=WALL_MS))


def asked(question):
    return [tuple(partitions) for _, partitions in question.topics]


def test_fetch_session_names_only_changed_partitions():
    _, asking = following()
    first = asking.question(0)
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert asked(first) == [(FetchPartition(0, 0, 0, -1, 0, 1000),)]
    asking.answered(reply(part(records=record(0))), 0, WALL_MS)
    second = asking.question(0)
    assert (second.session_id, second.session_epoch) == (SESSION, 1)
    assert asked(second) == [(FetchPartition(0, 0, 1, 0, 0, 1000),)]
    asking.answered(reply(), 0, WALL_MS)
    third = asking.question(0)
    assert (third.session_id, third.session_epoch, third.topics, third.forgotten) == (SESSION, 2, [], [])
    asking.answered(reply(part(high_watermark=1)), 0, WALL_MS)
    assert asking.question(0).topics == []


def test_without_a_session_every_fetch_names_all_partitions():
    _, asking = following()
    for _ in range(3):
        question = asking.question(0)
        assert (question.session_id, question.session_epoch, len(asked(question))) == (0, 0, 1)
        asking.answered(reply(session_id=0), 0, WALL_MS)


@pytest.mark.parametrize(
    ("code", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, SESSION),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, SESSION),
    ],
)
def test_lost_fetch_session_is_restarted_at_once(code, session_id):
    _, asking = following()
    asking.question(0)
    asking.answered(reply(part()), 0, WALL_MS)
    asking.question(0)
    asking.answered(reply(session_id=0, error_code=code), 0, WALL_MS)
    again = asking.question(0)
    assert (again.session_id, again.session_epoch, len(asked(again))) == (session_id, 0, 1)


def test_reply_without_a_session_ends_the_session():
    """A leader that restarted, or has too many sessions."""
    _, asking = following()
    asking.question(0)
    asking.answered(reply(part()), 0, WALL_MS)
    asking.question(0)
    asking.answered(reply(part(), session_id=0), 0, WALL_MS)
    again = asking.question(0)
    assert (again.session_id, again.session_epoch, len(asked(again))) == (0, 0, 1)


def test_fetch_after_a_lost_reply_names_all_partitions_and_replaces_the_session():
    _, asking = following()
    asking.question(0)
    asking.answered(reply(part()), 0, WALL_MS)
    for _ in range(2):
        asking.question(0)
        asking.failed()
    again = asking.question(0)
    assert (again.session_id, again.session_epoch, len(asked(again))) == (SESSION, 0, 1)
    asking.answered(reply(part(), session_id=SESSION + 1), 0, WALL_MS)
    onward = asking.question(0)
    assert (onward.session_id, onward.session_epoch, onward.topics) == (SESSION + 1, 1, [])


def test_session_without_partitions_is_replaced_by_the_next_fetch():
    _, asking = following()
    asking.question(0)
    asking.answered(reply(part(ErrorCode.UNKNOWN_LEADER_EPOCH)), 0, WALL_MS)
    assert asking.question(0) is None
    again = asking.question(REST_MS_MIN)
    assert (again.session_id, again.session_epoch, len(asked(again))) == (SESSION, 0, 1)


def test_error_for_the_whole_reply_backs_off_all_partitions():
    _, asking = following()
    asking.question(0)
    asking.answered(reply(session_id=0, error_code=ErrorCode.UNKNOWN_SERVER_ERROR), 0, WALL_MS)
    assert asking.question(0) is None
    assert asking.idle_ms(0) == REST_MS_MIN
    assert len(asked(asking.question(REST_MS_MIN))) == 1


def test_failing_partition_backs_off_exponentially_while_others_continue():
    replicas, asking = following()
    other = Replicas(2)[2].partition
    other.topic_id = bytes(15) + b"\x09"
    asking.follow(other)
    now_ms, rests = 0, []
    asking.question(now_ms)
    for _ in range(5):
        asking.answered(reply(part(ErrorCode.UNKNOWN_LEADER_EPOCH)), now_ms, WALL_MS)
        meanwhile = asking.question(now_ms)
        assert (meanwhile.topics, meanwhile.forgotten) == ([], [(TOPIC_ID, [0])])
        # The long poll of the others must not last longer than the backoff.
        rests.append(meanwhile.max_wait_ms)
        now_ms += meanwhile.max_wait_ms
        asking.answered(reply(), now_ms, WALL_MS)
        again = asking.question(now_ms)
        assert (asked(again), again.max_wait_ms) == ([(FetchPartition(0, 0, 0, -1, 0, 1000),)], MAX_WAIT_MS)
    assert rests == [20, 40, 80, 100, 100]
    asking.answered(reply(part(records=record(0))), now_ms, WALL_MS)
    asking.question(now_ms)
    asking.answered(reply(part(ErrorCode.UNKNOWN_LEADER_EPOCH)), now_ms, WALL_MS)
    assert asking.question(now_ms).max_wait_ms == 20
    assert replicas[2].end == 1


def test_fenced_partition_waits_for_the_next_image():
    replicas, asking = following()
    asking.question(0)
    asking.answered(reply(part(ErrorCode.FENCED_LEADER_EPOCH)), 0, WALL_MS)
    assert (len(asking), asking.question(10**9), asking.idle_ms(0)) == (0, None, None)
    replicas.elect(1)
    asking.follow(replicas[2].partition)
    assert asked(asking.question(0)) == [(FetchPartition(0, 1, 0, -1, 0, 1000),)]


def test_reply_for_an_old_leader_epoch_is_ignored_and_the_fetch_repeated():
    replicas, asking = following()
    asking.question(0)
    asking.answered(reply(part()), 0, WALL_MS)
    asking.question(0)
    replicas.elect(1)
    asking.follow(replicas[2].partition)
    asking.answered(reply(part(records=record(0))), 0, WALL_MS)
    assert replicas[2].end == 0
    assert asked(asking.question(0)) == [(FetchPartition(0, 1, 0, -1, 0, 1000),)]


def test_left_partition_is_removed_from_the_session_and_a_returned_one_is_kept():
    replicas, asking = following()
    partition = replicas[2].partition
    other = Replicas(2)[2].partition
    other.topic_id = bytes(15) + b"\x09"
    asking.follow(other)
    asking.question(0)
    asking.answered(reply(), 0, WALL_MS)
    asking.leave(partition)
    assert not asking.follows(partition)
    assert asking.question(0).forgotten == [(TOPIC_ID, [0])]
    asking.answered(reply(part(records=record(0))), 0, WALL_MS)
    assert replicas[2].end == 0
    asking.leave(other)
    asking.follow(other)
    back = asking.question(0)
    assert ([topic for topic, _ in back.topics], back.forgotten) == ([other.topic_id], [])


def test_partition_with_unsynced_records_must_sync_before_the_next_fetch():
    replicas, asking = following(LogConfig(flush_messages=1))
    asking.question(0)
    assert asking.unsynced(0) == []
    asking.answered(reply(part(records=record(0))), 0, WALL_MS)
    assert asking.unsynced(0) == [replicas[2].partition]


def test_partition_with_unsynced_records_of_another_leader_must_sync_before_the_next_fetch():
    replicas, asking = following(LogConfig(flush_messages=1))
    asking.question(0)
    asking.answered(reply(part(records=record(0))), 0, WALL_MS)
    of_the_next_leader = fetching()
    of_the_next_leader.follow(replicas[2].partition)
    assert of_the_next_leader.unsynced(0) == [replicas[2].partition]


def test_partition_after_a_backoff_must_sync_before_the_next_fetch():
    replicas, asking = following(LogConfig(flush_messages=1))
    asking.question(0)
    replicas.fetch(2)
    asking.answered(reply(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), 0, WALL_MS)
    assert asking.unsynced(0) == []
    assert asking.unsynced(REST_MS_MIN) == [replicas[2].partition]


def test_partition_with_a_failed_log_is_not_fetched():
    """A fetch of the next record would say that the last one is durable."""
    replicas, asking = following(LogConfig(flush_messages=1))
    partition = replicas[2].partition
    asking.question(0)
    asking.answered(reply(part(records=record(0))), 0, WALL_MS)
    partition.log.fail(OSError("sync failed"))
    assert asking.unsynced(0) == []
    assert (asking.question(0), asking.follows(partition)) == (None, False)
    asking.follow(partition)
    assert asking.question(0) is None
