"""The classic protocol in scenarios; test names refer to the known bugs of Kafka that they guard against."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.invariants import InvariantBroken
from odradek.coordinator.group.states import TRANSITIONS, GroupState, Happening, next_state
from support.group_story import GROUP, Story, subscription


def test_t45_a_new_member_is_given_an_id_and_must_rejoin_with_it():
    story = Story()
    told = story.join("alice")
    assert (told.error_code, told.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "alice-1")
    assert story.group.state is GroupState.EMPTY

    assert story.join("alice", told.member_id) is None
    story.pass_time(0)
    joined = story.answer("alice")
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, "alice-1")
    assert [member.member_id for member in joined.members] == ["alice-1"]


def test_t45_a_pending_member_that_never_rejoins_is_forgotten_after_its_session():
    story = Story()
    pending = story.join("alice", session_ms=7000).member_id
    story.pass_time(6999)
    assert pending in story.group.pending_joins
    story.pass_time(1)
    assert story.group.pending_joins == {}
    assert story.join("alice", pending).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_t45_a_pending_member_holds_up_a_rebalance_only_until_its_session_ends():
    story = Story()
    ids = story.form("alice")
    story.join("bob", session_ms=7000)
    assert story.join("alice", ids["alice"]) is None
    story.pass_time(6999)
    assert story.answer("alice") is None
    story.pass_time(1)
    assert story.answer("alice").generation_id == 2


def test_t45_old_clients_and_static_members_skip_the_extra_round():
    story = Story()
    assert story.join("old", knows_its_id=True) is None
    assert story.join("static", instance="s1") is None
    story.pass_time(0)
    assert {story.answer("old").generation_id, story.answer("static").generation_id} == {1}


def test_an_unknown_group_does_not_take_a_known_member():
    story = Story()
    assert story.join("alice", "alice-77").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert GROUP not in story.shard.groups


def test_a_join_without_protocols_is_refused_and_leaves_no_group_behind():
    story = Story()
    assert story.join("alice", protocols={}).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert story.join("alice", protocol_type="").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert story.shard.groups == {}
    assert story.log == []


def test_a_member_without_a_common_protocol_is_refused():
    story = Story()
    story.form("alice")
    assert story.join("bob", protocols={"sticky": b""}).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert story.join("bob", protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_that_most_members_prefer_among_the_common_ones_wins():
    story = Story(initial_rebalance_delay_ms=10)
    story.join("alice", knows_its_id=True, protocols={"range": b"a", "sticky": b"A", "own": b""})
    story.join("bob", knows_its_id=True, protocols={"sticky": b"B", "range": b"b"})
    story.join("carol", knows_its_id=True, protocols={"sticky": b"C", "range": b"c"})
    story.pass_time(100)
    joined = story.answer("alice")
    assert joined.protocol_name == "sticky"
    assert [member.metadata for member in joined.members] == [b"A", b"B", b"C"]
    assert story.answer("bob").members == []


# The initial delay.


def test_t48_the_first_rebalance_waits_for_more_members_and_later_ones_do_not():
    story = Story(initial_rebalance_delay_ms=3000)
    story.join("alice", knows_its_id=True)
    story.pass_time(2999)
    assert story.answer("alice") is None
    story.pass_time(1)
    alice = story.answer("alice").member_id
    story.settle({"alice": alice})

    assert story.join("bob", knows_its_id=True) is None
    assert story.join("alice", alice).generation_id == 2
    assert story.answer("bob").generation_id == 2


def test_t48_each_newcomer_extends_the_initial_delay_up_to_the_rebalance_timeout():
    story = Story(initial_rebalance_delay_ms=3000)
    story.join("alice", knows_its_id=True, rebalance_ms=7000)
    story.pass_time(2000)
    story.join("bob", knows_its_id=True, rebalance_ms=7000)
    story.pass_time(1000)
    assert story.answer("alice") is None, "bob came: three more seconds"
    story.pass_time(2000)
    story.join("carol", knows_its_id=True, rebalance_ms=7000)
    story.pass_time(1000)
    assert story.answer("alice") is None
    story.pass_time(1000)
    assert story.answer("alice").generation_id == 1, "seven seconds are over"


def test_t48_without_a_delay_the_first_member_is_served_at_once():
    story = Story(initial_rebalance_delay_ms=0)
    story.join("alice", knows_its_id=True)
    story.pass_time(0)
    assert story.answer("alice").generation_id == 1


# What triggers a rebalance.


def test_t46_a_follower_that_rejoins_unchanged_gets_the_current_generation_without_a_rebalance():
    story = Story()
    ids = story.form("alice", "bob")
    again = story.join("bob", ids["bob"])
    assert (again.error_code, again.generation_id, again.members) == (0, 1, [])
    assert story.group.state is GroupState.STABLE
    assert story.sync("bob", ids["bob"], 1).assignment == b"bob"


def test_t46_a_leader_that_rejoins_forces_a_rebalance():
    story = Story()
    ids = story.form("alice", "bob")
    assert story.join("alice", ids["alice"]) is None
    assert story.group.state is GroupState.PREPARING_REBALANCE
    assert story.heartbeat(ids["bob"], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert story.join("bob", ids["bob"]).generation_id == 2
    assert story.answer("alice").generation_id == 2


def test_t46_a_follower_with_new_metadata_forces_a_rebalance():
    story = Story()
    ids = story.form("alice", "bob")
    assert story.join("bob", ids["bob"], topics=("orders", "returns")) is None
    assert story.group.state is GroupState.PREPARING_REBALANCE


def test_a_rejoin_while_the_leader_assigns_repeats_the_answer_if_nothing_changed():
    story = Story()
    story.join("alice", knows_its_id=True)
    story.pass_time(0)
    alice = story.answer("alice").member_id
    assert story.group.state is GroupState.COMPLETING_REBALANCE
    again = story.join("alice", alice)
    assert (again.generation_id, len(again.members)) == (1, 1)
    assert story.join("alice", alice, topics=("other",)).generation_id == 2


def test_a_second_request_of_the_same_member_answers_the_first_one():
    story = Story()
    ids = story.form("alice", "bob")
    assert story.join("alice", ids["alice"]) is None
    first = story.join("alice", ids["alice"])
    assert first.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    story.join("bob", ids["bob"])
    assert story.answer("alice").generation_id == 2


def test_members_that_do_not_rejoin_in_time_are_removed():
    story = Story()
    ids = story.form("alice", "bob", "carol", session_ms=30_000, rebalance_ms=20_000)
    story.join("alice", ids["alice"], session_ms=30_000, rebalance_ms=20_000)
    story.join("bob", ids["bob"], session_ms=30_000, rebalance_ms=20_000)
    story.pass_time(19_999)
    assert story.answer("alice") is None
    story.pass_time(1)
    assert story.answer("alice").generation_id == 2
    assert list(story.group.members) == [ids["alice"], ids["bob"]]
    assert story.heartbeat(ids["carol"], 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_rejoin_is_replaced_by_a_member_that_did():
    story = Story()
    ids = story.form("alice", "bob", session_ms=30_000, rebalance_ms=20_000)
    story.join("bob", ids["bob"], topics=("new",), session_ms=30_000, rebalance_ms=20_000)
    story.pass_time(20_000)
    joined = story.answer("bob")
    assert (joined.leader, len(joined.members)) == (ids["bob"], 1)


def test_a_member_that_fails_makes_the_others_rebalance():
    story = Story()
    ids = story.form("alice", "bob", session_ms=10_000)
    story.pass_time(9000)
    assert story.heartbeat(ids["alice"], 1) is ErrorCode.NONE
    story.pass_time(1000)
    assert list(story.group.members) == [ids["alice"]]
    assert story.heartbeat(ids["alice"], 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_rebalance_still_waits_for_the_others_when_one_member_fails_during_it():
    story = Story()
    ids = story.form("alice", "bob", "carol", session_ms=10_000, rebalance_ms=60_000)
    story.join("alice", ids["alice"], session_ms=10_000, rebalance_ms=60_000)
    story.pass_time(9000)
    story.heartbeat(ids["bob"], 1)
    story.pass_time(2000)
    assert sorted(story.group.members) == sorted([ids["alice"], ids["bob"]]), "carol is gone"
    assert story.answer("alice") is None, "bob has not rejoined yet"
    story.join("bob", ids["bob"], session_ms=10_000, rebalance_ms=60_000)
    assert len(story.answer("alice").members) == 2


def test_member_that_leaves_while_it_waits_for_its_assignment_gets_an_answer():
    story = Story()
    for who in ("alice", "bob"):
        story.join(who, knows_its_id=True)
    story.pass_time(0)
    ids = {who: story.answer(who).member_id for who in ("alice", "bob")}
    waiting = next(who for who, member_id in ids.items() if member_id != story.group.leader)
    assert story.sync(waiting, ids[waiting], story.group.generation) is None
    assert story.leave((ids[waiting], None)) == [ErrorCode.NONE]
    assert story.answer(waiting).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_parked_join_keeps_its_member_alive_but_not_a_new_one_for_ever():
    story = Story()
    ids = story.form("alice", "bob", session_ms=10_000, rebalance_ms=1_000_000)
    story.join("alice", ids["alice"], session_ms=10_000, rebalance_ms=1_000_000)
    for _ in range(100):
        story.pass_time(5000)
        assert story.heartbeat(ids["bob"], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert ids["alice"] in story.group.members
    story.join("carol", knows_its_id=True, rebalance_ms=1_000_000)
    for _ in range(60):
        story.pass_time(5000)
        story.heartbeat(ids["bob"], 1)
    assert story.answer("carol").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_leaving_empties_the_group_and_that_is_stored():
    story = Story()
    ids = story.form("alice")
    assert story.leave((ids["alice"], None)) == [ErrorCode.NONE]
    assert (story.group.state, story.group.generation) == (GroupState.EMPTY, 2)
    stored = story.replayed().groups[GROUP]
    assert (stored.state, stored.generation, stored.protocol_type) == (GroupState.EMPTY, 2, "consumer")


def test_a_batch_of_leavers_gets_an_answer_each():
    story = Story()
    ids = story.form("alice", "bob")
    static = story.join("static", instance="s1")
    assert static is None
    pending = story.join("dave").member_id
    answers = story.leave((ids["bob"], None), ("", "s1"), (pending, None), ("nobody", None), ("", "s9"), ("x", "s1"))
    assert answers == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert story.answer("static").error_code == ErrorCode.UNKNOWN_MEMBER_ID, "its JoinGroup was parked"
    assert list(story.group.members) == [ids["alice"]]


# SyncGroup.


def test_t47_every_member_gets_its_assignment_and_a_member_left_out_gets_empty_bytes():
    story = Story()
    for who in ("alice", "bob", "carol"):
        story.join(who, knows_its_id=True)
    story.pass_time(0)
    ids = {who: story.answer(who).member_id for who in ("alice", "bob", "carol")}
    assert story.sync("bob", ids["bob"], 1) is None
    assert story.sync("carol", ids["carol"], 1) is None
    big = bytes(range(256)) * 100
    assert story.sync("alice", ids["alice"], 1, {ids["alice"]: b"mine", ids["bob"]: big}).assignment == b"mine"
    assert story.answer("bob").assignment == big
    assert story.answer("carol").assignment == b""
    assert story.group.state is GroupState.STABLE


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance": "s1"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_sync_with_a_wrong_generation_member_or_protocol_is_refused(change, error):
    story = Story()
    ids = story.form("alice")
    asked = {"member_id": ids["alice"], "generation": 1, **change}
    assert story.sync("alice", **asked).error_code == error


def test_a_sync_during_a_rebalance_sends_the_member_back_to_join():
    story = Story()
    ids = story.form("alice", "bob")
    story.join("alice", ids["alice"])
    assert story.sync("bob", ids["bob"], 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_join_while_others_wait_for_the_leader_sends_them_back_to_join():
    story = Story()
    for who in ("alice", "bob"):
        story.join(who, knows_its_id=True)
    story.pass_time(0)
    bob = [story.answer(who).member_id for who in ("alice", "bob")][1]
    assert story.sync("bob", bob, 1) is None
    story.join("carol", knows_its_id=True)
    assert story.answer("bob").error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_removed_when_the_rebalance_timeout_ends():
    story = Story()
    for who in ("alice", "bob"):
        story.join(who, knows_its_id=True, session_ms=100_000, rebalance_ms=20_000)
    story.pass_time(0)
    alice, bob = (story.answer(who).member_id for who in ("alice", "bob"))
    story.sync("alice", alice, 1, {})
    assert story.group.state is GroupState.STABLE
    story.pass_time(20_000)
    assert bob not in story.group.members
    assert story.heartbeat(alice, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_assignment_that_cannot_be_stored_makes_all_members_rejoin():
    story = Story()
    for who in ("alice", "bob"):
        story.join(who, knows_its_id=True)
    story.pass_time(0)
    alice, bob = (story.answer(who).member_id for who in ("alice", "bob"))
    story.sync("bob", bob, 1)
    story.append_error = ErrorCode.NOT_COORDINATOR
    assert story.sync("alice", alice, 1, {alice: b"a", bob: b"b"}).error_code == ErrorCode.NOT_COORDINATOR
    assert story.answer("bob").error_code == ErrorCode.NOT_COORDINATOR
    assert story.group.state is GroupState.PREPARING_REBALANCE


def test_an_assignment_is_given_only_once_it_is_committed():
    story = Story()
    story.join("alice", knows_its_id=True)
    story.pass_time(0)
    alice = story.answer("alice").member_id
    story.held = True
    assert story.sync("alice", alice, 1, {alice: b"a"}) is None
    assert story.group.state is GroupState.COMPLETING_REBALANCE
    story.commit()
    assert story.answer("alice").assignment == b"a"


def test_an_assignment_committed_too_late_for_its_generation_is_ignored():
    story = Story()
    story.join("alice", knows_its_id=True)
    story.pass_time(0)
    alice = story.answer("alice").member_id
    story.held = True
    story.sync("alice", alice, 1, {alice: b"a"})
    story.join("bob", knows_its_id=True)
    assert story.answer("alice").error_code == ErrorCode.REBALANCE_IN_PROGRESS
    story.commit()
    assert story.group.state is GroupState.PREPARING_REBALANCE
    assert story.group.members[alice].assignment == b""


def test_an_assignment_of_an_older_generation_does_not_become_that_of_the_next():
    story = Story()
    story.join("alice", knows_its_id=True)
    story.pass_time(0)
    alice = story.answer("alice").member_id
    story.held = True
    story.sync("alice", alice, 1, {alice: b"old"})
    assert story.join("alice", alice, topics=("other",)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert story.answer("alice").generation_id == 2
    story.commit()
    assert story.group.state is GroupState.COMPLETING_REBALANCE
    assert story.group.members[alice].assignment == b""


# Static members.


def test_t49_a_static_member_that_restarts_keeps_its_place_without_a_rebalance():
    story = Story()
    story.join("s", instance="s1", host="/10.0.0.1")
    story.join("bob", knows_its_id=True)
    story.pass_time(0)
    ids = {"s": story.answer("s").member_id, "bob": story.answer("bob").member_id}
    story.settle(ids)

    back = story.join("s-restarted", instance="s1", host="/10.0.0.2", session_ms=9000)
    assert (back.error_code, back.generation_id, back.skip_assignment) == (0, 1, True)
    assert story.group.state is GroupState.STABLE
    assert story.sync("s-restarted", back.member_id, 1, instance="s1").assignment == b"s"
    member = story.group.members[back.member_id]
    assert (member.client_id, member.client_host, member.session_timeout_ms) == ("s-restarted", "/10.0.0.2", 9000)
    assert story.replayed().groups[GROUP].members[back.member_id].client_host == "/10.0.0.2"


def test_t49_the_old_id_of_a_static_member_is_fenced_everywhere():
    story = Story()
    story.join("s", instance="s1")
    story.pass_time(0)
    old = story.answer("s").member_id
    story.settle({"s": old})
    story.join("t", instance="s1")
    assert story.heartbeat(old, 1, instance="s1") is ErrorCode.FENCED_INSTANCE_ID
    assert story.sync("s", old, 1, instance="s1").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert story.commit_offset(5, old, 1, instance="s1") is ErrorCode.FENCED_INSTANCE_ID
    assert story.join("s", old, instance="s1").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert story.leave((old, "s1")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert story.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_t49_a_parked_request_of_the_old_static_member_is_answered_with_fenced():
    story = Story(initial_rebalance_delay_ms=3000)
    assert story.join("old", instance="s1") is None
    assert story.join("new", instance="s1") is None
    assert story.answer("old").error_code == ErrorCode.FENCED_INSTANCE_ID
    story.pass_time(3000)
    assert story.answer("new").generation_id == 1


def test_t49_a_static_member_that_returns_while_the_leader_assigns_causes_a_rebalance():
    story = Story()
    story.join("bob", knows_its_id=True)
    story.join("s", instance="s1")
    story.pass_time(0)
    bob, old = story.answer("bob").member_id, story.answer("s").member_id
    assert story.sync("s", old, 1, instance="s1") is None
    story.join("t", instance="s1")
    assert story.answer("s").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert story.group.state is GroupState.PREPARING_REBALANCE
    assert story.join("bob", bob).generation_id == 2
    assert story.answer("t").generation_id == 2


def test_t49_older_static_leaders_get_the_old_leader_id_so_that_they_do_not_assign():
    story = Story()
    story.join("s", instance="s1")
    story.pass_time(0)
    old = story.answer("s").member_id
    story.settle({"s": old})
    back = story.join("t", instance="s1", version9=False)
    assert (back.leader, back.members, back.skip_assignment) == (old, [], False)


def test_t49_a_replacement_that_cannot_be_stored_leaves_the_old_member_in_place():
    story = Story()
    story.join("s", instance="s1", session_ms=9000)
    story.pass_time(0)
    old = story.answer("s").member_id
    story.settle({"s": old})
    story.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert story.join("t", instance="s1", session_ms=8000).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert story.heartbeat(old, 1, instance="s1") is ErrorCode.NONE
    member = story.group.members[old]
    assert (member.client_id, member.session_timeout_ms, story.group.leader) == ("s", 9000, old)


def restarted_while_the_watermark_stands_still(story, protocols) -> str:
    """Returns Bob's id. A static member of his group has restarted; its new id is written and not committed."""
    story.join("s", instance="s1", rebalance_ms=1000, protocols={"range": b""})
    story.join("bob", knows_its_id=True, rebalance_ms=1000, protocols={"range": b"", "sticky": b""})
    story.pass_time(0)
    ids = {"s": story.answer("s").member_id, "bob": story.answer("bob").member_id}
    story.settle(ids)
    story.held = True
    assert story.join("t", instance="s1", rebalance_ms=1000, protocols=protocols) is None
    return ids["bob"]


def test_a_member_accepted_by_a_restarted_static_members_protocols_keeps_a_common_one_after_a_commit_timeout():
    story = Story()
    both = {"range": b"", "sticky": b""}
    bob = restarted_while_the_watermark_stands_still(story, both)
    assert story.join("carol", knows_its_id=True, protocols={"sticky": b""}) is None
    story.give_up_oldest_write()
    assert story.answer("t").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert story.join("t", instance="s1", protocols=both) is None
    story.join("bob", bob, protocols=both)
    assert {story.answer(who).protocol_name for who in ("t", "carol")} == {"sticky"}


def test_a_leader_may_assign_to_a_restarted_static_member_whose_place_is_not_committed_in_time():
    story = Story()
    bob = restarted_while_the_watermark_stands_still(story, {"range": b""})
    story.join("bob", bob, rebalance_ms=1000, protocols={"range": b"more"})
    story.pass_time(1000)
    assert story.answer("bob").leader == bob
    (new,) = story.group.static_members.values()
    assert story.sync("bob", bob, 2, {bob: b"bob", new: b"s"}) is None
    story.give_up_oldest_write()
    story.commit()
    assert story.answer("bob").assignment == b"bob"
    assert story.group.members[new].assignment == b"s"


def test_a_static_member_may_miss_a_rebalance_within_its_session():
    story = Story()
    story.join("s", instance="s1", session_ms=100_000, rebalance_ms=20_000)
    story.join("bob", knows_its_id=True, session_ms=100_000, rebalance_ms=20_000)
    story.pass_time(0)
    ids = {"s": story.answer("s").member_id, "bob": story.answer("bob").member_id}
    story.settle(ids)
    story.join("bob", ids["bob"], topics=("new",), session_ms=100_000, rebalance_ms=20_000)
    story.pass_time(20_000)
    assert story.answer("bob").leader == ids["bob"]
    assert ids["s"] in story.group.members


def test_with_only_absent_static_members_a_rebalance_waits_until_their_sessions_end():
    story = Story()
    story.join("s", instance="s1", session_ms=30_000, rebalance_ms=20_000)
    story.join("bob", knows_its_id=True, session_ms=30_000, rebalance_ms=20_000)
    story.pass_time(0)
    ids = {"s": story.answer("s").member_id, "bob": story.answer("bob").member_id}
    story.settle(ids)
    story.leave((ids["bob"], None))
    story.pass_time(20_000)
    assert story.group.state is GroupState.PREPARING_REBALANCE
    story.pass_time(10_000)
    assert story.group.state is GroupState.EMPTY


# Bounds.


def test_a_full_group_refuses_new_members():
    story = Story(max_size=2)
    ids = story.form("alice", "bob")
    assert story.join("carol", knows_its_id=True).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert story.join("bob", ids["bob"]).error_code == ErrorCode.NONE


def test_pending_members_are_bounded(monkeypatch):
    monkeypatch.setattr("odradek.base.limits.pending_members_per_group_max", 2)
    story = Story()
    assert [story.join("x").error_code for _ in range(3)] == [
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]


def test_metadata_of_a_member_is_bounded():
    story = Story()
    too_much = story.join("alice", protocols={"range": bytes(1024 * 1024 + 1)})
    assert too_much.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_names_of_a_members_protocols_count_too():
    story = Story()
    too_much = story.join("alice", protocols={f"{number:01024}": b"" for number in range(1025)})
    assert too_much.error_code == ErrorCode.MESSAGE_TOO_LARGE


# The table itself.


def test_a_transition_that_is_not_in_the_table_raises():
    for state in GroupState:
        for happening in Happening:
            if (state, happening) in TRANSITIONS:
                continue
            with pytest.raises(InvariantBroken, match=f"{state.value} cannot take {happening.name}"):
                next_state(state, happening)
    assert next_state(GroupState.COMPLETING_REBALANCE, Happening.ASSIGNED) is GroupState.STABLE


def test_a_partition_that_moves_away_answers_all_waiting_requests():
    story = Story()
    ids = story.form("alice", "bob")
    story.join("alice", ids["alice"])
    story.perform(story.shard.unload(story.now))
    assert story.answer("alice").error_code == ErrorCode.NOT_COORDINATOR
    assert story.shard.groups == {}


def test_a_loaded_group_expects_heartbeats_of_its_members():
    story = Story()
    ids = story.form("alice", "bob", session_ms=10_000)
    restarted = Story()
    restarted.shard = story.replayed()
    restarted.load()
    assert restarted.heartbeat(ids["alice"], 1) is ErrorCode.NONE
    assert restarted.sync("bob", ids["bob"], 1).assignment == b"bob"
    restarted.pass_time(10_000)
    assert restarted.group.state is GroupState.EMPTY


def test_a_loaded_group_over_its_limit_rebalances_and_keeps_the_first_members_to_rejoin():
    story = Story()
    ids = story.form("alice", "bob", "carol")
    smaller = Story(max_size=2)
    smaller.shard = story.replayed()
    smaller.shard.config = smaller.config
    smaller.load()
    assert smaller.group.state is GroupState.PREPARING_REBALANCE
    assert smaller.join("carol", ids["carol"]) is None
    assert smaller.join("bob", ids["bob"]) is None
    assert smaller.join("alice", ids["alice"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_topics_of_all_versions_of_a_subscription_are_read():
    story = Story()
    story.form("alice", protocols={"range": subscription("a", "b", version=3)})
    assert story.group.subscribed == {"a", "b"}


def test_a_member_with_an_unreadable_subscription_is_accepted():
    story = Story()
    story.form("alice", protocols={"range": b"\x00"})
    assert story.group.subscribed is None
    assert story.group.is_subscribed_to("anything")
