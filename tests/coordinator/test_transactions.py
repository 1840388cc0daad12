"""The transaction coordinator step by step: epochs, fencing, outcomes, markers, failover, time-outs."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import NO_BROKER, TopicPartition
from odradek.base.invariants import InvariantBroken
from odradek.base.limits import producer_epoch_max as EPOCH_MAX
from odradek.coordinator.transaction.ending import Ending
from odradek.coordinator.transaction.shard import RETRY_MS, Joining
from odradek.coordinator.transaction.states import (
    END_ANSWERS,
    END_ANSWERS_BY_EPOCH,
    TRANSITIONS,
    Happening,
    State,
    next_state,
)
from support.transaction_story import ID, A, Answered, B, C, TransactionStory

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
UNKNOWN_ID = ErrorCode.INVALID_PRODUCER_ID_MAPPING
INVALID_STATE = ErrorCode.INVALID_TXN_STATE


# A transaction from its begin to its end.


def test_a_producer_gets_an_id_and_its_epoch_grows_with_each_initialization():
    story = TransactionStory()
    first = story.init().value
    assert first == (1001, 0)
    assert story.init().value == (1001, 1)
    assert story.init(transactional_id="other").value == (1002, 0)


def test_a_committed_transaction_is_marked_in_every_partition_and_then_complete():
    story = TransactionStory()
    producer_id, epoch = story.begun(A, B)
    assert story.state == "Ongoing"
    story.holds_markers = True
    assert story.end((producer_id, epoch)).value == (producer_id, epoch + 1)
    assert (story.state, story.written) == ("PrepareCommit", [])
    story.answer_all()
    assert story.state == "CompleteCommit"
    assert story.written == [(A, producer_id, 1, True), (B, producer_id, 1, True)]
    assert story.transaction.partitions == ()


def test_a_transaction_is_not_complete_before_every_partition_has_its_marker():
    story = TransactionStory()
    producer = story.begun(A, B)
    story.holds_markers = True
    story.end(producer)
    story.answer(story.asked[0])
    assert (story.state, len(story.written)) == ("PrepareCommit", 1)
    story.answer_all()
    assert (story.state, len(story.written)) == ("CompleteCommit", 2)


def test_an_older_client_keeps_its_epoch():
    story = TransactionStory()
    producer = story.begun(A, version=0)
    assert story.end(producer, version=0).value == producer
    assert story.written == [(A, *producer, True)]
    assert story.join(producer, B, version=0).code is NONE
    assert story.end(producer, commits=False, version=0).code is NONE
    assert story.written[1:] == [(B, *producer, False)]


def test_partitions_join_one_after_the_other_and_again():
    story = TransactionStory()
    producer = story.begun(B)
    end = story.partition.end
    assert story.join(producer, B).code is NONE
    assert story.partition.end == end, "nothing to write"
    assert story.join(producer, A, B).code is NONE
    assert story.transaction.partitions == (A, B)


def test_the_start_of_a_transaction_is_its_first_partition():
    story = TransactionStory()
    producer = story.init().value
    story.pass_time(500)
    story.join(producer, A)
    began = story.ms
    story.pass_time(500)
    story.join(producer, B)
    assert story.transaction.started_ms == began


# Nothing leaves before it is committed.


def test_nothing_is_answered_or_sent_before_it_is_committed():
    story = TransactionStory()
    producer = story.init().value
    story.partition.replicates_at_once = False
    joined = story.join(producer, A)
    again = story.join(producer, A)
    verified = story.verify(producer, A)
    ended = story.end(producer)
    assert [each.given for each in (joined, again, verified, ended)] == [[]] * 4
    story.partition.replicate(2)
    assert (joined.code, again.code, verified.value) == (NONE, NONE, {A: NONE})
    assert (ended.given, story.written) == ([], [])
    story.partition.replicates_at_once = True
    story.partition.replicate(story.partition.end)
    assert ended.code is NONE
    assert story.written == [(A, producer.producer_id, 1, True)]


def test_an_outcome_that_commits_late_is_still_carried_out():
    story = TransactionStory()
    producer = story.begun(A)
    story.partition.replicates_at_once = False
    ended = story.end(producer)
    story.pass_time(5000)
    assert ended.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    story.pass_time(60_000)
    assert (story.state, story.written) == ("PrepareCommit", [])
    story.partition.replicates_at_once = True
    story.partition.replicate(story.partition.end)
    assert story.state == "CompleteCommit"
    assert story.end(producer).value == (producer.producer_id, 1)


def test_a_refused_write_changes_nothing():
    story = TransactionStory()
    producer = story.begun(A)
    story.partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert story.end(producer).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (story.state, story.written) == ("Ongoing", [])
    story.partition.refusal = NONE
    assert story.end(producer).code is NONE


def test_completion_that_cannot_be_stored_is_retried():
    story = TransactionStory()
    producer = story.begun(A)
    story.holds_markers = True
    story.end(producer)
    story.partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    story.answer_all()
    assert story.state == "PrepareCommit"
    story.pass_time(1000)
    story.partition.refusal = NONE
    story.pass_time(100)
    assert story.state == "CompleteCommit"
    assert len(story.written) == 1, "its marker is not written again"


# T4: one open transaction per id, older producers are fenced.


def test_t4_a_new_producer_aborts_the_transaction_of_the_old_one_and_gets_a_higher_epoch():
    story = TransactionStory()
    old = story.begun(A, B)
    new = story.init()
    assert story.written == [(A, old.producer_id, 1, False), (B, old.producer_id, 1, False)]
    story.pass_time(0)
    assert new.value == (old.producer_id, 2)
    assert story.join(old, A).code is FENCED
    assert story.end(old).code is FENCED
    assert story.verify(old, A).code is FENCED


def test_t4_a_new_producer_waits_for_the_end_of_the_old_transaction_and_not_for_ever():
    story = TransactionStory()
    story.begun(A)
    story.holds_markers = True
    new = story.init()
    assert new.given == []
    story.pass_time(99)
    assert new.given == []
    story.pass_time(1)
    assert new.code is CONCURRENT
    again = story.init()
    story.answer_all()
    story.pass_time(0)
    assert again.value.producer_epoch == 2


def test_t4_a_replaced_producer_cannot_get_another_epoch():
    story = TransactionStory()
    old = story.begun(A)
    story.end(old)
    current = story.init().value
    assert story.init(expected=old).code is FENCED
    assert story.init(expected=(999, 0)).code is FENCED
    story.join(current, A)
    assert story.init(expected=old).code is FENCED
    assert story.state == "Ongoing", "a replaced producer does not abort the transaction of its successor"


def test_a_producer_that_names_its_epoch_gets_the_next_one_and_the_same_for_a_retry():
    story = TransactionStory()
    producer = story.init().value
    bumped = story.init(expected=producer).value
    assert bumped == (producer.producer_id, 1)
    assert story.init(expected=producer).value == bumped
    assert story.init(expected=bumped).value == (producer.producer_id, 2)


def test_an_unknown_producer_is_refused():
    story = TransactionStory()
    assert story.join((1, 0), A).code is UNKNOWN_ID
    assert story.end((1, 0)).code is UNKNOWN_ID
    assert story.verify((1, 0), A).code is UNKNOWN_ID
    producer = story.init().value
    for other in ((producer.producer_id + 1, 0), (producer.producer_id - 1, 0)):
        assert story.join(other, A).code is UNKNOWN_ID
        assert story.end(other).code is UNKNOWN_ID
    assert story.join((producer.producer_id, 1), A).code is FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_outside_the_limits_is_refused(timeout_ms):
    story = TransactionStory()
    assert story.init(timeout_ms=timeout_ms).code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert story.shard.transactions.newest == {}


# T5: EndTxn affects the transaction of its epoch only.


def test_t5_a_delayed_end_of_an_earlier_transaction_cannot_end_the_next_one():
    story = TransactionStory()
    first = story.begun(A)
    second = story.end(first).value
    story.join(second, A)
    assert story.end(first, commits=False).code is FENCED
    assert story.end(first, commits=True).code is FENCED
    assert story.join(first, B).code is FENCED
    assert (story.state, story.transaction.partitions) == ("Ongoing", (A,))


def test_t5_a_retried_end_gets_the_same_answer_even_after_completion():
    story = TransactionStory()
    first = story.begun(A)
    second = story.end(first).value
    assert story.end(first).value == second
    assert story.end(first, commits=False).code is INVALID_STATE
    assert story.written == [(A, *second, True)]


def test_an_older_client_can_end_its_next_transaction_with_a_delayed_request():
    """What KIP-890 fixes, and what remains for clients without it: the two transactions have the same epoch."""
    story = TransactionStory()
    producer = story.begun(A, version=0)
    story.end(producer, version=0)
    story.join(producer, B, version=0)
    assert story.end(producer, version=0).code is NONE
    assert story.written == [(A, *producer, True), (B, *producer, True)]


def test_an_abort_of_nothing_bumps_the_epoch_and_a_commit_of_nothing_is_refused():
    story = TransactionStory()
    producer = story.init().value
    assert story.end(producer, commits=True).code is INVALID_STATE
    bumped = story.end(producer, commits=False).value
    assert bumped == (producer.producer_id, 1)
    assert story.end(producer, commits=False).value == bumped, "a retry"
    assert story.end(bumped, commits=False).value == (producer.producer_id, 2), "the next one"
    assert story.end((producer.producer_id, 2), commits=True).code is INVALID_STATE
    assert story.written == []


def test_older_clients_cannot_end_nothing():
    story = TransactionStory()
    producer = story.init().value
    assert story.end(producer, commits=False, version=0).code is INVALID_STATE


def test_a_request_for_the_next_transaction_waits_for_the_end_of_this_one():
    story = TransactionStory()
    first = story.begun(A)
    story.holds_markers = True
    second = story.end(first).value
    impatient = story.join(second, B)
    assert impatient.code is CONCURRENT
    patient = story.join(second, B, waits=True)
    aborting = story.end(second, commits=False)
    assert (patient.given, aborting.given) == ([], [])
    story.answer_all()
    story.pass_time(0)
    assert (patient.code, aborting.code) == (NONE, NONE)
    assert story.written == [(A, *second, True), (B, second.producer_id, 2, False)]


def test_requests_that_wait_are_limited(monkeypatch):
    monkeypatch.setattr("odradek.base.limits.waiting_requests_per_transactional_id_max", 2)
    story = TransactionStory()
    first = story.begun(A)
    story.holds_markers = True
    second = story.end(first).value
    waiting = [story.join(second, B, waits=True) for _ in range(3)]
    assert [bool(each.given) for each in waiting] == [False, False, True]
    assert waiting[2].code is CONCURRENT


# Verification.


def test_verification_tells_which_partitions_are_part_of_the_open_transaction():
    story = TransactionStory()
    producer = story.begun(A, version=0)
    assert story.verify(producer, A, B).value == {A: NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
    story.holds_markers = True
    story.end(producer, version=0)
    assert story.verify(producer, A).code is CONCURRENT
    story.answer_all()
    assert story.verify(producer, A).value == {A: ErrorCode.TRANSACTION_ABORTABLE}


# Markers.


def test_a_marker_follows_its_partition_to_another_leader():
    story = TransactionStory()
    producer = story.begun(A, B)
    story.holds_markers = True
    story.end(producer)
    [to_a, to_b] = story.asked
    assert [each.broker_id for each in (to_a, to_b)] == [1, 2]
    story.move({B: 3})
    story.lose(to_b)
    story.answer(to_a)
    assert story.state == "PrepareCommit"
    story.pass_time(100)
    assert [each.broker_id for each in story.asked] == [3]
    story.answer_all()
    assert story.state == "CompleteCommit"
    assert sorted(partition for partition, *_ in story.written) == [A, B]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ],
)
def test_a_refused_marker_is_sent_again(code):
    story = TransactionStory()
    producer = story.begun(A, B)
    story.marker_codes[A] = code
    story.end(producer)
    story.pass_time(1000)
    assert story.state == "PrepareCommit"
    assert [partition for partition, *_ in story.written] == [B]
    del story.marker_codes[A]
    story.pass_time(100)
    assert story.state == "CompleteCommit"
    assert [partition for partition, *_ in story.written] == [B, A]


def test_a_partition_that_knows_a_newer_epoch_needs_no_marker():
    story = TransactionStory()
    producer = story.begun(A)
    story.marker_codes[A] = ErrorCode.INVALID_PRODUCER_EPOCH
    story.end(producer)
    assert story.state == "CompleteCommit"


def test_a_deleted_topic_needs_no_marker():
    story = TransactionStory()
    producer = story.begun(A, B)
    story.move({B: None})
    story.end(producer)
    assert story.state == "CompleteCommit"
    following = story.init().value
    story.join(following, A, C)
    story.marker_codes[C] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    story.end(following)
    assert story.state == "PrepareCommit"
    story.move({C: None})
    assert story.state == "CompleteCommit"


def test_a_partition_without_a_leader_gets_its_marker_when_it_has_one():
    story = TransactionStory()
    producer = story.begun(A)
    story.move({A: NO_BROKER})
    story.end(producer)
    story.pass_time(5000)
    assert (story.state, story.written) == ("PrepareCommit", [])
    story.move({A: 2})
    assert story.state == "CompleteCommit"


def test_markers_of_several_transactions_gather_while_a_leader_is_busy():
    story = TransactionStory()
    producers = {}
    for name in ("one", "two", "three"):
        producers[name] = story.init(transactional_id=name).value
    story.holds_markers = True
    for name, producer in producers.items():
        joining = Joining(transactional_id=name, producer=producer, partitions=[A], client_version=2, waits=False)
        story.perform(story.shard.join(joining, Answered(), story.now))
        ending = Ending(transactional_id=name, producer=producer, commits=True, client_version=2)
        story.perform(story.shard.end(ending, Answered(), story.now))
    [first] = story.asked
    assert len(first.request.markers) == 1
    story.answer(first)
    [second] = story.asked
    assert [marker.producer_id for marker in second.request.markers] == [
        producers["two"].producer_id,
        producers["three"].producer_id,
    ]
    story.answer(second)
    assert {each.state for each in story.shard.transactions.newest.values()} == {State.COMPLETE_COMMIT}


def test_transactions_that_end_together_are_completed_in_several_turns(monkeypatch):
    monkeypatch.setattr("odradek.coordinator.transaction.shard.CHANGES_PER_TURN", 2)
    story = TransactionStory(timed_out_check_interval_ms=1000)
    story.holds_markers = True
    for number in range(5):
        producer = story.init(transactional_id=f"{number}", timeout_ms=1).value
        joining = Joining(
            transactional_id=f"{number}", producer=producer, partitions=[A], client_version=2, waits=False
        )
        story.perform(story.shard.join(joining, Answered(), story.now))
    story.pass_time(2000)
    story.answer_all()
    story.pass_time(0)
    assert {each.state for each in story.shard.transactions.newest.values()} == {State.COMPLETE_ABORT}


def test_nothing_is_done_again_and_again_once_every_marker_is_confirmed():
    story = TransactionStory()
    story.marker_codes[B] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    producer = story.begun(A, B)
    story.end(producer)
    story.marker_codes.clear()
    timers = len(story.timers)
    story.pass_time(RETRY_MS)
    assert story.state == "CompleteCommit"
    assert len(story.timers) < timers


def test_a_request_has_a_limited_number_of_markers(monkeypatch):
    monkeypatch.setattr("odradek.base.limits.marker_partitions_per_request_max", 1)
    story = TransactionStory()
    story.leaders = dict.fromkeys((A, B, C), 1)
    story.move({})
    producer = story.begun(A, B, C)
    story.holds_markers = True
    story.end(producer)
    for _ in range(3):
        [question] = story.asked
        assert len(question.request.markers) == 1
        story.answer(question)
    assert story.state == "CompleteCommit"


# T6: failover in every state.


def test_t6_a_new_coordinator_knows_the_producer_and_the_open_transaction():
    story = TransactionStory()
    producer = story.begun(A)
    story.fail_over()
    assert story.state == "Ongoing"
    assert story.join(producer, B).code is NONE
    assert story.end(producer).code is NONE
    assert sorted(partition for partition, *_ in story.written) == [A, B]


@pytest.mark.parametrize("commits", [True, False])
def test_t6_a_new_coordinator_completes_what_was_decided(commits):
    story = TransactionStory()
    producer = story.begun(A, B)
    story.holds_markers = True
    following = story.end(producer, commits=commits).value
    story.answer(story.asked[0])
    assert story.written == [(A, *following, commits)]
    story.fail_over()
    assert story.state == ("PrepareCommit" if commits else "PrepareAbort")
    epochs = {marker.coordinator_epoch for question in story.asked for marker in question.request.markers}
    assert epochs == {6}, "the new coordinator's epoch fences the old one"
    story.answer_all()
    assert story.state == ("CompleteCommit" if commits else "CompleteAbort")
    assert story.written[1:] == [(A, *following, commits), (B, *following, commits)]
    assert story.end(producer, commits=commits).value == following


def test_t6_what_was_not_committed_by_the_old_coordinator_was_not_told_to_anyone():
    story = TransactionStory()
    producer = story.begun(A)
    story.partition.replicates_at_once = False
    ended = story.end(producer)
    story.partition.end -= 1
    story.partition.batches = story.partition.batches[: _length_without_last(story.partition.batches)]
    story.fail_over()
    assert ended.code is ErrorCode.NOT_COORDINATOR
    assert (story.state, story.written) == ("Ongoing", [])


def _length_without_last(batches: bytearray) -> int:
    from odradek.protocol.batch import iter_batches

    sizes = [header.size_bytes for header, _ in iter_batches(bytes(batches))]
    return sum(sizes[:-1])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_field_survives_a_failover(version):
    story = TransactionStory(transaction_version=version)
    story.begun(A, B, version=version)
    before = story.transaction
    story.fail_over()
    after = story.transaction
    if version == 0:
        assert (after.producer, after.state, after.partitions) == (before.producer, before.state, before.partitions)
        assert after.started_ms == before.started_ms
    else:
        assert after == before


# T8: epochs are exhausted.


def at_epoch(story: TransactionStory, epoch: int) -> tuple[int, int]:
    """A producer whose epoch is `epoch`."""
    from dataclasses import replace

    producer_id = story.init().value.producer_id
    views = story.shard.transactions
    views.newest[ID] = replace(views.newest[ID], producer_epoch=epoch)
    return producer_id, epoch


def test_t8_initialization_rotates_the_producer_id_when_its_epochs_are_used_up():
    story = TransactionStory()
    last = at_epoch(story, EPOCH_MAX - 2)
    assert story.init().value == (last[0], EPOCH_MAX - 1)
    rotated = story.init().value
    assert rotated == (story.next_producer_id, 0)
    assert rotated.producer_id != last[0]
    assert story.init(expected=(last[0], EPOCH_MAX - 1)).code is FENCED, "another producer has asked for it"


def test_t8_a_producer_that_names_its_last_epoch_gets_the_same_new_id_for_a_retry():
    story = TransactionStory()
    last = at_epoch(story, EPOCH_MAX - 1)
    rotated = story.init(expected=last).value
    assert rotated.producer_epoch == 0
    assert story.init(expected=last).value == rotated


@pytest.mark.parametrize("commits", [True, False])
def test_t8_the_end_of_a_transaction_rotates_the_producer_id(commits):
    story = TransactionStory()
    last = at_epoch(story, EPOCH_MAX - 1)
    story.join(last, A)
    story.holds_markers = True
    rotated = story.end(last, commits=commits).value
    assert rotated == (story.next_producer_id, 0)
    ahead = story.join(rotated, B, waits=True)
    assert ahead.given == [], "the producer is ahead of the markers"
    assert story.join(rotated, B).code is CONCURRENT
    story.answer_all()
    assert story.written == [(A, last[0], EPOCH_MAX, commits)]
    story.pass_time(0)
    assert ahead.code is NONE
    assert story.end(rotated).value == (rotated.producer_id, 1)


def test_t8_a_retried_end_gets_the_new_producer_id_after_a_failover_too():
    story = TransactionStory()
    last = at_epoch(story, EPOCH_MAX - 1)
    story.join(last, A)
    rotated = story.end(last).value
    assert story.end(last).value == rotated
    story.fail_over()
    assert story.end(last).value == rotated
    assert story.end(last, commits=False).code is INVALID_STATE


def test_t8_a_producer_with_used_up_epochs_can_be_fenced():
    story = TransactionStory(timed_out_check_interval_ms=1000)
    last = at_epoch(story, EPOCH_MAX - 1)
    story.join(last, A)
    story.pass_time(62_000)
    assert story.written == [(A, last[0], EPOCH_MAX, False)]
    assert story.transaction.producer == (story.next_producer_id, 0)
    assert story.end(last, commits=True).code is INVALID_STATE
    assert story.init().value == (story.next_producer_id, 1)


# Time-outs and expiry.


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(version):
    story = TransactionStory(transaction_version=version, timed_out_check_interval_ms=1000)
    producer = story.begun(A, B, version=version)
    story.pass_time(60_000)
    assert story.state == "Ongoing"
    story.pass_time(1000)
    assert story.state == "CompleteAbort"
    assert story.written == [(A, producer.producer_id, 1, False), (B, producer.producer_id, 1, False)]
    assert story.join(producer, A, version=version).code is FENCED
    if version == 0:
        assert story.end(producer, version=0).code is FENCED
    else:
        assert story.end(producer).code is INVALID_STATE
        assert story.end(producer, commits=False).value == (producer.producer_id, 1)


def test_large_transactions_that_time_out_together_are_aborted_in_several_batches(monkeypatch):
    """One batch would be larger than `max.message.bytes`: refused each time, with all of them open for ever."""
    monkeypatch.setattr("odradek.coordinator.transaction.shard.PARTITIONS_PER_TURN", 500)
    story = TransactionStory(timed_out_check_interval_ms=1000)
    story.partition.batch_bytes_max = 1500
    partitions = [TopicPartition("wide", index) for index in range(200)]
    names = ("one", "two", "three")
    for name in names:
        story.join(story.init(transactional_id=name).value, *partitions, transactional_id=name)
    story.pass_time(62_000)
    states = [story.shard.transactions.newest[name].state for name in names]
    assert states == [State.COMPLETE_ABORT] * 3


def test_a_transaction_whose_abort_could_not_be_written_is_aborted_by_the_next_check():
    story = TransactionStory(timed_out_check_interval_ms=1000)
    story.begun(A)
    story.partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    story.pass_time(62_000)
    assert story.state == "Ongoing"
    story.partition.refusal = ErrorCode.NONE
    story.pass_time(1000)
    assert story.state == "CompleteAbort"


def test_a_new_coordinator_aborts_what_takes_too_long_and_removes_what_is_not_used():
    story = TransactionStory(timed_out_check_interval_ms=1000, expired_check_interval_ms=1000, expiration_ms=100_000)
    story.begun(A)
    story.init(transactional_id="idle")
    story.pass_time(30_000)
    story.fail_over()
    story.pass_time(29_000)
    assert story.state == "Ongoing"
    story.pass_time(2000)
    assert story.state == "CompleteAbort"
    story.pass_time(40_000)
    assert list(story.shard.transactions.newest) == [ID]
    story.pass_time(62_000)
    assert story.shard.transactions.newest == {}


def test_a_transactional_id_expires_when_it_has_not_been_used():
    story = TransactionStory(expiration_ms=10_000, expired_check_interval_ms=1000)
    story.init(transactional_id="idle")
    story.begun(A)
    story.pass_time(11_000)
    assert list(story.shard.transactions.newest) == [ID], "an open transaction does not expire"
    story.fail_over()
    assert list(story.shard.transactions.newest) == [ID]


# The tables.


def test_a_transition_that_is_not_in_the_table_names_itself():
    with pytest.raises(InvariantBroken, match="PrepareCommit cannot take ABORT"):
        next_state(State.PREPARE_COMMIT, Happening.ABORT)


def test_decided_transaction_stays_decided():
    for state in (State.PREPARE_COMMIT, State.PREPARE_ABORT):
        assert [happening for at, happening in TRANSITIONS if at is state] == [Happening.COMPLETED]


def test_every_end_has_an_answer_or_a_transition():
    for state in State:
        for commits in (True, False):
            happening = Happening.COMMIT if commits else Happening.ABORT
            can_begin = (state, happening) in TRANSITIONS
            assert ((state, commits) in END_ANSWERS) or can_begin
            for is_retry in (True, False):
                answered = (state, commits, is_retry) in END_ANSWERS_BY_EPOCH
                impossible = is_retry == (state in (State.EMPTY, State.ONGOING)) or (not is_retry and state.is_prepared)
                assert answered or can_begin or impossible, (state, commits, is_retry)
