"""Invariants of a quorum, checked at every step, whatever happens to its members."""

from __future__ import annotations

from bisect import bisect_left

from odradek.quorum.messages import VoteAnswer
from odradek.quorum.roles import Role


class Violation(AssertionError):
    """An invariant was violated."""


def promise(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


class Promises:
    def __init__(self) -> None:
        # All records that were ever committed, by offset.
        self.committed = []
        # The epoch of the leader that committed each record. Never decreases.
        self._committed_in = []
        self._leaders = {}
        self._votes = {}
        # All records that were ever written, by offset and epoch: the value, and the epoch of the record before it.
        self._written = {}
        # Lost disks: records that they had acknowledged still count.
        self.lost_disks = []

    def appended(self, node, start: int) -> None:
        """Log matching: two logs with the same record at an offset have the same records before it."""
        entries = node.log.entries
        for offset in range(start, len(entries)):
            entry = entries[offset]
            before = entries[offset - 1].epoch if offset else 0
            promise(before <= entry.epoch, f"{node.name}: epochs fall in the log at {offset}")
            known = self._written.setdefault((offset, entry.epoch), (entry.value, before))
            promise(known == (entry.value, before), f"{node.name}: another record at {offset} of epoch {entry.epoch}")

    def replied(self, node, request, answer) -> None:
        if isinstance(answer, VoteAnswer) and answer.granted and not request.pre_vote:
            ballot = node.key, request.leader_epoch
            first = self._votes.setdefault(ballot, request.candidate)
            promise(first == request.candidate, f"{node.name} voted twice in epoch {request.leader_epoch}")

    def restarted(self, node) -> None:
        promise(node.core.leader_epoch >= node.said_epoch, f"{node.name} forgot epoch {node.said_epoch}")

    def stepped(self, node) -> None:
        promise(node.core.leader_epoch >= node.last_epoch, f"{node.name}: the epoch fell")
        node.last_epoch = node.core.leader_epoch
        if node.core.role is Role.LEADER:
            self._leads(node)

    def _leads(self, node) -> None:
        epoch = node.core.leader_epoch
        if self._leaders.get(epoch) == node.incarnation:
            return
        promise(epoch not in self._leaders, f"epoch {epoch} has two leaders, {node.name} is the second")
        self._leaders[epoch] = node.incarnation
        # Records committed in later epochs do not count: a candidate may have been paused when it won.
        before = bisect_left(self._committed_in, epoch)
        has_all = node.log.entries[:before] == self.committed[:before]
        promise(has_all, f"{node.name} leads epoch {epoch} without all that was committed before")

    def advanced(self, node, high_watermark: int, nodes) -> None:
        promise(high_watermark > node.high_watermark, f"{node.name}: the high watermark fell")
        promise(high_watermark <= node.log.log_end_offset, f"{node.name}: the high watermark is above its log")
        node.high_watermark = high_watermark
        if node.leading:
            self._on_a_majority(node, high_watermark, nodes)
            new = node.log.entries[len(self.committed) : high_watermark]
            self.committed += new
            self._committed_in += [node.core.leader_epoch] * len(new)
        promise(high_watermark <= len(self.committed), f"{node.name}: no leader has committed up to {high_watermark}")
        same = node.log.entries[:high_watermark] == self.committed[:high_watermark]
        promise(same, f"{node.name}: other records are committed below {high_watermark}")

    def _on_a_majority(self, leader, high_watermark: int, nodes) -> None:
        voters = leader.core.voters.keys
        durable = [
            key
            for key, log in [*((node.key, node.log) for node in nodes), *self.lost_disks]
            if key in voters and log.synced >= high_watermark and _same(log, leader.log, high_watermark)
        ]
        promise(
            len(durable) > len(voters) // 2,
            f"{leader.name} commits {high_watermark} with {[key.voter_id for key in durable]} of {len(voters)} voters",
        )


def _same(log, other, end: int) -> bool:
    return log.entries[end - 1] == other.entries[end - 1]
