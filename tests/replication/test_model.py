"""Three replicas and a correct controller with random events: committed records stay, the same on all replicas.

The controller elects only from the ISR and applies proposals as compare-and-set. Replicas learn of changes late or not
at all, restart, and fall behind. A restart may lose uncommitted records; then the replica registers again, outside the
ISR. Every record that a leader served below its high watermark is compared with every later leader.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from odradek.base.errors import KafkaError
from odradek.log.config import LogConfig
from odradek.replication.following import position, take
from support.replicas import LAG_MS_MAX, WALL_MS, Replicas

STEPS = 250
SEEDS = 60


class Violation(Exception):
    """A broken guarantee."""


class World:
    def __init__(self, seed):
        self.chance = Random(seed)
        config = LogConfig(flush_messages=1) if self.chance.random() < 0.3 else None
        self.replicas = Replicas(3, min_isr=self.chance.choice((1, 2)), config=config)
        # Offset -> value, of every record that was committed on a leader.
        self.committed = []
        self.in_flight = []
        self.written = 0

    def run(self):
        actions = (
            *[self.append] * 4,
            *[self.ask] * 10,
            *[self.deliver] * 10,
            *[self.decide] * 3,
            *[self.tell_one] * 4,
            *[self.sync] * 10,
            self.pass_time,
            self.fail_over,
            self.restart,
        )
        for _ in range(STEPS):
            self.chance.choice(actions)()
            self.check()
        self.settle()

    # Events

    def append(self):
        """Append to any replica that considers itself leader, also an old one."""
        node = self.any_node()
        if node.partition.is_leader:
            self.written += 1
            with suppress(KafkaError):  # too few replicas
                node.append(f"v{self.written}", acks=self.chance.choice((1, -1)))

    def ask(self):
        """A fetch arrives at the leader. The reply is in flight, and may be late or lost."""
        node = self.any_node()
        leader = self.replicas.nodes.get(node.partition.leader_id)
        if node.partition.is_leader or leader is None or not node.partition.is_synced(node.end - 1):
            return
        asked = position(node.partition)
        max_bytes = self.chance.choice((1, 200, 1 << 20))
        answer = self.replicas.answer(node.broker_id, max_bytes=max_bytes)
        self.in_flight.append((node.partition, asked, answer))

    def deliver(self):
        if self.in_flight:
            partition, asked, answer = self.in_flight.pop(self.chance.randrange(len(self.in_flight)))
            if self.replicas[partition.broker_id].partition is partition and self.chance.random() < 0.9:
                take(partition, asked, answer, WALL_MS)

    def sync(self, node=None):
        node = node or self.any_node()
        if node.sync_requests:
            node.sync_requests.clear()
            work = node.log.syncing.begin()
            work.run()
            node.log.syncing.finish(work)
            node.partition.synced(work.offset, again=False)

    def decide(self):
        proposing = [node for node in self.replicas.nodes.values() if node.proposals]
        if proposing:
            self.replicas.decide(self.chance.choice(proposing).broker_id, answer=self.chance.random() < 0.7)

    def tell_one(self):
        self.replicas.tell(self.any_node().broker_id)

    def pass_time(self):
        self.replicas.now_ms += self.chance.choice((1, LAG_MS_MAX // 2, 2 * LAG_MS_MAX))
        for node in self.replicas.nodes.values():
            node.partition.tick(self.replicas.now_ms)

    def fail_over(self):
        replicas = self.replicas
        leader = self.chance.choice(replicas.image.isr)
        if self.chance.random() < 0.5 and len(replicas.image.isr) > 1:
            # The old leader is fenced and unfenced at once: it may return as a follower.
            isr = [member for member in replicas.image.isr if member == leader or member != replicas.image.leader]
            replicas.elect(leader, isr=isr, tell=[])
        else:
            replicas.elect(leader, tell=[])

    def restart(self):
        """Restart a replica that may lose everything: the ISR must have min.insync.replicas without it."""
        replicas = self.replicas
        node = self.any_node()
        rest = tuple(member for member in replicas.image.isr if member != node.broker_id)
        if len(rest) < max(1, node.partition.min_isr):
            return
        node.proposals.clear()
        node.sync_requests.clear()
        node.restart(lost_from=self.chance.randint(node.log.log_start_offset, node.end))
        replicas.register(node.broker_id)
        if replicas.image.leader == node.broker_id:
            replicas.elect(self.chance.choice(rest), isr=rest, tell=[])
        else:
            replicas.change(isr=rest)
        replicas.tell(node.broker_id)

    def any_node(self):
        return self.chance.choice(list(self.replicas.nodes.values()))

    # Checks

    def check(self):
        image = self.replicas.image
        for node in sorted(self.replicas.nodes.values(), key=lambda node: not node.partition.is_leader):
            if not node.log.log_start_offset <= node.high_watermark <= node.end:
                raise Violation(f"{node.broker_id}: watermarks out of order")
            self.compare(node, node.values(node.high_watermark))
        leader = self.replicas[image.leader]
        if leader.values()[: len(self.committed)] != self.committed:
            raise Violation(f"leader {image.leader} has lost {self.committed}: {leader.values()}")

    def compare(self, node, values):
        known = self.committed[: len(values)]
        if values[: len(known)] != known:
            raise Violation(f"{node.broker_id} shows {values}, committed was {self.committed}")
        if node.partition.is_leader:
            self.committed += values[len(known) :]
        elif len(values) > len(self.committed):
            raise Violation(f"{node.broker_id} shows {values} before its leader does")

    def settle(self):
        """All faults end: the replicas must agree on everything."""
        replicas = self.replicas
        self.in_flight.clear()
        leader = replicas[replicas.image.leader]
        for _ in range(6):
            replicas.tell_all()
            for node in replicas.nodes.values():
                for _ in range(5):
                    self.sync(node)
                    if node is not leader:
                        replicas.fetch(node.broker_id)
            while leader.proposals:
                replicas.decide(leader.broker_id)
            self.check()
        if len(replicas.image.isr) != 3:
            raise Violation(f"the ISR does not refill: {replicas.image.isr}")
        if len({node.raw() for node in replicas.nodes.values()}) != 1:
            raise Violation("logs differ")
        if any(node.high_watermark != leader.end for node in replicas.nodes.values()):
            raise Violation("the high watermark stands still")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_committed_records_stay_on_every_leader(seed):
    World(seed).run()
