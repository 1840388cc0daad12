"""Inspects all nodes of a cluster while they run: checks what must hold at every moment, whatever breaks.

Named as in docs/internals/simulation.md: R replication, L one log. `quorum_watch` checks the quorum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.base.ids import NO_BROKER
from odradek.log.log import Log
from odradek.metadata.image import ClusterImage, PartitionImage
from odradek.replication.partition import Partition
from odradek.sim.history import Place, Violation
from odradek.sim.keyed import Deletions, is_compacted
from odradek.sim.ledger import CompactedLedger, Ledger
from odradek.sim.loop import Host
from odradek.sim.quorum_watch import QuorumWatch
from odradek.sim.transaction_watch import StableWatch, check_ended
from odradek.sim.truth import Running, Truth

Replica = tuple[bytes, int]


class ClusterWatch:
    """`safe`: the topics that must not lose a committed record in this run. `deletions`: of the compacted topic.

    `shortened` is called with the partition when a node has truncated its log, and with the number of bytes.
    """

    def __init__(
        self,
        truth: Truth,
        safe: tuple[str, ...],
        deletions: Deletions = Deletions.STAY,
        shortened: Callable[[Place, int], None] = lambda _place, _lost_bytes: None,
    ) -> None:
        self._truth = truth
        self._safe = safe
        self._deletions = deletions
        self._shortened = shortened
        # By node and partition: how often its log was truncated, and how large it was.
        self._cuts: dict[tuple[int, Replica], tuple[Log, int, int]] = {}
        self._quorum = QuorumWatch()
        self._stable = StableWatch()
        self._leaders: dict[tuple[Replica, int], int] = {}
        self._ledgers: dict[Replica, Ledger | CompactedLedger] = {}
        # By node, partition and leader epoch; with the log, since a failed log is opened again as after a crash.
        self._watermarks: dict[tuple[Host, Replica, int], tuple[Log, int, int]] = {}
        self._image_offset = -1
        # By partition: the newest partition epoch that any replica has applied.
        self._told: dict[Replica, int] = {}

    def look(self) -> None:
        for each in self._truth.members():
            self._quorum.look(each)
        running = self._truth.running()
        for each in running:
            for partition in each.replicas():
                self._look_at_replica(each, partition)
            _look_at_fetchers(each)
        for ledger in self._ledgers.values():
            if isinstance(ledger, CompactedLedger):
                ledger.require_latest(all_compared=self._truth.all_run())
        image = self._truth.image()
        if image is not None:
            self._look_at_candidates(image, {each.number: each for each in running})
            self._look_at_transactions(image, running)
            if image.offset > self._image_offset:
                self._image_offset = image.offset
                self._look_at_image(image)

    # Decisions

    def _look_at_image(self, image: ClusterImage) -> None:
        for topic in image.topics.values():
            for partition in topic.partitions:
                self._look_at_decision(image, topic.name, partition)

    def _look_at_decision(self, image: ClusterImage, topic: str, partition: PartitionImage) -> None:
        name = f"{topic}-{partition.index}"
        strangers = [member for member in partition.isr if member not in partition.replicas]
        if strangers:
            raise Violation(f"R7 {strangers} are in the ISR of {name} and not among its replicas {partition.replicas}")
        if partition.leader != NO_BROKER and partition.leader not in partition.isr:
            raise Violation(f"R7 {partition.leader} leads {name} and is not in its ISR {partition.isr}")
        if len(partition.isr) == 1 and partition.leader == NO_BROKER:
            # The last in-sync replica stays in the ISR, even if it is offline.
            return
        for member in partition.isr:
            registration = image.brokers.get(member)
            if registration is None or registration.fenced:
                raise Violation(f"R7 {member} is in the ISR of {name} and fenced or unknown")

    # Replicas

    def _look_at_replica(self, each: Running, partition: Partition) -> None:
        replica = (partition.topic_id, partition.index)
        log = partition.log
        start, high, end = log.log_start_offset, partition.high_watermark, log.log_end_offset
        if not start <= partition.last_stable_offset <= high <= end:
            raise Violation(f"L5 {partition} of node {each.number}: start {start}, high watermark {high}, end {end}")
        self._stable.look(each.host, partition)
        seen_log, cuts, size = self._cuts.get((each.number, replica), (log, 0, 0))
        if log.durability.history > (cuts if seen_log is log else 0):
            self._shortened((partition.topic, partition.index), max(0, size - log.size_bytes))
        self._cuts[each.number, replica] = (log, log.durability.history, log.size_bytes)
        epoch = partition.leader_epoch
        self._told[replica] = max(partition.partition_epoch, self._told.get(replica, -1))
        if partition.is_leader:
            leader = self._leaders.setdefault((replica, epoch), each.number)
            if leader != each.number:
                raise Violation(f"R9 nodes {leader} and {each.number} both lead {partition} in epoch {epoch}")
        if partition.topic in self._safe:
            seen, *before = self._watermarks.get((each.host, replica, epoch), (log, 0, 0))
            if seen is log and (start < before[0] or high < before[1]):
                raise Violation(f"L5 {partition} of node {each.number} went back from {before} to {(start, high)}")
            self._watermarks[each.host, replica, epoch] = (log, start, high)
            if replica not in self._ledgers:
                self._ledgers[replica] = self._new_ledger(str(partition))
            self._ledgers[replica].compare(each.host, log, high)

    def _new_ledger(self, name: str) -> Ledger | CompactedLedger:
        return CompactedLedger(name, self._deletions) if is_compacted(name) else Ledger("R3", name)

    def _look_at_candidates(self, image: ClusterImage, running: dict[int, Running]) -> None:
        """R2: each replica that may lead next has all committed records. R4: the leader waits for all of them."""
        replicas = {
            (number, partition.topic_id, partition.index): partition
            for number, each in running.items()
            for partition in each.replicas()
        }
        for topic in image.topics.values():
            if topic.name not in self._safe:
                continue
            for decided in topic.partitions:
                if decided.partition_epoch < self._told.get((topic.topic_id, decided.index), -1):
                    # A replica applied a newer decision; the controller died before this check saw it.
                    continue
                ledger = self._ledgers.get((topic.topic_id, decided.index))
                for member in (*decided.isr, *decided.elr):
                    held = replicas.get((member, topic.topic_id, decided.index))
                    if ledger is None or held is None or not _is_registered(image, running[member]):
                        continue
                    if held.log.log_end_offset < ledger.end:
                        raise Violation(
                            f"R2 {held} of node {member} ends at {held.log.log_end_offset}, {ledger.end} is committed, "
                            f"and it may lead: ISR {decided.isr}, eligible {decided.elr}"
                        )
                leader = replicas.get((decided.leader, topic.topic_id, decided.index))
                if leader is not None and leader.is_leader and leader.leader_epoch == decided.leader_epoch:
                    self._look_at_awaited(leader, decided)

    def _look_at_transactions(self, image: ClusterImage, running: Sequence[Running]) -> None:
        shards = [shard for each in running for shard in each.transaction_shards()]
        if not shards:
            return
        epochs = {
            (topic.topic_id, partition.index): partition.leader_epoch
            for topic in image.topics.values()
            for partition in topic.partitions
        }
        leaders = [
            partition
            for each in running
            for partition in each.replicas()
            if partition.is_leader and partition.leader_epoch == epochs.get((partition.topic_id, partition.index))
        ]
        check_ended(shards, leaders, running[0].machine.clock.wall_ms())

    def _look_at_awaited(self, leader: Partition, decided: PartitionImage) -> None:
        if leader.leading is None:
            return
        awaited = [leader.broker_id, *(follower.broker_id for follower in leader.leading._awaited)]
        missed = [member for member in decided.isr if member not in awaited]
        if missed:
            raise Violation(
                f"R4 {leader}: {missed} are in the ISR {decided.isr}, and its leader waits only for {awaited}"
            )


def _look_at_fetchers(each: Running) -> None:
    """R8: a node fetches a partition that it follows from one leader, and never fetches one that it leads."""
    fetched: dict[Replica, int] = {}
    for leader, partition in each.fetched():
        replica = (partition.topic_id, partition.index)
        if partition.is_leader:
            raise Violation(f"R8 node {each.number} leads {partition} and fetches it from {leader}")
        if fetched.setdefault(replica, leader) != leader:
            raise Violation(f"R8 node {each.number} fetches {partition} from {leader} and {fetched[replica]}")


def _is_registered(image: ClusterImage, each: Running) -> bool:
    """Whether the image has the registration of this incarnation of the node."""
    registration = image.brokers.get(each.number)
    return registration is not None and registration.broker_epoch == each.node._broker_epoch
