"""One change of one partition: the new members in, a `PartitionChangeRecord` out, with the leader that follows from it.

Whoever changes a partition, for whatever reason, does it here, so that these hold after every change:
the leader is in the ISR; a leader is elected from the ISR, or while that is empty from the eligible leaders, or else
uncleanly, which the record says; the leader epoch grows when the leader changes or a replica is taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, IntEnum, auto

from odradek.base.ids import NO_BROKER, BrokerId, DirectoryId
from odradek.controller import safeguards
from odradek.controller.electorate import Electorate, directory_of
from odradek.metadata.image import UNASSIGNED_DIRECTORY, PartitionImage, TopicImage
from odradek.metadata.replay import LEADER_UNCHANGED
from odradek.protocol.metadata_records import PartitionChangeRecord


class Election(Enum):
    ONLINE = auto()  # Keep the leader while it may lead; otherwise one that is in sync.
    PREFERRED = auto()  # The first replica, if it is in sync.
    UNCLEAN = auto()  # As ONLINE, and if nobody is in sync, anyone alive: what it lacks is lost.


class Recovery(IntEnum):
    """After an unclean election the leader alone is the truth until it says that it has recovered."""

    RECOVERED = 0
    RECOVERING = 1


class PartitionChange:
    """Set what shall change, then ask for the `record`."""

    def __init__(self, topic: TopicImage, partition: PartitionImage, electorate: Electorate) -> None:
        self._topic = topic
        self.was = partition
        self._electorate = electorate
        self.election = Election.ONLINE
        self.isr: list[BrokerId] = list(partition.isr)
        self.replicas: list[BrokerId] = list(partition.replicas)
        self.adding: list[BrokerId] = list(partition.adding)
        self.removing: list[BrokerId] = list(partition.removing)
        self.recovery = partition.recovery
        # Where replicas lie, of those that are new or have moved.
        self.directories: dict[BrokerId, DirectoryId] = {}
        # It may have lost what it had acknowledged: no longer eligible.
        self.stopped_uncleanly = NO_BROKER
        # It has lost everything: not even the last to lead counts.
        self.lost = NO_BROKER
        self._elr: list[BrokerId] = list(partition.elr)

    def remove(self, broker_id: BrokerId) -> None:
        self.isr = [member for member in self.isr if member != broker_id]

    def record(self) -> PartitionChangeRecord | None:
        """None when all stays as it is."""
        was = self.was
        change = PartitionChangeRecord(partition_id=was.index, topic_id=self._topic.topic_id)
        self._complete_reassignment()
        self._update_eligible()
        self._elect(change)
        if change.leader == LEADER_UNCHANGED and not _all_in(was.replicas, self.replicas):
            # The replica that goes must not be able to speak in the leader's epoch any more.
            change.leader = was.leader
        if not self._electorate.has_eligible_leaders:
            # Then the ISR alone remembers who knows everything: it is never empty.
            self.isr, self._elr = self.isr or list(was.isr), []
        self._write_members(change)
        self._write_last_leader(change)
        if self.recovery != was.recovery:
            change.leader_recovery_state = self.recovery
        nothing = PartitionChangeRecord(partition_id=was.index, topic_id=self._topic.topic_id)
        return None if change == nothing else change

    def _complete_reassignment(self) -> None:
        if not self.adding and not self.removing:
            return
        replicas = without(self.replicas, self.removing)
        isr = without(self.isr, self.removing)
        if not replicas or not isr or not _all_in(self.adding, isr):
            return
        # With fewer replicas than before, each of them has to be in sync, or the ISR could get smaller than it is.
        if len(self.adding) < len(self.removing) and not _all_in(replicas, isr):
            return
        # Or the one who leads would go, and nobody follow: its disk may be back, and we not have heard of it.
        if any(map(self._may_lead, isr)):
            self.replicas, self.isr, self.adding, self.removing = replicas, isr, [], []

    def _update_eligible(self) -> None:
        """Nothing is acknowledged below min.insync.replicas, so whoever left the ISR then has all that was."""
        if not self._electorate.has_eligible_leaders:
            # A log that Kafka wrote may still name some: nobody noticed who fell behind the ISR since.
            if self.was.isr:
                self._elr = []
            return
        if self._acknowledges_with(self.isr):
            self._elr = []
            return
        candidates = dict.fromkeys([*self._elr, *self.was.isr])
        gone = (self.stopped_uncleanly, self.lost)
        self._elr = [b for b in candidates if b not in self.isr and b not in gone and b in self.replicas]

    def _acknowledges_with(self, isr: list[BrokerId]) -> bool:
        # A leader counts its own replicas. The smaller number is right both before and after it hears of this change.
        return len(isr) >= min(self._electorate.min_isr(self._topic), len(self.was.replicas), len(self.replicas))

    def _elect(self, change: PartitionChangeRecord) -> None:
        leader = self._clean_leader()
        if leader is None:
            leader = self._unclean_leader()
            if leader is not None:
                self.isr, self._elr = [leader], []
                self.recovery = Recovery.RECOVERING
        elif leader in self._elr:
            self.isr = [leader]
            # The number may be a smaller one by now: then this leader needs nobody, and the others fall behind.
            alone = self._acknowledges_with(self.isr)
            self._elr = [] if alone else [member for member in self._elr if member != leader]
        following = NO_BROKER if leader is None else leader
        if following != self.was.leader:
            change.leader = following

    def _clean_leader(self) -> BrokerId | None:
        preferred = self.replicas[:1] if self.election is Election.PREFERRED else []
        for broker_id in (*preferred, self.was.leader, *self.replicas):
            if broker_id in (self.isr or self._elr) and self._may_lead(broker_id):
                return broker_id
        return None

    def _unclean_leader(self) -> BrokerId | None:
        last = self._last_to_lead()
        if last is not None and self._may_lead(last):
            return last
        if safeguards.may_elect_uncleanly(self.election is Election.UNCLEAN):
            # Those that a move adds may have nothing yet.
            candidates = [*without(self.replicas, self.adding), *self.adding]
            return next((broker_id for broker_id in candidates if self._may_lead(broker_id)), None)
        return None

    def _last_to_lead(self) -> BrokerId | None:
        """Nobody is known to have everything, and nobody has more than the one who led last."""
        known = self.was.last_known_elr
        if self.isr or self._elr or len(known) != 1 or not self._electorate.has_eligible_leaders:
            return None
        return known[0] if self._still_has_what_it_led(known[0]) else None

    def _still_has_what_it_led(self, broker_id: BrokerId) -> bool:
        """One that was no replica in between has given it up, and is given an empty log."""
        return broker_id in self.was.replicas and broker_id in self.replicas and broker_id != self.lost

    def _may_lead(self, broker_id: BrokerId) -> bool:
        return self._electorate.may_lead(self.was, broker_id, self.directories.get(broker_id))

    def _write_members(self, change: PartitionChangeRecord) -> None:
        was = self.was
        if self.isr != list(was.isr):
            change.isr = list(self.isr)
        if self._elr != list(was.elr):
            change.eligible_leader_replicas = list(self._elr)
        if self.replicas != list(was.replicas):
            change.replicas = list(self.replicas)
        if self.adding != list(was.adding):
            change.adding_replicas = list(self.adding)
        if self.removing != list(was.removing):
            change.removing_replicas = list(self.removing)
        if change.replicas is not None or self.directories:
            directories = [self._directory(broker_id) for broker_id in self.replicas]
            if directories != list(was.directories):
                change.directories = list(directories)

    def _directory(self, broker_id: BrokerId) -> DirectoryId:
        said = self.directories.get(broker_id) or directory_of(self.was, broker_id)
        return said or UNASSIGNED_DIRECTORY

    def _write_last_leader(self, change: PartitionChangeRecord) -> None:
        known = self.was.last_known_elr
        if not self._electorate.has_eligible_leaders:
            following: Sequence[BrokerId] = ()
        elif change.leader >= 0:
            following = ()
        else:
            last = (self.was.leader,) if change.leader == NO_BROKER and not known else known
            following = [broker_id for broker_id in last if self._still_has_what_it_led(broker_id)]
        if list(following) != list(known):
            change.last_known_elr = list(following)


def without(members: Iterable[BrokerId], gone: Sequence[BrokerId]) -> list[BrokerId]:
    return [member for member in members if member not in gone]


def _all_in(members: Iterable[BrokerId], others: Sequence[BrokerId]) -> bool:
    return all(member in others for member in members)
