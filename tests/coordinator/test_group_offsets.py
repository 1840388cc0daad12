"""Committed offsets: which clients may commit, what readers see, what expires."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.effects import Producer
from odradek.coordinator.group.changes import CommittedOffset, OffsetStored, PartitionKey
from odradek.coordinator.group.offsets import OffsetStore
from odradek.coordinator.group.shard import EXPIRY_TIMER, PURGE_TIMER, REMOVED_PER_TURN
from odradek.coordinator.group.states import GroupState
from support.group_story import GROUP, Story, subscription

PRODUCER = Producer(7, 0)
RETENTION_MS = 60_000
CHECK_MS = 1000


def expiring_story() -> Story:
    story = Story(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS)
    story.load()
    return story


def test_t46_a_member_commits_while_stable_and_while_others_rejoin_but_not_while_the_leader_assigns():
    story = Story()
    ids = story.form("alice", "bob")
    assert story.commit_offset(1, ids["alice"], 1) is ErrorCode.NONE
    story.join("bob", ids["bob"], topics=("new",))
    assert story.group.state is GroupState.PREPARING_REBALANCE
    assert story.commit_offset(2, ids["alice"], 1) is ErrorCode.NONE
    story.join("alice", ids["alice"])
    assert story.group.state is GroupState.COMPLETING_REBALANCE
    assert story.commit_offset(3, ids["alice"], 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert story.committed().offset == 2


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [
        ("alice", 0, ErrorCode.ILLEGAL_GENERATION),
        ("alice", 2, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_g4_a_commit_from_another_generation_or_from_a_non_member_is_refused(member, generation, error):
    story = Story()
    ids = story.form("alice")
    assert story.commit_offset(5, ids.get(member, member), generation) is error
    assert story.committed() is None


def test_t46_a_member_of_a_group_that_became_empty_is_unknown():
    story = Story()
    ids = story.form("alice")
    story.leave((ids["alice"], None))
    assert story.commit_offset(5, ids["alice"], 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_t50_a_simple_consumer_commits_without_membership_only_while_the_group_has_no_members():
    story = Story()
    assert story.commit_offset(7) is ErrorCode.NONE
    assert story.group.protocol_type is None
    story.form("alice")
    assert story.commit_offset(8) is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.committed().offset == 7


@pytest.mark.parametrize(("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_a_group_that_does_not_exist(version, error):
    story = Story()
    assert story.commit_offset(7, "alice", 3, version=version) is error


def test_t50_commit_metadata_is_returned_unchanged_and_has_a_limit():
    story = Story()
    odd = "tab\tnul\x00end é 🚚"
    story.commit_offset(1, metadata=odd)
    assert story.committed().metadata == odd
    assert story.replayed().committed_offsets(GROUP)[PartitionKey("orders", 0)].metadata == odd
    assert story.commit_offset(2, metadata="x" * 4096) is ErrorCode.NONE
    assert story.commit_offset(3, metadata="x" * 4097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert story.committed().offset == 2
    story.commit_offset(4, metadata=None)
    assert story.committed().metadata == ""


def test_a_commit_counts_as_a_sign_of_life():
    story = Story()
    ids = story.form("alice", session_ms=10_000)
    story.pass_time(9000)
    story.commit_offset(1, ids["alice"], 1)
    story.pass_time(9000)
    assert ids["alice"] in story.group.members


def test_readers_see_an_offset_only_once_it_is_committed():
    story = Story()
    story.commit_offset(1)
    story.held = True
    assert story.commit_offset(2) is None
    assert story.committed().offset == 1
    story.commit()
    assert story.committed().offset == 2


def test_offsets_of_a_replaced_member_are_refused_in_a_transaction_too():
    """Without an answer the producer would wait until its request times out."""
    story = Story()
    ids = story.form("alice")
    assert story.commit_offset(1, ids["alice"], 1, producer=PRODUCER) is ErrorCode.NONE
    assert story.commit_offset(2, ids["alice"], 0, producer=PRODUCER) is ErrorCode.ILLEGAL_GENERATION
    assert story.commit_offset(2, "stranger", 1, producer=PRODUCER) is ErrorCode.UNKNOWN_MEMBER_ID


def test_readers_see_a_deletion_only_once_it_is_committed():
    story = Story()
    story.commit_offset(1)
    story.held = True
    story.perform(story.shard.delete(GROUP, "admin", story.now))
    assert story.committed().offset == 1
    story.commit()
    assert story.committed() is None


def test_a_commit_that_cannot_be_appended_changes_nothing():
    story = Story()
    story.commit_offset(1)
    story.append_error = ErrorCode.NOT_COORDINATOR
    assert story.commit_offset(2) is ErrorCode.NOT_COORDINATOR
    assert story.committed().offset == 1
    assert story.shard.offsets.latest(GROUP)[PartitionKey("orders", 0)].offset == 1


def committed_in_a_group_that_was_given_up(**config) -> Story:
    """The first JoinGroup could not be stored in time; a commit that came meanwhile was stored."""
    story = Story(**config)
    story.held = True
    assert story.join("alice").error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert story.commit_offset(7) is None
    story.give_up_oldest_write()
    story.commit()
    assert story.answer("committer").topics[0].partitions[0].error_code == 0
    return story


def test_an_acknowledged_offset_outlives_the_group_whose_first_record_took_too_long():
    story = committed_in_a_group_that_was_given_up()
    assert story.committed().offset == 7
    assert story.group == story.replayed().groups[GROUP], "as a restart would find it"
    assert story.join("alice", "alice-1").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    story.form("alice")
    assert story.committed().offset == 7


def test_a_member_whose_group_could_not_be_stored_leaves_its_offset_in_an_empty_group():
    story = Story()
    story.held = True
    story.join("alice", knows_its_id=True)
    story.pass_time(0)
    alice = story.answer("alice").member_id
    story.join("bob", knows_its_id=True)
    assert story.commit_offset(7, alice, 1) is None, "while bob waits for her to rejoin"
    story.give_up_oldest_write()
    assert story.answer("bob").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    story.commit()
    assert story.committed().offset == 7
    assert (story.group.state, story.group.members) == (GroupState.EMPTY, {})
    assert story.heartbeat(alice, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    story.pass_time(600_000)
    story.form("alice", "bob")


def test_the_offset_of_a_group_that_could_not_be_stored_can_be_deleted_and_expires():
    story = committed_in_a_group_that_was_given_up()
    story.perform(story.shard.delete(GROUP, "admin", story.now))
    assert story.answers["admin"] == [None]
    assert story.committed() is None
    assert story.replayed().groups == story.shard.groups == {}

    story = committed_in_a_group_that_was_given_up(offsets_retention_ms=1000, offsets_retention_check_interval_ms=100)
    story.load()
    story.pass_time(900)
    assert story.committed().offset == 7
    story.pass_time(200)
    assert story.committed() is None
    assert story.replayed().groups == story.shard.groups == {}


def test_offsets_are_committed_as_far_as_the_high_watermark_and_no_further():
    offsets, key = OffsetStore(), PartitionKey("orders", 0)
    for at in range(3):
        offsets.put(OffsetStored(GROUP, key, CommittedOffset(100 + at, -1, "", 0)), at)
    offsets.commit(2)
    assert offsets.committed(GROUP)[key].offset == 101
    assert offsets.latest(GROUP)[key].offset == 102
    offsets.commit(3)
    assert offsets.committed(GROUP) == offsets.latest(GROUP)


def test_pending_changes_count_when_offsets_are_deleted():
    story = Story()
    story.held = True
    story.commit_offset(1)
    story.perform(story.shard.delete(GROUP, "admin", story.now))
    story.commit()
    assert story.committed() is None
    assert story.replayed().groups == {}
    assert dict(story.replayed().offsets.committed(GROUP)) == {}


# Expiry.


def test_t53_offsets_of_a_group_with_members_never_expire_for_topics_it_reads():
    story = expiring_story()
    ids = story.form("alice", session_ms=10 * RETENTION_MS)
    story.commit_offset(1, ids["alice"], 1)
    story.pass_time(5 * RETENTION_MS)
    assert story.committed().offset == 1


def test_t53_offsets_of_topics_that_a_stable_group_stopped_reading_expire():
    story = expiring_story()
    ids = story.form("alice", session_ms=10 * RETENTION_MS)
    story.commit_offset(1, ids["alice"], 1)
    story.commit_offset(1, ids["alice"], 1, topic="abandoned")
    story.pass_time(RETENTION_MS + CHECK_MS)
    assert story.committed("abandoned") is None
    assert story.committed("orders").offset == 1


def test_t53_the_clock_of_an_emptied_group_starts_when_it_became_empty_not_at_the_last_commit():
    story = expiring_story()
    ids = story.form("alice", session_ms=10 * RETENTION_MS)
    story.commit_offset(1, ids["alice"], 1)
    story.pass_time(5 * RETENTION_MS)
    story.leave((ids["alice"], None))
    story.pass_time(RETENTION_MS - CHECK_MS)
    assert story.committed().offset == 1
    story.pass_time(2 * CHECK_MS)
    assert story.committed() is None
    assert story.shard.groups == {}, "a group without members and offsets goes too"
    assert story.replayed().groups == {}


def test_t53_while_a_group_rebalances_nothing_expires():
    story = expiring_story()
    ids = story.form("alice", session_ms=10 * RETENTION_MS, rebalance_ms=9 * RETENTION_MS)
    story.commit_offset(1, ids["alice"], 1, topic="abandoned")
    story.join("bob", knows_its_id=True, rebalance_ms=9 * RETENTION_MS)
    story.pass_time(2 * RETENTION_MS)
    assert story.committed("abandoned").offset == 1


def test_t53_a_group_whose_subscription_is_unknown_keeps_its_offsets():
    story = expiring_story()
    ids = story.form("alice", protocols={"range": b"\x01"}, session_ms=10 * RETENTION_MS)
    story.commit_offset(1, ids["alice"], 1, topic="abandoned")
    story.pass_time(3 * RETENTION_MS)
    assert story.committed("abandoned").offset == 1


def test_offsets_of_a_simple_consumer_expire_one_by_one_from_their_commit():
    story = expiring_story()
    story.commit_offset(1, partition=0)
    story.pass_time(RETENTION_MS // 2)
    story.commit_offset(1, partition=1)
    story.pass_time(RETENTION_MS // 2 + CHECK_MS)
    assert story.committed(partition=0) is None
    assert story.committed(partition=1).offset == 1


def test_an_offset_with_its_own_retention_expires_by_it():
    story = expiring_story()
    story.commit_offset(1, retention_ms=5000)
    assert story.replayed().committed_offsets(GROUP)[PartitionKey("orders", 0)].expire_timestamp_ms == story.ms + 5000
    story.pass_time(4999)
    assert story.committed() is not None
    story.pass_time(CHECK_MS)
    assert story.committed() is None


def test_a_group_with_a_pending_member_does_not_expire():
    story = expiring_story()
    story.join("alice", session_ms=5 * CHECK_MS)
    story.pass_time(2 * CHECK_MS)
    assert GROUP in story.shard.groups
    story.pass_time(5 * CHECK_MS)
    assert GROUP not in story.shard.groups


def test_a_large_expiry_is_written_in_bounded_batches():
    story = expiring_story()
    for number in range(2 * REMOVED_PER_TURN):
        story.commit_offset(1, group=f"g{number}")
    before = len(story.log)
    story.pass_time(RETENTION_MS)
    # Each group costs two records, its offset and itself.
    assert len(story.log) - before == REMOVED_PER_TURN
    story.pass_time(10 * CHECK_MS)
    assert story.shard.groups == {}


def test_no_turn_looks_at_all_offsets(monkeypatch):
    """A broker may have a million of them, and serves nothing else during a turn."""
    monkeypatch.setattr("odradek.coordinator.group.sweep.OFFSETS_PER_TURN", 10)
    story = expiring_story()
    for number in range(100):
        story.commit_offset(1, group=f"g{number}", topic="kept", topic_id=b"k" * 16)
        story.commit_offset(1, group=f"g{number}", topic="old", topic_id=b"a" * 16)
    before = len(story.log)
    story.delete_topics({b"a" * 16: "old"})
    for _ in ("those of transactions", "the first groups"):
        story.perform(story.shard.timer_fired(PURGE_TIMER, story.now))
    assert len(story.log) - before == 4
    story.pass_time(0)
    assert len(story.log) - before == 100
    story.ms += RETENTION_MS
    story.perform(story.shard.timer_fired(EXPIRY_TIMER, story.now))
    assert len(story.log) - before == 100 + 2 * 5, "of each group its offset and itself"
    story.pass_time(0)
    assert story.shard.groups == {}


def test_the_expiry_of_one_large_group_is_bounded_too():
    story = expiring_story()
    for number in range(2 * REMOVED_PER_TURN):
        story.commit_offset(1, topic=f"t{number}")
    before = len(story.log)
    story.pass_time(RETENTION_MS)
    assert len(story.log) - before == REMOVED_PER_TURN
    assert GROUP in story.shard.groups
    story.pass_time(10 * CHECK_MS)
    assert story.shard.groups == {}


# Deletion.


def test_offsets_of_deleted_topics_are_removed_but_not_those_of_a_recreated_topic():
    story = Story()
    story.commit_offset(1, topic="old", topic_id=b"a" * 16)
    story.commit_offset(1, topic="new", topic_id=b"c" * 16)
    story.commit_offset(1, topic="legacy")
    story.delete_topics({b"a" * 16: "old", b"b" * 16: "new", b"d" * 16: "legacy"})
    story.pass_time(0)
    assert story.committed("old") is None
    assert story.committed("legacy") is None
    assert story.committed("new").offset == 1


def test_an_open_transaction_does_not_bring_back_the_offset_of_a_deleted_topic():
    """Otherwise the group would skip the first records of the next topic of that name."""
    story = Story()
    for topic, topic_id in (("deleted", b"a" * 16), ("kept", b"c" * 16)):
        pending = CommittedOffset(1000, -1, "", 0, topic_id=topic_id)
        story.shard.replay(OffsetStored(GROUP, PartitionKey(topic, 0), pending), 0, producer_id=7)
    story.delete_topics({b"a" * 16: "deleted"})
    story.pass_time(0)
    story.shard.replay_marker(7, committed=True, at=10)
    story.shard.commit(11)
    assert [key.topic for key in story.shard.committed_offsets(GROUP)] == ["kept"]


def test_only_an_empty_group_can_be_deleted():
    story = Story()
    ids = story.form("alice")
    story.commit_offset(1, ids["alice"], 1)
    with pytest.raises(KafkaError) as refusal:
        story.shard.delete(GROUP, "admin", story.now)
    assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP
    story.leave((ids["alice"], None))
    story.perform(story.shard.delete(GROUP, "admin", story.now))
    assert story.committed() is None
    assert story.replayed().groups == {}
    with pytest.raises(KafkaError) as refusal:
        story.shard.delete(GROUP, "admin", story.now)
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_subscribed_topics_cannot_be_deleted():
    story = Story()
    ids = story.form("alice")
    story.commit_offset(1, ids["alice"], 1)
    story.commit_offset(1, ids["alice"], 1, topic="other")
    reading, other = PartitionKey("orders", 0), PartitionKey("other", 0)
    errors, effects = story.shard.delete_offsets(GROUP, [reading, other], "admin", story.now)
    story.perform(effects)
    assert errors == {reading: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, other: ErrorCode.NONE}
    assert (story.committed("orders").offset, story.committed("other")) == (1, None)


def test_offsets_of_a_group_that_is_not_of_consumers_can_be_deleted_only_while_it_is_empty():
    story = Story()
    story.form("worker", protocol_type="connect", protocols={"default": subscription()})
    with pytest.raises(KafkaError) as refusal:
        story.shard.delete_offsets(GROUP, [PartitionKey("orders", 0)], "admin", story.now)
    assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP


# Transactions.


def stored(offset: int, partition: int = 0) -> OffsetStored:
    return OffsetStored(GROUP, PartitionKey("orders", partition), CommittedOffset(offset, -1, "", 0))


def offsets_of(store: OffsetStore) -> dict[int, int]:
    return {partition.partition: committed.offset for partition, committed in store.latest(GROUP).items()}


def test_t7_an_offset_of_a_transaction_counts_from_its_commit_marker_on():
    store = OffsetStore()
    store.put(stored(10), 0)
    store.put(stored(20), 1, producer_id=7)
    store.put(stored(5, partition=1), 2, producer_id=7)
    assert offsets_of(store) == {0: 10}
    assert set(store.pending(GROUP)) == {PartitionKey("orders", 0), PartitionKey("orders", 1)}
    store.commit(3)
    assert store.committed(GROUP)[PartitionKey("orders", 0)].offset == 10
    store.end_transaction(7, committed=True, at=3)
    assert offsets_of(store) == {0: 20, 1: 5}
    assert store.committed(GROUP)[PartitionKey("orders", 0)].offset == 10, "the marker is not committed yet"
    assert len(store.pending(GROUP)) == 2, "so a reader must still wait"
    store.commit(4)
    assert store.committed(GROUP)[PartitionKey("orders", 0)].offset == 20
    assert not store.pending(GROUP)


def test_t7_an_offset_of_an_aborted_transaction_never_counts():
    store = OffsetStore()
    store.put(stored(20), 0, producer_id=7)
    store.put(stored(30), 1, producer_id=8)
    store.end_transaction(7, committed=False, at=2)
    store.commit(3)
    assert offsets_of(store) == {}
    assert store.pending(GROUP), "the other producer's transaction is still open"
    store.end_transaction(8, committed=False, at=3)
    store.commit(4)
    assert not store.pending(GROUP)
    assert store.committed(GROUP) == {}


def test_a_plain_commit_after_the_transactional_one_wins_over_the_later_marker():
    store = OffsetStore()
    store.put(stored(20), 0, producer_id=7)
    store.put(stored(25), 1)
    store.end_transaction(7, committed=True, at=2)
    assert offsets_of(store) == {0: 25}


def test_a_tombstone_drops_what_is_pending():
    store = OffsetStore()
    store.put(stored(20), 0, producer_id=7)
    store.put(stored(20, partition=1), 1, producer_id=7)
    store.put(stored(0)._replace(committed=None), 2)
    assert set(store.pending(GROUP)) == {PartitionKey("orders", 1)}
    store.end_transaction(7, committed=True, at=3)
    assert offsets_of(store) == {1: 20}
