"""A classic group: its members, the protocols they support, and their parked requests.

Holds the state and keeps it consistent; the rules of the protocol are in `rebalance`, `joining` and `membership`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.invariants import invariant
from odradek.coordinator.group.states import GroupState, Happening, can_rebalance, next_state
from odradek.coordinator.group.subscription import MalformedSubscription, subscribed_topics

CONSUMER_PROTOCOL_TYPE = "consumer"
NO_TIMESTAMP = -1


class SupportedProtocol(NamedTuple):
    name: str
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]
    assignment: bytes = b""
    # True until its first join phase ends: it knows no member id yet, so it cannot send heartbeats.
    is_new: bool = False

    def metadata(self, protocol: str | None) -> bytes:
        for supported in self.protocols:
            if supported.name == protocol:
                return supported.metadata
        return b""

    def vote(self, candidates: Iterable[str]) -> str:
        for supported in self.protocols:
            if supported.name in candidates:
                return supported.name
        invariant(False, f"{self.member_id} supports none of the group's protocols")
        return ""


@dataclass(slots=True)
class InitialWait:
    """The first rebalance of an empty group waits for more members, a little longer whenever one came."""

    delay_ms: int
    remaining_ms: int
    member_came: bool = False


@dataclass(slots=True)
class ClassicGroup:
    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.DEAD
    # Wall clock at the last transition; NO_TIMESTAMP in groups that old records or plain commits made.
    state_since_ms: int = NO_TIMESTAMP
    # None: no member ever joined; offsets are committed without membership ("simple consumer").
    protocol_type: str | None = None
    protocol_name: str | None = None
    # Never decreases, not even when the group becomes empty.
    generation: int = 0
    # A key of `members` whenever there are members.
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    # Member ids that were given out, and that the client must rejoin with (KIP-394); disjoint from `members`.
    pending_joins: dict[str, None] = field(default_factory=dict)
    # Members that got the new generation and have not sent SyncGroup yet.
    pending_syncs: dict[str, None] = field(default_factory=dict)
    # Parked requests by member id.
    joining: dict[str, object] = field(default_factory=dict)
    syncing: dict[str, object] = field(default_factory=dict)
    # None: unknown, so every topic counts as subscribed while the group uses the consumer protocol.
    subscribed: frozenset[str] | None = None
    initial_wait: InitialWait | None = None
    _support: dict[str, int] = field(default_factory=dict)

    @property
    def group_type(self) -> str:
        return "classic"

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def can_rebalance(self) -> bool:
        return can_rebalance(self.state)

    @property
    def all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def move(self, happening: Happening, wall_ms: int) -> None:
        following = next_state(self.state, happening)
        self.previous_state = self.state
        self.state = following
        self.state_since_ms = wall_ms

    def next_generation(self, wall_ms: int) -> None:
        self.generation += 1
        self.pending_syncs.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.refresh_subscription()
        self.move(Happening.JOINED if self.members else Happening.DESERTED, wall_ms)

    def supports(self, protocol_type: str, names: Sequence[str]) -> bool:
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(self._support.get(name, 0) == everybody for name in names)

    def select_protocol(self) -> str:
        """Among the protocols that all members support, the one with most votes."""
        everybody = len(self.members)
        candidates = {name: 0 for name, count in self._support.items() if count == everybody}
        for member in self.members.values():
            candidates[member.vote(candidates)] += 1
        return max(candidates, key=candidates.__getitem__)

    def add(self, member: Member, protocol_type: str) -> None:
        invariant(member.instance_id not in self.static_members, f"{member.instance_id} is a member already")
        if not self.members:
            self.protocol_type = protocol_type
        invariant(self.protocol_type == protocol_type, f"{protocol_type} in a group of {self.protocol_type}")
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """The caller has answered what this member had parked."""
        invariant(member_id not in self.joining and member_id not in self.syncing, f"{member_id} waits for an answer")
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def rename(self, instance_id: str, new_member_id: str) -> Member:
        """A static member came back: a new member id in the old one's place, with its assignment."""
        old_member_id = self.static_members[instance_id]
        member = self.members.pop(old_member_id)
        member.member_id = new_member_id
        member.is_new = False
        self.members[new_member_id] = member
        self.static_members[instance_id] = new_member_id
        self.pending_syncs.pop(old_member_id, None)
        if self.leader == old_member_id:
            self.leader = new_member_id
        return member

    def update(
        self,
        member: Member,
        protocols: tuple[SupportedProtocol, ...],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def elect_among_joined(self) -> bool:
        """Makes sure that the leader is a member that has rejoined. False when no member has."""
        if self.leader in self.joining:
            return True
        joined = next((member_id for member_id in self.members if member_id in self.joining), None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    def validate_member(self, member_id: str, instance_id: str | None) -> None:
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member of {self.group_id} is {instance_id}")
            if current != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"{instance_id} is {current} now, not {member_id}")
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of {self.group_id}")

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed

    def refresh_subscription(self) -> None:
        self.subscribed = None
        if not self.uses_consumer_protocol or (self.members and self.protocol_name is None):
            return
        try:
            topics = [subscribed_topics(member.metadata(self.protocol_name)) for member in self.members.values()]
        except MalformedSubscription:
            # Not refused: only the assignor in the clients has to understand it.
            return
        self.subscribed = frozenset().union(*topics)

    def _count(self, protocols: tuple[SupportedProtocol, ...], step: int) -> None:
        for name in dict.fromkeys(protocol.name for protocol in protocols):
            count = self._support.get(name, 0) + step
            if count:
                self._support[name] = count
            else:
                del self._support[name]
