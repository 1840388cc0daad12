"""One change of one partition: takes the new members, elects a leader, and returns a `PartitionChangeRecord`.

Every change of a partition goes through here, so that these rules hold: The leader is in the ISR. It is elected from
the ISR, or if that is empty, from the eligible leaders. Otherwise the election is unclean, and the record says so. The
leader epoch grows when the leader changes or a replica is removed.
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
    ONLINE = auto()  # Keep the leader if it may lead; otherwise elect an in-sync replica.
    PREFERRED = auto()  # The first replica, if it is in sync.
    UNCLEAN = auto()  # As ONLINE; without an in-sync replica, any live one: records that it lacks are lost.


class Recovery(IntEnum):
    """After an unclean election the leader stays alone in the ISR until it reports that it has recovered."""

    RECOVERED = 0
    RECOVERING = 1


class PartitionChange:
    """Set the attributes to change, then call `record`."""

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
        # Directories of new or moved replicas.
        self.directories: dict[BrokerId, DirectoryId] = {}
        # A broker that may have lost acknowledged records: no longer eligible.
        self.stopped_uncleanly = NO_BROKER
        # A broker that lost all its data: not eligible even as the last leader.
        self.lost = NO_BROKER
        self._elr: list[BrokerId] = list(partition.elr)

    def remove(self, broker_id: BrokerId) -> None:
        self.isr = [member for member in self.isr if member != broker_id]

    def record(self) -> PartitionChangeRecord | None:
        """None when nothing changes."""
        was = self.was
        change = PartitionChangeRecord(partition_id=was.index, topic_id=self._topic.topic_id)
        self._complete_reassignment()
        self._update_eligible()
        self._elect(change)
        if change.leader == LEADER_UNCHANGED and not _all_in(was.replicas, self.replicas):
            # A new leader epoch: requests of the removed replica in the old epoch are refused.
            change.leader = was.leader
        if not self._electorate.has_eligible_leaders:
            # Then only the ISR says which replicas have all data: it is never empty.
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
        # With fewer replicas than before, all of them must be in sync, otherwise the ISR could shrink.
        if len(self.adding) < len(self.removing) and not _all_in(replicas, isr):
            return
        # Otherwise the leader would be removed without a successor, such as while a disk is not reported online yet.
        if any(map(self._may_lead, isr)):
            self.replicas, self.isr, self.adding, self.removing = replicas, isr, [], []

    def _update_eligible(self) -> None:
        """A replica that leaves an ISR below min.insync.replicas has all records that were acknowledged."""
        if not self._electorate.has_eligible_leaders:
            # A log that Kafka wrote may still have an ELR, but no node has tracked which of its replicas fell behind.
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
        # A leader uses the replicas that it knows. The smaller count is safe before and after it learns of this change.
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
            # min.insync.replicas may be lower now: then this leader acknowledges alone, and the others fall behind.
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
            # Replicas that a reassignment adds come last: they may be empty.
            candidates = [*without(self.replicas, self.adding), *self.adding]
            return next((broker_id for broker_id in candidates if self._may_lead(broker_id)), None)
        return None

    def _last_to_lead(self) -> BrokerId | None:
        """The last leader, if no replica is known to have all data: no replica has more than the last leader."""
        known = self.was.last_known_elr
        if self.isr or self._elr or len(known) != 1 or not self._electorate.has_eligible_leaders:
            return None
        return known[0] if self._still_has_what_it_led(known[0]) else None

    def _still_has_what_it_led(self, broker_id: BrokerId) -> bool:
        """False for a broker that was not a replica in between: it deleted its log and starts with an empty one."""
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
