"""The state of the whole cluster, read from inside all nodes: more than any client or single node can know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from odradek.base.ids import BrokerId, DirectoryId
from odradek.coordinator.engine import Phase
from odradek.coordinator.transaction.shard import TransactionShard
from odradek.metadata.bootstrap import METADATA_LOG_DIRECTORY
from odradek.metadata.image import ClusterImage, PartitionImage
from odradek.node.build import Node
from odradek.quorum.election import NEVER_ELECTED, QUORUM_STATE_FILE, ElectionState, decode_election
from odradek.quorum.voters import VoterSet
from odradek.replication.partition import Partition
from odradek.server.quorum.metadata_quorum import MetadataQuorum
from odradek.sim.history import Violation
from odradek.sim.loop import Host
from odradek.sim.machine import Machine
from odradek.sim.transaction_watch import StableWatch

_QUORUM_STATE = f"{METADATA_LOG_DIRECTORY}/{QUORUM_STATE_FILE}"


@dataclass(frozen=True, slots=True)
class Running:
    """A machine whose node is alive."""

    machine: Machine
    host: Host
    node: Node

    @property
    def number(self) -> int:
        return self.machine.number

    @property
    def directory_id(self) -> DirectoryId | None:
        return self.machine.directory_id

    @property
    def quorum(self) -> MetadataQuorum:
        return self.node._quorum

    def is_member(self) -> bool:
        """Whether it takes part in the quorum; clients may be served much later."""
        quorum = getattr(self.node, "_quorum", None)
        return quorum is not None and quorum.has_loaded

    def replicas(self) -> list[Partition]:
        broker = getattr(self.node, "_broker", None)
        return [] if broker is None else broker.partitions.all()

    def transaction_shards(self) -> list[TransactionShard]:
        """The transactions that it coordinates and has loaded."""
        return [shard for phase, shard in self._hosted_transactions() if phase is Phase.ACTIVE]

    def loads_transactions(self) -> bool:
        return any(phase is Phase.LOADING for phase, _ in self._hosted_transactions())

    def _hosted_transactions(self) -> list[tuple[Phase, TransactionShard]]:
        broker = getattr(self.node, "_broker", None)
        return [] if broker is None else list(broker.transactions.hosted())

    def fetched(self) -> Iterator[tuple[BrokerId, Partition]]:
        """The partitions that it fetches, each with the leader that it fetches from."""
        fetchers = getattr(self.node, "_fetchers", None)
        for leader, fetcher in () if fetchers is None else fetchers._fetchers.items():
            for partition in fetcher._fetching._followed.values():
                yield leader, partition

    def durable_election(self) -> ElectionState:
        """The stored state of the last election."""
        mounted = self.machine.disk.mounted
        if mounted is None or not mounted.exists(_QUORUM_STATE):
            return NEVER_ELECTED
        if self.machine.disk.sync_failed and not self.machine.disk.has_durable_name(_QUORUM_STATE):
            return NEVER_ELECTED  # and it has sent this to no node: it is about to stop
        return decode_election(mounted.read(_QUORUM_STATE))

    def voter_sets(self) -> list[tuple[int, VoterSet]]:
        """The voter sets that it knows to be committed, with the offset of their record."""
        committed = self.quorum.core.high_watermark
        known = self.quorum._loaded.voters._sets
        # The first set of a node that joined later is empty: it knew no voters.
        return [(offset, voters) for offset, voters in known if offset < committed and voters.keys]


class NodeWatch:
    """L5, single node: log start <= last stable offset <= high watermark <= log end; none falls without a restart."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._seen: dict[tuple[Host, bytes, int], tuple[int, int, int]] = {}
        self._stable = StableWatch()

    def look(self) -> None:
        for each in self._truth.running():
            for partition in each.replicas():
                log = partition.log
                found = (log.log_start_offset, partition.high_watermark, log.log_end_offset)
                start, high, end = found
                if not start <= partition.last_stable_offset <= high <= end:
                    raise Violation(f"L5 {partition}: start {start}, high watermark {high}, end {end}")
                self._stable.look(each.host, partition)
                replica = (each.host, partition.topic_id, partition.index)
                before = self._seen.get(replica, (0, 0, 0))
                if any(now < then for now, then in zip(found, before, strict=True)):
                    raise Violation(f"L5 {partition} went back from {before} to {found}")
                self._seen[replica] = found


class Truth:
    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self._newest: ClusterImage | None = None

    def living(self) -> list[Running]:
        """All nodes that take part in the quorum, even if they are stopping."""
        living = [
            Running(machine, machine.host, machine.node)
            for machine in self._machines
            if machine.host is not None and machine.node is not None
        ]
        return [each for each in living if each.is_member()]

    def members(self) -> list[Running]:
        """The nodes whose logs are open."""
        return [each for each in self.living() if not each.machine.stopping]

    def running(self) -> list[Running]:
        """The nodes that have started."""
        return [each for each in self.members() if each.machine.started]

    def all_run(self) -> bool:
        return len(self.running()) == len(self._machines)

    def image(self) -> ClusterImage | None:
        """The newest committed image that any node has known: it holds for all nodes."""
        for each in self.living():
            image = each.quorum.feed.image
            if self._newest is None or image.offset > self._newest.offset:
                self._newest = image
        return self._newest

    def partitions(self) -> Iterator[tuple[str, bytes, PartitionImage]]:
        """Name and id of the topic, and what is decided about the partition."""
        image = self.image()
        for topic in () if image is None else image.topics.values():
            for partition in topic.partitions:
                yield topic.name, topic.topic_id, partition

    def important(self) -> list[Machine]:
        """The leader of the metadata log first, then the nodes by how many partitions they lead."""
        led: dict[int, int] = {}
        for _, _, partition in self.partitions():
            led[partition.leader] = led.get(partition.leader, 0) + 1
        for each in self.members():
            if each.quorum.is_leading:
                led[each.number] = led.get(each.number, 0) + 1_000_000
        chosen = [machine for machine in self._machines if machine.number in led]
        return sorted(chosen, key=lambda machine: -led[machine.number])

    def leads(self, address: tuple[str, int], topic: str, index: int) -> int | None:
        """The leader epoch in which the node at the address leads the partition; None when another does."""
        image = self.image()
        known = None if image is None else image.topics.get(topic)
        if known is None:
            return None
        partition = known.partitions[index]
        if any(machine.address == address and machine.number == partition.leader for machine in self._machines):
            return partition.leader_epoch
        return None

    def have_all_seats(self) -> bool:
        """Whether all controllers vote, each with the disk that it has now, and that is committed."""
        seats = [(each.number, each.directory_id) for each in self._machines if each.is_controller]
        leading = [each.quorum.core for each in self.members() if each.quorum.is_leading]
        return any(
            sorted((key.voter_id, key.directory_id) for key in core.voters.keys) == seats
            and core.high_watermark > core.voters_offset
            for core in leading
        )

    def registered(self, number: int) -> int:
        """The broker epoch of the node's last registration, -1 without any."""
        image = self.image()
        known = None if image is None else image.brokers.get(BrokerId(number))
        return -1 if known is None else known.broker_epoch

    def is_whole(self) -> bool:
        """All machines are up, and every replica of every partition is in sync."""
        if len(self.running()) < len(self._machines):
            return False
        image = self.image()
        return image is None or _has_all_in_sync(image)

    def stays_whole(self) -> bool:
        """`is_whole`, and no leader has proposed, and no controller decided, a change that is not committed yet."""
        leading = [partition.leading for each in self.running() for partition in each.replicas()]
        return (
            self.is_whole()
            and all(_has_all_in_sync(each.quorum.feed.ahead) for each in self.members())
            and not any(leader.proposal for leader in leading if leader is not None)
        )


def _has_all_in_sync(image: ClusterImage) -> bool:
    return all(
        len(partition.isr) == len(partition.replicas)
        for topic in image.topics.values()
        for partition in topic.partitions
    )
