"""Random histories of a group: whatever its members do and however time passes, the promises G1 to G6 hold.

G1 one owner per partition and generation · G2 generations never go back · G4 only the current generation commits ·
G5 a group left alone settles · G6 what is in memory is what the log replays to.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.base.errors import ErrorCode
from odradek.coordinator.group.states import GroupState
from support.group_story import GROUP, Story

SESSION_MS = 10_000
REBALANCE_MS = 15_000
PEOPLE = ["ann", "ben", "cat", "dan"]
PARTITIONS = 5
people = st.sampled_from(PEOPLE)


class Person:
    """A consumer as client libraries implement it: joins, syncs, assigns when it leads, and follows the answers."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.topics: tuple[str, ...] = ("orders",)
        self.everybody: list[str] = []
        self.waiting_for = ""
        self.owns: frozenset[int] = frozenset()

    def lose_place(self) -> None:
        self.member_id, self.generation, self.owns, self.waiting_for = "", -1, frozenset(), ""


class GroupLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.story = Story(initial_rebalance_delay_ms=3000, max_size=3)
        self.people = {name: Person(name, f"i-{name}" if name in ("cat", "dan") else None) for name in PEOPLE}
        self.generation_seen = 0
        self.owners: dict[tuple[int, int], str] = {}
        self.offset = 0
        self.last_committed = -1

    # What people do.

    @rule(name=people)
    def join(self, name: str) -> None:
        person = self.people[name]
        self._listen()
        person.owns = frozenset()
        answer = self.story.join(name, person.member_id, instance=person.instance, topics=person.topics,
                                 session_ms=SESSION_MS, rebalance_ms=REBALANCE_MS)  # fmt: skip
        person.waiting_for = "join"
        self._hear(person, answer)

    @rule(name=people)
    def sync(self, name: str) -> None:
        person = self.people[name]
        self._listen()
        if person.generation < 0 or person.waiting_for:
            return
        assignments = {}
        if person.everybody:
            shares = {member_id: bytes(range(at, PARTITIONS, len(person.everybody)))
                      for at, member_id in enumerate(person.everybody)}  # fmt: skip
            assignments = shares
        answer = self.story.sync(name, person.member_id, person.generation, assignments, instance=person.instance)
        person.waiting_for = "sync"
        self._hear(person, answer)

    @rule(name=people)
    def heartbeat(self, name: str) -> None:
        person = self.people[name]
        error = self.story.heartbeat(person.member_id, person.generation, person.instance)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID) and person.waiting_for != "join":
            person.lose_place()

    @rule(name=people)
    def restart(self, name: str) -> None:
        """It forgets everything, and answers to its old requests are dropped."""
        self.story.answers.pop(name, None)
        person = self.people[name]
        if person.waiting_for:
            # Its connection is gone; under a new name it cannot get answers to the old requests.
            return
        person.lose_place()

    @rule(name=people)
    def leave(self, name: str) -> None:
        person = self.people[name]
        if person.member_id:
            self.story.leave((person.member_id, person.instance))

    @rule(name=people, topics=st.sampled_from([("orders",), ("orders", "returns")]))
    def change_subscription(self, name: str, topics: tuple[str, ...]) -> None:
        self.people[name].topics = topics

    @rule(name=people, stale_by=st.sampled_from([0, 0, 1]))
    def commit(self, name: str, stale_by: int) -> None:
        person = self.people[name]
        if not person.member_id:
            return
        generation = person.generation - stale_by
        self.offset += 1
        before = self.story.group if GROUP in self.story.shard.groups else None
        error = self.story.commit_offset(self.offset, person.member_id, generation, instance=person.instance)
        if error is ErrorCode.NONE:
            self.last_committed = self.offset
            assert generation < 0 or before.generation == generation, "G4: only the current generation commits"
            assert before is None or before.state is not GroupState.COMPLETING_REBALANCE

    @rule(ms=st.sampled_from([0, 1, 2999, 5000, 9999, SESSION_MS, REBALANCE_MS, 400_000]))
    def time_passes(self, ms: int) -> None:
        self.story.pass_time(ms)

    @precondition(lambda self: not self.story.held)
    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def log_works_or_not(self, error: ErrorCode) -> None:
        # Only an emptied group that could not be stored may differ from the log: avoided here.
        if all(person.waiting_for == "sync" for person in self.people.values()):
            self.story.append_error = error

    # What people hear.

    def _listen(self) -> None:
        for person in self.people.values():
            while (answer := self.story.answer(person.name)) is not None:
                self._hear(person, answer)

    def _hear(self, person: Person, answer) -> None:
        if answer is None:
            return
        asked, person.waiting_for = person.waiting_for, ""
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.NONE and asked == "join":
            assert answer.generation_id >= person.generation, "G2: a member's generation never goes back"
            person.member_id, person.generation = answer.member_id, answer.generation_id
            person.everybody = [member.member_id for member in answer.members]
            if answer.skip_assignment:
                person.everybody = []
        elif error is ErrorCode.NONE and asked == "sync":
            person.owns = frozenset(answer.assignment)
            for partition in sorted(person.owns):
                owner = self.owners.setdefault((person.generation, partition), person.name)
                assert owner == person.name, f"G1: {partition} belongs to {owner} and {person.name}"
        elif error is ErrorCode.MEMBER_ID_REQUIRED:
            person.member_id = answer.member_id
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
            person.lose_place()

    # What must always hold.

    @invariant()
    def generations_never_go_back(self) -> None:
        group = self.story.shard.groups.get(GROUP)
        if group is not None:
            assert group.generation >= self.generation_seen
            self.generation_seen = group.generation

    @invariant()
    def the_group_is_consistent(self) -> None:
        group = self.story.shard.groups.get(GROUP)
        if group is None:
            return
        assert (group.leader in group.members) == bool(group.members)
        assert not set(group.pending_joins) & set(group.members)
        assert set(group.joining) <= set(group.members)
        assert set(group.syncing) <= set(group.members)
        assert set(group.pending_syncs) <= set(group.members)
        assert len(group.joining) <= self.story.config.max_size
        assert {m.instance_id: m.member_id for m in group.members.values() if m.instance_id} == group.static_members
        if group.state is GroupState.EMPTY:
            assert not group.members
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert not group.joining, "a parked JoinGroup is answered when the join phase ends"
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert not group.syncing, "a parked SyncGroup is answered when the group is stable"

    @invariant()
    def memory_is_what_the_log_replays_to(self) -> None:
        replayed, live = self.story.replayed(), self.story.shard
        assert dict(replayed.committed_offsets(GROUP)) == dict(live.committed_offsets(GROUP))
        assert replayed.groups.keys() == live.groups.keys()
        for group_id, group in live.groups.items():
            stored = replayed.groups[group_id]
            if group.state is GroupState.EMPTY:
                assert (stored.state, stored.generation, stored.state_since_ms, stored.protocol_type) == (
                    group.state, group.generation, group.state_since_ms, group.protocol_type
                )  # fmt: skip
            elif group.state is GroupState.STABLE:
                assert (stored.state, stored.generation, stored.leader, stored.protocol_name, stored.subscribed) == (
                    group.state, group.generation, group.leader, group.protocol_name, group.subscribed
                )  # fmt: skip
                assert _durable(stored) == _durable(group)

    @invariant()
    def the_last_accepted_commit_stands(self) -> None:
        committed = self.story.committed()
        assert (committed.offset if committed else -1) == self.last_committed

    def teardown(self) -> None:
        """G5: when all members behave and nothing fails, the group becomes stable."""
        self.story.append_error = ErrorCode.NONE
        for person in self.people.values():
            person.topics = ("orders",)
        behaving = PEOPLE[:3]
        for _ in range(60):
            for name in behaving:
                self._listen()
                person = self.people[name]
                if not person.waiting_for:
                    self._behave(person)
            self.story.pass_time(3000)
            group = self.story.shard.groups[GROUP]
            # A member that does not answer any more leaves only when its session has timed out.
            is_settled = len(group.members) == len(behaving) and all(self.people[n].owns for n in behaving)
            if group.state is GroupState.STABLE and is_settled:
                break
        assert group.state is GroupState.STABLE
        owned = [partition for name in behaving for partition in self.people[name].owns]
        assert sorted(owned) == list(range(PARTITIONS)), "G3: every partition has an owner when stable"

    def _behave(self, person: Person) -> None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
        if person.generation >= 0:
            error = self.story.heartbeat(person.member_id, person.generation, person.instance)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID) and person.generation >= 0:
            person.lose_place()
        if error is not ErrorCode.NONE:
            self.join(person.name)
        elif not person.owns:
            self.sync(person.name)


def _durable(group) -> dict:
    return {
        member.member_id: (
            member.instance_id, member.client_id, member.client_host, member.session_timeout_ms,
            member.rebalance_timeout_ms, member.metadata(group.protocol_name), member.assignment,
        )
        for member in group.members.values()
    }  # fmt: skip


GroupLife.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestGroupLife = GroupLife.TestCase
