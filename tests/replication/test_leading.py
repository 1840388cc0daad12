"""A leader and the progress of its followers: the high watermark, joining and leaving the ISR."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import DirectoryId
from odradek.log.config import LogConfig
from odradek.metadata.image import LOST_DIRECTORY
from odradek.replication.isr import IsrMember
from odradek.replication.serving import Replica
from support.replicas import LAG_MS_MAX, Replicas


def fetched(replicas, follower, offset, *, leader=1, **fields):
    """The follower has everything before `offset` and fetches from there."""
    fetch = replicas[leader].ask()._replace(fetch_offset=offset, last_fetched_epoch=-1, **fields)
    answer = replicas.answer_of(leader, fetch, Replica(follower, replicas[follower].broker_epoch))
    if answer.records is not None:
        answer.records.release()
    return answer


def test_the_high_watermark_is_what_every_in_sync_replica_has():
    replicas = Replicas()
    leader = replicas[1]
    leader.append("a", "b", "c")
    assert leader.high_watermark == 0
    fetched(replicas, 2, 3)
    assert leader.high_watermark == 0
    fetched(replicas, 3, 1)
    assert leader.high_watermark == 1
    assert fetched(replicas, 3, 3).high_watermark == 3


def test_high_watermark_does_not_wait_for_a_replica_outside_the_isr():
    replicas = Replicas(isr=(1, 2))
    replicas[1].append("a")
    fetched(replicas, 2, 1)
    assert replicas[1].high_watermark == 1


def test_acks_all_completes_when_the_last_in_sync_replica_has_the_record():
    replicas = Replicas()
    told = []
    replicas[1].partition.when_committed(replicas[1].append("a", acks=-1).last_offset, told.append)
    fetched(replicas, 2, 1)
    assert told == []
    fetched(replicas, 3, 1)
    assert told == [ErrorCode.NONE]


def test_reelected_leader_starts_without_knowledge_of_follower_progress():
    replicas = Replicas(2)
    replicas[1].append("a")
    fetched(replicas, 2, 1)
    replicas[1].append("b")
    replicas.elect(1)
    assert replicas[1].high_watermark == 1
    fetched(replicas, 2, 2)
    assert replicas[1].high_watermark == 2


def test_leader_with_flush_messages_commits_only_synced_records():
    replicas = Replicas(2, config=LogConfig(flush_messages=1))
    leader = replicas[1]
    leader.append("a")
    fetched(replicas, 2, 1)
    assert leader.high_watermark == 0
    work = leader.log.syncing.begin()
    work.run()
    leader.log.syncing.finish(work)
    leader.partition.synced(work.offset, again=False)
    assert leader.high_watermark == 1


def test_follower_joins_the_isr_when_it_has_all_committed_records():
    replicas = Replicas(2, isr=(1,))
    leader = replicas[1]
    leader.append("a", "b")
    fetched(replicas, 2, 1)
    assert leader.proposals == []
    fetched(replicas, 2, 2)
    (proposal,) = leader.proposals
    assert proposal.isr == (IsrMember(1, 1), IsrMember(2, 1))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (0, 0)
    assert replicas.decide(1) is ErrorCode.NONE
    assert (leader.partition.isr, leader.partition.partition_epoch) == ((1, 2), 1)


def test_follower_joins_the_isr_only_after_it_deleted_the_deleted_records():
    """Records were deleted while it was away. If it led before it knows that, it would bring them back."""
    replicas = Replicas(2, isr=(1,))
    leader = replicas[1]
    leader.append("a", "b")
    leader.log.advance_log_start(1)
    fetched(replicas, 2, 2, log_start_offset=0)
    assert leader.proposals == []
    fetched(replicas, 2, 2, log_start_offset=1)
    assert len(leader.proposals) == 1


def test_high_watermark_waits_for_a_replica_of_a_pending_isr_proposal():
    """Maximal ISR: the controller may accept the change and elect this replica before the leader knows."""
    replicas = Replicas(2, isr=(1,))
    leader = replicas[1]
    fetched(replicas, 2, 0)
    assert len(leader.proposals) == 1
    replicas.now_ms += LAG_MS_MAX + 1
    leader.partition.tick(replicas.now_ms)
    leader.append("a")
    assert leader.high_watermark == 0
    fetched(replicas, 2, 1)
    assert leader.high_watermark == 1


def test_follower_joins_the_isr_of_a_single_leader_under_steady_load():
    replicas = Replicas(2, isr=(1,))
    leader = replicas[1]
    offset = 0
    leader.append("a")
    for value in "bcdefg":
        leader.append(value)
        fetched(replicas, 2, offset)
        offset = leader.end  # the result of this fetch; before the next fetch there are more records
        if leader.proposals:
            break
    assert leader.proposals


def test_stalled_follower_outside_the_isr_delays_commits_only_briefly():
    replicas = Replicas(2, isr=(1,))
    leader = replicas[1]
    leader.append("a")
    replicas.register(2, broker_epoch=2)  # another incarnation than the fetching one: it may not join
    replicas.tell(1)
    fetched(replicas, 2, 1)
    leader.append("b")
    assert leader.high_watermark == 2
    replicas.register(2, broker_epoch=1)
    replicas.tell(1)
    fetched(replicas, 2, 2)
    leader.proposals.clear()
    leader.partition.isr_refused(leader.partition.leading.proposal, ErrorCode.INELIGIBLE_REPLICA, replicas.now_ms)
    leader.append("c")
    assert leader.high_watermark == 2
    replicas.now_ms += LAG_MS_MAX + 1
    leader.partition.tick(replicas.now_ms)
    assert leader.high_watermark == 3


def test_follower_joins_the_isr_only_after_it_reached_the_leaders_epoch_start():
    """Records between the high watermark of a new leader and its log end may be committed."""
    replicas = Replicas(3, isr=(1, 2))
    replicas[1].append("a", "b")
    fetched(replicas, 2, 0)
    replicas.elect(1)
    fetched(replicas, 3, 1)
    assert replicas[1].high_watermark == 0
    assert replicas[1].proposals == []
    fetched(replicas, 3, 2)
    assert len(replicas[1].proposals) == 1


@pytest.mark.parametrize(
    "state", [{"fenced": True}, {"in_controlled_shutdown": True}, {"broker_epoch": 0}, {"broker_epoch": 2}]
)
def test_only_a_live_replica_of_the_registered_incarnation_joins_the_isr(state):
    replicas = Replicas(2, isr=(1,))
    replicas.register(2, **state)
    replicas.tell(1)
    answer = fetched(replicas, 2, 0)
    late = state.get("broker_epoch") == 2
    assert answer.error_code == (ErrorCode.NOT_LEADER_OR_FOLLOWER if late else ErrorCode.NONE)
    assert replicas[1].proposals == []


def test_replica_joins_isr_only_after_its_log_is_reported_online():
    replicas = Replicas(2, isr=(1,))
    own = DirectoryId(bytes(15) + b"\x77")
    replicas.change(directories=(own, LOST_DIRECTORY))
    replicas.tell(1)
    fetched(replicas, 2, 0)
    assert replicas[1].proposals == []
    replicas.change(directories=(own, own))
    replicas.tell(1)
    fetched(replicas, 2, 0)
    assert len(replicas[1].proposals) == 1


def test_fetch_of_an_older_broker_incarnation_is_ignored():
    """KIP-903: the follower restarted without its data while its last fetch was still in flight."""
    replicas = Replicas(2)
    replicas[1].append("a")
    replicas[2].broker_epoch = 2
    replicas.register(2)
    replicas.tell(1)
    replicas[2].broker_epoch = 1
    assert fetched(replicas, 2, 1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replicas[1].high_watermark == 0


def test_lagging_follower_leaves_the_isr():
    replicas = Replicas()
    leader = replicas[1]
    leader.append("a")
    fetched(replicas, 2, 1)
    replicas.now_ms += LAG_MS_MAX
    leader.partition.tick(replicas.now_ms)
    assert leader.proposals == []
    replicas.now_ms += 1
    leader.partition.tick(replicas.now_ms)
    (proposal,) = leader.proposals
    assert proposal.members == (1, 2)
    # The high watermark waits for a removed replica until the controller has agreed.
    assert leader.high_watermark == 0
    assert replicas.decide(1) is ErrorCode.NONE
    assert leader.high_watermark == 1


def test_caught_up_follower_stays_in_the_isr_without_new_records():
    replicas = Replicas(2)
    replicas[1].append("a")
    fetched(replicas, 2, 1)
    replicas.now_ms += 100 * LAG_MS_MAX
    replicas[1].partition.tick(replicas.now_ms)
    assert replicas[1].proposals == []


def test_follower_that_is_always_slightly_behind_stays_in_the_isr():
    replicas = Replicas(2)
    leader = replicas[1]
    offset = 0
    for number in range(20):
        leader.append(str(number))
        fetched(replicas, 2, offset)
        offset = leader.end
        leader.append("more before it asks again")
        replicas.now_ms += LAG_MS_MAX // 4
        leader.partition.tick(replicas.now_ms)
    assert leader.proposals == []


def test_leader_sends_one_isr_proposal_at_a_time():
    replicas = Replicas(isr=(1,))
    fetched(replicas, 2, 0)
    fetched(replicas, 3, 0)
    replicas.now_ms += 10 * LAG_MS_MAX
    replicas[1].partition.tick(replicas.now_ms)
    assert len(replicas[1].proposals) == 1
    replicas.decide(1)
    fetched(replicas, 3, 0)
    assert replicas[1].proposals[0].members == (1, 2, 3)


@pytest.mark.parametrize(("code", "again", "open_still"), [
    (ErrorCode.INELIGIBLE_REPLICA, False, False),
    (ErrorCode.OPERATION_NOT_ATTEMPTED, False, False),
    (ErrorCode.INVALID_UPDATE_VERSION, False, True),
    (ErrorCode.FENCED_LEADER_EPOCH, False, True),
    (ErrorCode.UNKNOWN_TOPIC_ID, False, True),
    (ErrorCode.NOT_CONTROLLER, True, True),
    (ErrorCode.REQUEST_TIMED_OUT, True, True),
])  # fmt: skip
def test_leader_reaction_to_each_error_of_an_isr_proposal(code, again, open_still):
    replicas = Replicas(2, isr=(1,))
    leader = replicas[1]
    fetched(replicas, 2, 0)
    (proposal,) = leader.proposals
    assert leader.partition.isr_refused(proposal, code, replicas.now_ms) is again
    assert (leader.partition.leading.proposal is proposal) is open_still
    if open_still:
        # The next image decides in any case.
        replicas.change(isr=(1,))
        replicas.tell(1)
        assert leader.partition.leading.proposal is None
        assert leader.partition.isr_refused(proposal, code, replicas.now_ms) is False


def test_image_may_arrive_before_the_reply_to_an_isr_proposal():
    replicas = Replicas(2, isr=(1,))
    partition = replicas[1].partition
    fetched(replicas, 2, 0)
    proposal = replicas[1].proposals[0]
    replicas.decide(1, answer=False)
    replicas.tell(1)
    assert (partition.isr, partition.leading.proposal) == ((1, 2), None)
    partition.isr_accepted(proposal, 1, replicas.now_ms)
    assert partition.isr == (1, 2)


def test_accepted_proposal_without_a_new_partition_epoch_is_done():
    replicas = Replicas(2, isr=(1,))
    partition = replicas[1].partition
    fetched(replicas, 2, 0)
    partition.isr_accepted(replicas[1].proposals[0], partition.partition_epoch, replicas.now_ms)
    assert (partition.isr, partition.leading.proposal) == ((1,), None)


def test_isr_change_takes_effect_with_the_min_isr_of_the_same_image():
    """min.insync.replicas was raised before, so a removed replica stays eligible: no commit may happen without it."""
    replicas = Replicas(2)
    leader, told = replicas[1], []
    leader.partition.when_committed(leader.append("a", acks=-1).last_offset, told.append)
    replicas.now_ms += LAG_MS_MAX + 1
    leader.partition.tick(replicas.now_ms)
    (proposal,) = leader.proposals
    replicas.change(isr=(1,))
    leader.partition.isr_accepted(proposal, replicas.image.partition_epoch, replicas.now_ms)
    assert (leader.partition.isr, leader.high_watermark, told) == ((1, 2), 0, [])
    leader.partition.configure(leader.partition.log.config, 2)
    replicas.tell(1)
    assert (leader.partition.isr, leader.high_watermark, told) == ((1,), 0, [])
    assert leader.partition.leading.proposal is None


def test_nothing_is_committed_below_min_insync_replicas():
    """KIP-966: replicas that left the ISR have all committed records, because nothing was committed since."""
    replicas = Replicas(min_isr=2)
    leader = replicas[1]
    told = []
    leader.partition.when_committed(leader.append("a", acks=-1).last_offset, told.append)
    replicas.change(isr=(1,))
    replicas.tell_all()
    with pytest.raises(KafkaError) as refusal:
        leader.append("b", acks=-1)
    assert refusal.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (leader.high_watermark, told) == (0, [])
    leader.append("b", acks=1)
    assert leader.high_watermark == 0
    fetched(replicas, 2, 2)
    replicas.decide(1)
    assert (leader.high_watermark, told) == (2, [ErrorCode.NONE])


def test_min_isr_is_at_most_the_number_of_replicas():
    replicas = Replicas(1, min_isr=2)
    replicas[1].append("a", acks=-1)
    assert replicas[1].high_watermark == 1


def test_isr_shrink_to_the_leader_commits_waiting_records():
    """KAFKA-13091."""
    replicas = Replicas(2)
    replicas[1].append("a")
    replicas.now_ms += LAG_MS_MAX + 1
    replicas[1].partition.tick(replicas.now_ms)
    replicas.decide(1)
    assert replicas[1].high_watermark == 1


def test_replicas_can_be_added_and_removed_under_one_leader():
    replicas = Replicas()
    leader = replicas[1]
    replicas.change(replicas=(1,), isr=(1,))
    replicas.tell(1)
    leader.append("a")
    assert (leader.partition.leading, leader.high_watermark) == (None, 1)
    assert fetched(replicas, 2, 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    replicas.change(replicas=(1, 3))
    replicas.tell(1)
    fetched(replicas, 3, 1)
    assert leader.proposals[0].members == (1, 3)


def test_broker_without_a_replica_cannot_fetch_as_follower():
    replicas = Replicas(2)
    assert fetched(replicas, 9 - 7, 0).error_code == ErrorCode.NONE
    stranger = replicas[1].ask()
    assert replicas.answer_of(1, stranger, Replica(9, 1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    nameless = stranger._replace(current_leader_epoch=-1)
    assert replicas.answer_of(1, nameless, Replica(9, 1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replicas.answer_of(2, stranger, Replica(1, 1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("epoch", "code"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_follower_of_another_epoch_is_not_served_and_not_counted(epoch, code):
    replicas = Replicas(2)
    replicas.elect(1)
    replicas[1].append("a")
    assert fetched(replicas, 2, 1, current_leader_epoch=epoch).error_code == code
    assert replicas[1].high_watermark == 0


def _deletes(replicas, offset):
    """The replies to a DeleteRecords request, in a list that is filled when they come."""
    told = []
    partition = replicas[1].partition
    partition.log.advance_log_start(offset)
    partition.when_trimmed(offset, told.append)
    return told


def test_delete_records_completes_when_all_live_replicas_have_deleted():
    replicas = Replicas()
    replicas[1].append("a", "b", "c")
    replicas.catch_up(2, 3)
    told = _deletes(replicas, 2)
    fetched(replicas, 2, 3, log_start_offset=2)
    assert (told, replicas[1].partition.low_watermark) == ([], 0)
    fetched(replicas, 3, 3, log_start_offset=1)
    assert (told, replicas[1].partition.low_watermark) == ([], 1)
    fetched(replicas, 3, 3, log_start_offset=2)
    assert (told, replicas[1].partition.low_watermark) == ([ErrorCode.NONE], 2)


def test_delete_records_of_what_all_replicas_have_deleted_already_completes_at_once():
    replicas = Replicas()
    replicas[1].append("a", "b", "c")
    replicas.catch_up(2, 3)
    _deletes(replicas, 2)
    for follower in (2, 3):
        fetched(replicas, follower, 3, log_start_offset=2)
    assert _deletes(replicas, 2) == [ErrorCode.NONE]


def test_delete_records_does_not_wait_for_dead_replicas():
    replicas = Replicas()
    replicas[1].append("a", "b")
    replicas.catch_up(2, 3)
    told = _deletes(replicas, 1)
    fetched(replicas, 2, 2, log_start_offset=1)
    replicas.register(3, fenced=True)
    replicas.tell(1)
    replicas[1].partition.tick(0)
    assert told == [ErrorCode.NONE]


@pytest.mark.parametrize("left", [(1,), (1, 2)])
def test_delete_records_does_not_wait_for_a_replica_that_was_moved_away(left):
    replicas = Replicas()
    replicas[1].append("a", "b")
    replicas.catch_up(2, 3)
    told = _deletes(replicas, 1)
    fetched(replicas, 2, 2, log_start_offset=1)
    assert told == []
    replicas.change(replicas=left, isr=left)
    replicas.tell(1)
    assert told == [ErrorCode.NONE]


def _deletes_while_2_is_away_and_eligible():
    replicas = Replicas(2, min_isr=2)
    replicas[1].append("a", "b")
    replicas.catch_up(2)
    replicas.register(2, fenced=True)
    replicas.change(isr=(1,), elr=(2,))
    replicas.tell(1)
    told = _deletes(replicas, 1)
    return replicas, told


def test_delete_records_waits_for_dead_replicas_that_are_eligible_to_lead():
    """If it were elected before it followed a leader, it would bring back the deleted records."""
    replicas, told = _deletes_while_2_is_away_and_eligible()
    replicas[1].partition.tick(0)
    assert (told, replicas[1].partition.low_watermark) == ([], 0)
    replicas.register(2, fenced=False)
    replicas.tell(1)
    fetched(replicas, 2, 2, log_start_offset=1)
    assert told == [ErrorCode.NONE]


def test_delete_records_stops_waiting_for_a_replica_that_is_no_longer_eligible():
    """It restarted and lost its unsynced records."""
    replicas, told = _deletes_while_2_is_away_and_eligible()
    replicas.change(elr=())
    replicas.tell(1)
    replicas[1].partition.tick(0)
    assert told == [ErrorCode.NONE]


def test_delete_records_fails_when_the_leader_changes():
    replicas = Replicas()
    replicas[1].append("a", "b")
    replicas.catch_up(2, 3)
    told = _deletes(replicas, 1)
    replicas.elect(2)
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
