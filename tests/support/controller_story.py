"""A cluster under random events, with a model of the log of each replica, and checks that must always hold.

The controller decides on real images. The brokers are only numbers: `has` is the length of a replica's log,
`acknowledged` is how much of a partition was acknowledged to clients. Proposals of leaders may arrive late and twice.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass

from odradek.base.errors import KafkaError
from odradek.base.ids import NO_BROKER, BrokerId
from odradek.controller.balance import balance_leaders
from odradek.controller.configs import Operation, incremental_alter_configs
from odradek.controller.elections import ElectionType, elect_leaders
from odradek.controller.fencing import begin_controlled_shutdown, fence_broker, unfence_broker, unregister_broker
from odradek.controller.isr_changes import alter_partition
from odradek.controller.partition_changes import Recovery
from odradek.controller.reassign import alter_partition_reassignments
from odradek.controller.topics import TopicDefaults, create_topics
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage
from odradek.protocol.messages import p44_incremental_alter_configs as p44
from odradek.protocol.messages.p19_create_topics import CreatableReplicaAssignment, CreatableTopic
from odradek.protocol.messages.p43_elect_leaders import TopicPartitions
from odradek.protocol.messages.p45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.p56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)

CONFIG = BrokerConfig()
TOPIC = "t"


class Violation(AssertionError):
    pass


@dataclass(frozen=True)
class Proposal:
    leader: int
    broker_epoch: int
    leader_epoch: int
    partition: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]

    def request(self, topic_id: bytes) -> AlterPartitionRequest:
        wanted = AlterPartitionRequestPartitionData(
            partition_index=self.partition,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=e) for b, e in self.isr],
        )
        topic = AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[wanted])
        return AlterPartitionRequest(broker_id=self.leader, broker_epoch=self.broker_epoch, topics=[topic])


class Story:
    def __init__(self, cluster, seed: int, *, eligible_leaders: bool = True) -> None:
        self.rng = random.Random(seed)
        self.cluster = cluster
        self.eligible_leaders = eligible_leaders
        self.brokers = list(range(1, self.rng.randint(3, 5) + 1))
        for broker_id in self.brokers:
            cluster.add_broker(broker_id)
        self.incarnation = 0
        replication_factor = self.rng.randint(1, 3)
        replicas = [self.rng.sample(self.brokers, replication_factor) for _ in range(2)]
        assignments = [CreatableReplicaAssignment(partition_index=n, broker_ids=r) for n, r in enumerate(replicas)]
        topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignments)
        cluster.take(create_topics(cluster.image, [topic], defaults=TopicDefaults(), rng=cluster.rng))
        self.has: dict[tuple[int, int], int] = defaultdict(int)
        self.acknowledged: dict[int, int] = defaultdict(int)
        self.proposals: list[Proposal] = []
        self.unclean_asked = False
        self.told: list[str] = []

    @property
    def image(self) -> ClusterImage:
        return self.cluster.image

    @property
    def partitions(self) -> tuple[PartitionImage, ...]:
        return self.image.topics[TOPIC].partitions

    def run(self, steps: int) -> None:
        events = [
            (self.produce, 8),
            (self.propose, 8),
            (self.deliver, 8),
            (self.fence, 3),
            (self.unfence, 6),
            (self.restart, 3),
            (self.shut_down, 1),
            (self.unregister, 0.3),
            (self.elect, 1),
            (self.reassign, 1),
            (self.balance, 1),
            (self.configure, 1),
        ]
        for _ in range(steps):
            (event,) = self.rng.choices([e for e, _ in events], [w for _, w in events])
            before = self.image
            self.unclean_asked = False
            event()
            self.told.append(f"{event.__name__}: {self.partitions}")
            self.check(before)

    # Events

    def take(self, decide, *arguments, **options) -> None:
        try:
            self.cluster.take(decide(self.image, *arguments, **options))
        except KafkaError as refused:
            self.told.append(f"refused: {refused.code.name}")

    def produce(self) -> None:
        """Produce with acks=all if the ISR allows it. A leader also appends records that it never replicates."""
        partition = self.rng.choice(self.partitions)
        if partition.leader == NO_BROKER:
            return
        index, leader = partition.index, partition.leader
        self.has[index, leader] += self.rng.randint(1, 3)
        maximal = dict.fromkeys(partition.isr)
        for proposal in self.proposals:
            if (proposal.partition, proposal.partition_epoch) == (index, partition.partition_epoch):
                maximal |= dict.fromkeys(b for b, _ in proposal.isr)
        for member in maximal:
            if self._is_active(member) and self.rng.random() < 0.5:
                self.has[index, member] = self.has[index, leader]
        if len(partition.isr) >= min(self.min_isr, len(partition.replicas)):
            committed = min(self.has[index, member] for member in maximal)
            self.acknowledged[index] = max(self.acknowledged[index], committed)

    def _is_active(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.active

    @property
    def min_isr(self) -> int:
        return int(self.image.config(TOPIC_RESOURCE, TOPIC).get("min.insync.replicas", "1"))

    def propose(self) -> None:
        partition = self.rng.choice(self.partitions)
        if partition.leader == NO_BROKER:
            return
        isr = []
        for broker_id in partition.replicas:
            broker = self.image.brokers.get(broker_id)
            if broker is None:
                continue
            member = broker_id in partition.isr
            if broker_id != partition.leader and self.rng.random() < 0.5:
                member = not member
            if member and broker_id not in partition.isr:
                # The replica has fetched the whole log of the leader.
                self.has[partition.index, broker_id] = self.has[partition.index, partition.leader]
            if member:
                isr.append((broker_id, broker.broker_epoch))
        del self.proposals[:-2]
        self.proposals.append(
            Proposal(
                leader=partition.leader,
                broker_epoch=self.image.brokers[partition.leader].broker_epoch,
                leader_epoch=partition.leader_epoch,
                partition=partition.index,
                partition_epoch=partition.partition_epoch,
                isr=tuple(isr),
            )
        )

    def deliver(self) -> None:
        if not self.proposals:
            return
        proposal = self.rng.choice(self.proposals)
        if self.rng.random() < 0.7:
            self.proposals.remove(proposal)
        self.take(alter_partition, proposal.request(self.image.topics[TOPIC].topic_id), CONFIG)

    def fence(self) -> None:
        broker_id = self.rng.choice(self.brokers)
        if broker_id in self.image.brokers:
            epoch = self.image.brokers[broker_id].broker_epoch
            self.take(fence_broker, BrokerId(broker_id), epoch, "silent", CONFIG)

    def unfence(self) -> None:
        broker_id = self.rng.choice(self.brokers)
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.in_controlled_shutdown:
            self._register(broker_id, clean=broker is not None)
        elif broker.fenced:
            self.take(unfence_broker, BrokerId(broker_id), broker.broker_epoch, CONFIG)

    def restart(self) -> None:
        broker_id = self.rng.choice(self.brokers)
        kind = self.rng.choice(["clean", "crash", "crash", "disk lost"])
        if broker_id not in self.image.brokers:
            kind = "crash"
        for partition in self.partitions:
            key = (partition.index, broker_id)
            if kind == "disk lost":
                self.has[key] = 0
            elif kind == "crash":
                self.has[key] = max(0, self.has[key] - self.rng.randint(0, 5))
        self._register(broker_id, clean=kind == "clean", disk_lost=kind == "disk lost")

    def _register(self, broker_id: int, *, clean: bool, disk_lost: bool = False) -> None:
        self.incarnation += 1
        known = self.image.brokers.get(broker_id)
        disk = known.directories[0][1] if known is not None else broker_id
        self.cluster.add_broker(
            broker_id,
            unfence=False,
            incarnation=self.incarnation % 256,
            clean=clean,
            disk=100 + self.incarnation % 100 if disk_lost else disk,
        )

    def shut_down(self) -> None:
        broker_id = self.rng.choice(self.brokers)
        broker = self.image.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            self.take(begin_controlled_shutdown, BrokerId(broker_id), broker.broker_epoch, CONFIG)

    def unregister(self) -> None:
        self.take(unregister_broker, BrokerId(self.rng.choice(self.brokers)), CONFIG)

    def elect(self) -> None:
        election = self.rng.choice([ElectionType.PREFERRED, ElectionType.PREFERRED, ElectionType.UNCLEAN])
        self.unclean_asked = election is ElectionType.UNCLEAN
        self.take(elect_leaders, election, [TopicPartitions(topic=TOPIC, partitions=[0, 1])], CONFIG)

    def reassign(self) -> None:
        target = self.rng.sample(self.brokers, self.rng.randint(1, 3))
        replicas = None if self.rng.random() < 0.3 else target
        wanted = ReassignablePartition(partition_index=self.rng.randrange(2), replicas=replicas)
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=[wanted])])
        self.take(alter_partition_reassignments, request, CONFIG)

    def balance(self) -> None:
        self.take(balance_leaders, CONFIG)

    def configure(self) -> None:
        name, values = self.rng.choice(
            [("min.insync.replicas", ["1", "2", "3"]), ("unclean.leader.election.enable", ["true", "false", "false"])]
        )
        change = p44.AlterableConfig(name=name, config_operation=Operation.SET, value=self.rng.choice(values))
        resource = p44.AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=[change])
        self.take(incremental_alter_configs, [resource])

    # Checks

    def check(self, before: ClusterImage) -> None:
        for was, now in zip(before.topics[TOPIC].partitions, self.partitions, strict=True):
            self._check_shape(now)
            self._check_epochs(was, now)
            if now.leader != NO_BROKER and (was.leader, was.leader_epoch) != (now.leader, now.leader_epoch):
                self._check_election(was, now)

    def _expect(self, holds: bool, rule: str) -> None:
        if not holds:
            raise Violation("\n".join([rule, *self.told[-12:]]))

    def _check_shape(self, now: PartitionImage) -> None:
        self._expect(now.leader == NO_BROKER or now.leader in now.isr, "the leader is in the ISR")
        self._expect(all(b in now.replicas for b in now.isr), "the ISR is among the replicas")
        self._expect(all(b in now.replicas for b in now.elr), "the eligible are among the replicas")
        self._expect(not any(b in now.isr for b in now.elr), "who is in the ISR is not eligible beside it")
        self._expect(all(b in now.replicas for b in (*now.adding, *now.removing)), "what moves is among the replicas")
        self._expect(len(dict.fromkeys(now.replicas)) == len(now.replicas) > 0, "replicas are distinct")
        self._expect(len(now.directories) == len(now.replicas), "each replica has a directory")
        empty_allowed = self.eligible_leaders and now.leader == NO_BROKER
        self._expect(bool(now.isr) or empty_allowed, "the ISR is not empty while somebody leads")
        if now.leader != NO_BROKER:
            self._expect(all(map(self._is_active, now.isr)), "who is in sync is neither fenced nor shutting down")

    def _check_epochs(self, was: PartitionImage, now: PartitionImage) -> None:
        self._expect(now.leader_epoch >= was.leader_epoch, "leader epochs do not fall")
        self._expect(now.partition_epoch >= was.partition_epoch, "partition epochs do not fall")
        if now != was:
            self._expect(now.partition_epoch > was.partition_epoch, "every change has a new partition epoch")
        if now.leader != was.leader or any(b not in now.replicas for b in was.replicas):
            self._expect(now.leader_epoch > was.leader_epoch, "a new leader or fewer replicas have a new leader epoch")

    def _check_election(self, was: PartitionImage, now: PartitionImage) -> None:
        index = now.index
        rules = self.image.config(TOPIC_RESOURCE, TOPIC)
        unclean = now.recovery == Recovery.RECOVERING and now.isr == (now.leader,) and now.leader not in was.isr
        if unclean and now.leader not in was.elr:
            allowed = self.unclean_asked or rules.get("unclean.leader.election.enable") == "true"
            self._expect(
                allowed or (now.leader,) == was.last_known_elr, "an unclean election happens only if it is allowed"
            )
            self.acknowledged[index] = min(self.acknowledged[index], self.has[index, now.leader])
        if self.eligible_leaders:
            self._expect(
                self.has[index, now.leader] >= self.acknowledged[index],
                f"leader {now.leader} of partition {index} has what was acknowledged",
            )
        for broker_id in self.brokers:
            if broker_id != now.leader:
                # The replica truncates its log where it differs from that of the new leader.
                self.has[index, broker_id] = min(self.has[index, broker_id], self.acknowledged[index])
