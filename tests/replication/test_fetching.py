"""What is asked of one leader: sessions, what changed, who rests after trouble, who is left out."""

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


def test_a_session_names_only_what_changed():
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


def test_without_a_session_every_question_names_everything():
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
def test_a_session_that_is_lost_begins_anew_at_once(code, session_id):
    _, asking = following()
    asking.question(0)
    asking.answered(reply(part()), 0, WALL_MS)
    asking.question(0)
    asking.answered(reply(session_id=0, error_code=code), 0, WALL_MS)
    again = asking.question(0)
    assert (again.session_id, again.session_epoch, len(asked(again))) == (session_id, 0, 1)


def test_after_no_answer_everything_is_named_again_and_the_leader_may_end_the_session():
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


def test_a_session_in_which_nothing_is_left_to_ask_for_is_ended_by_the_next_question():
    _, asking = following()
    asking.question(0)
    asking.answered(reply(part(ErrorCode.UNKNOWN_LEADER_EPOCH)), 0, WALL_MS)
    assert asking.question(0) is None
    again = asking.question(REST_MS_MIN)
    assert (again.session_id, again.session_epoch, len(asked(again))) == (SESSION, 0, 1)


def test_a_reply_refused_as_a_whole_rests_everything():
    _, asking = following()
    asking.question(0)
    asking.answered(reply(session_id=0, error_code=ErrorCode.UNKNOWN_SERVER_ERROR), 0, WALL_MS)
    assert asking.question(0) is None
    assert asking.idle_ms(0) == REST_MS_MIN
    assert len(asked(asking.question(REST_MS_MIN))) == 1


def test_a_partition_in_trouble_rests_longer_each_time_while_others_go_on():
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
        # The long poll of the others must not outlast the rest.
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


def test_one_that_is_fenced_waits_for_the_image():
    replicas, asking = following()
    asking.question(0)
    asking.answered(reply(part(ErrorCode.FENCED_LEADER_EPOCH)), 0, WALL_MS)
    assert (len(asking), asking.question(10**9), asking.idle_ms(0)) == (0, None, None)
    replicas.elect(1)
    asking.follow(replicas[2].partition)
    assert asked(asking.question(0)) == [(FetchPartition(0, 1, 0, -1, 0, 1000),)]


def test_an_answer_to_the_epoch_before_is_dropped_and_the_new_one_asked():
    replicas, asking = following()
    asking.question(0)
    asking.answered(reply(part()), 0, WALL_MS)
    asking.question(0)
    replicas.elect(1)
    asking.follow(replicas[2].partition)
    asking.answered(reply(part(records=record(0))), 0, WALL_MS)
    assert replicas[2].end == 0
    assert asked(asking.question(0)) == [(FetchPartition(0, 1, 0, -1, 0, 1000),)]


def test_what_is_left_is_forgotten_and_what_comes_back_is_not():
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


def test_whoever_must_sync_first_is_told():
    replicas, asking = following(LogConfig(flush_messages=1))
    asking.question(0)
    assert asking.unsynced(0) == []
    asking.answered(reply(part(records=record(0))), 0, WALL_MS)
    assert asking.unsynced(0) == [replicas[2].partition]


def test_whoever_has_unsynced_records_of_another_leader_is_told_to_sync_first():
    replicas, asking = following(LogConfig(flush_messages=1))
    asking.question(0)
    asking.answered(reply(part(records=record(0))), 0, WALL_MS)
    of_the_next_leader = fetching()
    of_the_next_leader.follow(replicas[2].partition)
    assert of_the_next_leader.unsynced(0) == [replicas[2].partition]


def test_whoever_rested_must_sync_first_too():
    replicas, asking = following(LogConfig(flush_messages=1))
    asking.question(0)
    replicas.fetch(2)
    asking.answered(reply(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), 0, WALL_MS)
    assert asking.unsynced(0) == []
    assert asking.unsynced(REST_MS_MIN) == [replicas[2].partition]


def test_a_log_that_failed_is_not_asked_for():
    """To ask for the next record would be to say that the last one is safe."""
    replicas, asking = following(LogConfig(flush_messages=1))
    partition = replicas[2].partition
    asking.question(0)
    asking.answered(reply(part(records=record(0))), 0, WALL_MS)
    partition.log._fail(OSError("sync failed"))
    assert asking.unsynced(0) == []
    assert (asking.question(0), asking.follows(partition)) == (None, False)
    asking.follow(partition)
    assert asking.question(0) is None
