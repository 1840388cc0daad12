"""Fetch sessions: which clients get one, what an incremental reply names, and when one ends."""

from __future__ import annotations

import pytest

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from odradek.protocol.fetch_response import DivergingEpoch, FetchedPartition
from odradek.server.fetch_sessions import EVICTABLE_AFTER_MS, FetchSessions


class HandClock:
    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms


class Drawn:
    def __init__(self, *numbers: int) -> None:
        self._next = iter(numbers)

    def below(self, bound: int) -> int:
        return next(self._next)


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def sessions(clock):
    return FetchSessions(2, clock, Drawn(*range(10, 30)))


def request(session_id=0, epoch=0, partitions=(), forgotten=(), offset=0, leader_epoch=-1, replica=-1):
    wanted = FetchRequest()
    wanted.replica_id = replica
    wanted.session_id = session_id
    wanted.session_epoch = epoch
    fetches = [FetchPartition(index, leader_epoch, offset, -1, -1, 1000) for index in partitions]
    wanted.topics = [FetchTopic("t", fetches)]
    wanted.forgotten = [ForgottenTopic("t", list(forgotten))]
    return wanted


def read(high_watermark=5, region=None, error=ErrorCode.NONE, log_start_offset=0):
    return FetchedPartition(0, error, high_watermark, high_watermark, log_start_offset, region)


def named(plan, reads):
    """Partitions that the reply names, when partition i reads as reads(i)."""
    return [w.fetch.partition for w in plan.wanted if plan.answers(w, reads(w.fetch.partition))]


def refusal(sessions, *args, **kwargs):
    with pytest.raises(KafkaError) as refused:
        sessions.plan(*args, **kwargs)
    return refused.value.code


def test_without_a_session_everything_is_named_each_time(sessions):
    for _ in range(2):
        plan = sessions.plan(request(0, -1, [0, 1]), by_topic_id=False)
        assert plan.session_id == 0
        assert named(plan, lambda _: read()) == [0, 1]
    assert len(sessions) == 0


def test_no_two_sessions_share_an_id(clock):
    sessions = FetchSessions(2, clock, Drawn(7, 7, 8))
    assert [sessions.plan(request(0, 0, [0]), by_topic_id=False).session_id for _ in range(2)] == [8, 9]


def test_an_incremental_reply_names_only_what_changed(sessions):
    first = sessions.plan(request(0, 0, [0, 1, 2]), by_topic_id=False)
    assert named(first, lambda _: read()) == [0, 1, 2]
    session_id = first.session_id
    assert session_id

    same = sessions.plan(request(session_id, 1), by_topic_id=False)
    assert [w.fetch.partition for w in same.wanted] == [0, 1, 2]
    assert named(same, lambda _: read()) == []

    changed = sessions.plan(request(session_id, 2), by_topic_id=False)
    reads = {0: read(high_watermark=6), 1: read(), 2: read(log_start_offset=1)}
    assert named(changed, reads.__getitem__) == [0, 2]


def test_partitions_that_got_records_go_to_the_end(sessions):
    session_id = sessions.plan(request(0, 0, [0, 1, 2]), by_topic_id=False).session_id
    plan = sessions.plan(request(session_id, 1), by_topic_id=False)
    named(plan, lambda index: read(region=object() if index == 0 else None))
    plan = sessions.plan(request(session_id, 2), by_topic_id=False)
    assert [w.fetch.partition for w in plan.wanted] == [1, 2, 0]


def test_an_error_is_named_always_and_its_end_once(sessions):
    session_id = sessions.plan(request(0, 0, [0]), by_topic_id=False).session_id
    answers = []
    for epoch, result in enumerate(
        [read(), read(-1, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, log_start_offset=-1)] * 2 + [read()] * 2, start=1
    ):
        answers.append(named(sessions.plan(request(session_id, epoch), by_topic_id=False), lambda _: result))  # noqa: B023
    assert answers == [[0], [0], [0], [0], [0], []]


def test_the_watermark_sent_with_a_divergence_is_sent_again(sessions):
    session_id = sessions.plan(request(0, 0, [0]), by_topic_id=False).session_id
    diverging = read()
    diverging.diverging_epoch = DivergingEpoch(0, 3)
    answers = [
        named(sessions.plan(request(session_id, epoch), by_topic_id=False), lambda _: result)  # noqa: B023
        for epoch, result in enumerate([diverging, read(), read(), diverging], start=1)
    ]
    assert answers == [[0], [0], [], [0]]


@pytest.mark.parametrize(("offset", "leader_epoch"), [(5, 4), (6, 5), (5, 5)])
def test_a_follower_that_repeats_its_offset_or_changes_its_epoch_gets_the_watermark_again(
    sessions, offset, leader_epoch
):
    """A follower drops answers while its leader epoch changes. The session must send the watermark again."""
    first = sessions.plan(request(0, 0, [0, 1], offset=5, leader_epoch=4), by_topic_id=False)
    assert named(first, lambda _: read()) == [0, 1]
    again = request(first.session_id, 1, [1], offset=offset, leader_epoch=leader_epoch)
    assert named(sessions.plan(again, by_topic_id=False), lambda _: read()) == [1]
    assert named(sessions.plan(request(first.session_id, 2), by_topic_id=False), lambda _: read()) == []


def test_a_follower_that_moved_on_does_not_get_the_same_watermark_again(sessions):
    first = sessions.plan(request(0, 0, [0], offset=4, leader_epoch=4), by_topic_id=False)
    assert named(first, lambda _: read(region=object())) == [0]
    onward = request(first.session_id, 1, [0], offset=5, leader_epoch=4)
    assert named(sessions.plan(onward, by_topic_id=False), lambda _: read()) == []


def test_partitions_are_added_changed_and_forgotten(sessions):
    session_id = sessions.plan(request(0, 0, [0, 1]), by_topic_id=False).session_id
    plan = sessions.plan(request(session_id, 1, [1, 2], forgotten=[0], offset=7), by_topic_id=False)
    assert [(w.fetch.partition, w.fetch.fetch_offset) for w in plan.wanted] == [(1, 7), (2, 7)]


def test_a_session_left_without_partitions_ends(sessions):
    session_id = sessions.plan(request(0, 0, [0]), by_topic_id=False).session_id
    plan = sessions.plan(request(session_id, 1, forgotten=[0]), by_topic_id=False)
    assert (plan.session_id, plan.wanted) == (0, [])
    assert len(sessions) == 0


def test_refusals_name_what_is_wrong_with_the_session(sessions):
    session_id = sessions.plan(request(0, 0, [0]), by_topic_id=False).session_id
    assert refusal(sessions, request(session_id + 1, 1), by_topic_id=False) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert refusal(sessions, request(session_id, 2), by_topic_id=False) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert refusal(sessions, request(session_id, 1), by_topic_id=True) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert sessions.plan(request(session_id, 1), by_topic_id=False).session_id == session_id


def test_epochs_wrap_to_one(sessions):
    session_id = sessions.plan(request(0, 0, [0]), by_topic_id=False).session_id
    sessions._sessions[session_id].epoch = 2**31 - 1
    sessions.plan(request(session_id, 2**31 - 1), by_topic_id=False)
    assert sessions.plan(request(session_id, 1), by_topic_id=False).session_id == session_id


def test_a_session_is_closed_and_replaced_on_request(sessions):
    first = sessions.plan(request(0, 0, [0]), by_topic_id=False).session_id
    second = sessions.plan(request(first, 0, [0]), by_topic_id=False).session_id
    assert second not in (0, first)
    assert len(sessions) == 1
    assert sessions.plan(request(second, -1, [0]), by_topic_id=False).session_id == 0
    assert len(sessions) == 0


def test_a_full_cache_evicts_only_idle_sessions(sessions, clock):
    first = sessions.plan(request(0, 0, [0]), by_topic_id=False).session_id
    clock.now_ms += 1
    second = sessions.plan(request(0, 0, [0]), by_topic_id=False).session_id
    clock.now_ms += EVICTABLE_AFTER_MS
    sessions.plan(request(first, 1), by_topic_id=False)
    assert sessions.plan(request(0, 0, [0]), by_topic_id=False).session_id == 0
    clock.now_ms += 1
    third = sessions.plan(request(0, 0, [0]), by_topic_id=False).session_id
    assert third
    assert refusal(sessions, request(second, 1), by_topic_id=False) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.plan(request(first, 2), by_topic_id=False).session_id == first


def test_the_partitions_of_all_sessions_are_bounded(sessions, monkeypatch):
    monkeypatch.setattr(limits, "fetch_session_partitions_max", 10)
    session_id = sessions.plan(request(0, 0, range(6)), by_topic_id=False).session_id
    assert sessions.plan(request(0, 0, range(5)), by_topic_id=False).session_id == 0
    grown = sessions.plan(request(session_id, 1, range(11)), by_topic_id=False)
    assert grown.session_id == 0
    assert len(grown.wanted) == 11
    assert sessions.plan(request(0, 0, range(10)), by_topic_id=False).session_id


def test_idle_sessions_are_evicted_for_the_partitions_of_others(sessions, clock, monkeypatch):
    monkeypatch.setattr(limits, "fetch_session_partitions_max", 10)
    first = sessions.plan(request(0, 0, range(6)), by_topic_id=False).session_id
    clock.now_ms += EVICTABLE_AFTER_MS
    assert sessions.plan(request(0, 0, range(5)), by_topic_id=False).session_id == 0
    clock.now_ms += 1
    second = sessions.plan(request(0, 0, range(5)), by_topic_id=False).session_id
    assert second
    assert refusal(sessions, request(first, 1), by_topic_id=False) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_that_grows_evicts_idle_sessions(sessions, clock, monkeypatch):
    monkeypatch.setattr(limits, "fetch_session_partitions_max", 10)
    first = sessions.plan(request(0, 0, range(6)), by_topic_id=False).session_id
    second = sessions.plan(request(0, 0, range(4)), by_topic_id=False).session_id
    clock.now_ms += EVICTABLE_AFTER_MS + 1
    assert sessions.plan(request(second, 1, range(10)), by_topic_id=False).session_id == second
    assert refusal(sessions, request(first, 1), by_topic_id=False) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_no_session_is_evicted_when_that_would_not_make_enough_room(sessions, clock, monkeypatch):
    monkeypatch.setattr(limits, "fetch_session_partitions_max", 10)
    idle = sessions.plan(request(0, 0, range(2)), by_topic_id=False).session_id
    clock.now_ms += EVICTABLE_AFTER_MS + 1
    sessions.plan(request(0, 0, range(8), replica=2), by_topic_id=False)
    assert sessions.plan(request(0, 0, range(3), replica=3), by_topic_id=False).session_id == 0
    assert sessions.plan(request(idle, 1), by_topic_id=False).session_id == idle


def test_a_follower_evicts_the_consumer_session_with_the_fewest_partitions(sessions):
    small, large = (sessions.plan(request(0, 0, range(size)), by_topic_id=False).session_id for size in (1, 2))
    follower = sessions.plan(request(0, 0, [0], replica=2), by_topic_id=False).session_id
    assert follower
    assert refusal(sessions, request(small, 1), by_topic_id=False) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.plan(request(large, 1), by_topic_id=False).session_id == large
    assert sessions.plan(request(0, 0, range(3)), by_topic_id=False).session_id == 0


def test_a_follower_evicts_consumer_sessions_for_their_partitions(sessions, monkeypatch):
    monkeypatch.setattr(limits, "fetch_session_partitions_max", 10)
    consumer = sessions.plan(request(0, 0, range(6)), by_topic_id=False).session_id
    follower = sessions.plan(request(0, 0, range(4), replica=2), by_topic_id=False).session_id
    assert sessions.plan(request(follower, 1, range(5), replica=2), by_topic_id=False).session_id == follower
    assert refusal(sessions, request(consumer, 1), by_topic_id=False) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_followers_do_not_evict_each_other(sessions, clock):
    for replica in (2, 3):
        assert sessions.plan(request(0, 0, [0], replica=replica), by_topic_id=False).session_id
    assert sessions.plan(request(0, 0, [0], replica=4), by_topic_id=False).session_id == 0
    clock.now_ms += EVICTABLE_AFTER_MS + 1
    assert sessions.plan(request(0, 0, [0], replica=4), by_topic_id=False).session_id
