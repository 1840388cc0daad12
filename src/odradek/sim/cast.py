"""The clients of a run: every client that the knobs ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.sim.cluster import rack_of
from odradek.sim.cluster_knobs import GROWN, TUNED
from odradek.sim.compaction_knobs import RETUNED
from odradek.sim.history import Place
from odradek.sim.keyed import Deletions
from odradek.sim.knobs import LOST_DISK, CompactedPlan, Knobs, TopicPlan, TransactionPlan
from odradek.sim.machine import Machine
from odradek.sim.transaction_knobs import COPIERS
from odradek.sim.transactions import TransactionHistory
from odradek.sim.workloads.admin import IdCollector, RecordDeleter, TopicChurn
from odradek.sim.workloads.committed_reader import CommittedReader
from odradek.sim.workloads.consumer import Consumer
from odradek.sim.workloads.copier import Copier
from odradek.sim.workloads.ephemeral import Ephemeral
from odradek.sim.workloads.group_member import CommitAuditor, GroupMember, GroupPlan
from odradek.sim.workloads.growing import Grower
from odradek.sim.workloads.keyed import KeyedProducer, Rereader
from odradek.sim.workloads.near import NearReader
from odradek.sim.workloads.operating import Elector, Mover, Tuner
from odradek.sim.workloads.producer import Producer, ProducerPlan
from odradek.sim.workloads.reincarnation import Reincarnation
from odradek.sim.workloads.transactional import TransactionalPlan, TransactionalProducer
from odradek.sim.workloads.vandal import Vandal
from odradek.sim.workloads.voters import Seats, VoterKeeper
from odradek.sim.workloads.worker import Errand, Worker


class Cast:
    """`errand` gives the client of that name its machine and all that it needs."""

    def __init__(self, knobs: Knobs, machines: Sequence[Machine], errand: Callable[[str], Errand]) -> None:
        self._knobs = knobs
        self._machines = machines
        self._errand = errand
        self.transactions = TransactionHistory()
        self._grower = Grower("grower", errand("grower"), GROWN, 1) if "growth" in knobs.chores else None

    def places(self, topic: TopicPlan) -> tuple[Place, ...]:
        """All partitions that a client may have written to."""
        if self._grower is not None and topic.name == GROWN:
            return tuple((GROWN, partition) for partition in range(self._grower.partitions))
        return topic.places

    @property
    def deletions(self) -> Deletions:
        """What readers and replicas of the compacted topic may have missed."""
        compacted = self._knobs.compacted
        if compacted is None or compacted.deletions_stay:
            return Deletions.STAY
        return Deletions.GO if self._knobs.nodes == 1 else Deletions.ARE_MISSED

    def workers(self) -> list[Worker]:
        topics = self._knobs.topics
        places = tuple(place for topic in topics for place in topic.places)
        all_places = tuple(place for topic in self._knobs.all_topics for place in topic.places)
        firm = tuple(place for topic in topics if topic.safe and not topic.shrinks for place in topic.places)
        trimmed = tuple(place for topic in self._knobs.all_topics if topic.deleted_from for place in topic.places)
        workers: list[Worker] = [
            *self._producers(places),
            *(
                Consumer(f"reader{index}", self._errand(f"reader{index}"), all_places, in_session=in_session)
                for index, in_session in enumerate((False, True))
            ),
            *self._group(firm),
            RecordDeleter("deleter", self._errand("deleter"), trimmed),
            Vandal("vandal", self._errand("vandal"), firm),
        ]
        if self._knobs.nodes == 1:
            workers.append(Reincarnation("again", self._errand("again")))
        workers.append(TopicChurn("churn", self._errand("churn"), self._knobs.replicas))
        workers.append(IdCollector("ids", self._errand("ids")))
        workers += self._around_compaction()
        workers += self._around_transactions()
        return [*workers, *self._operators(all_places), *self._near_readers(all_places)]

    def _producers(self, places: tuple[Place, ...]) -> list[Producer]:
        return [
            *(self._producer(f"sure{n}", places, idempotent=True) for n in range(self._knobs.idempotent_producers)),
            *(self._producer(f"plain{n}", places, idempotent=False) for n in range(self._knobs.plain_producers)),
        ]

    def _producer(self, name: str, places: tuple[Place, ...], *, idempotent: bool) -> Producer:
        errand = self._errand(name)
        plan = ProducerPlan(
            places=tuple(errand.rng.sample(places, errand.rng.choice((1, len(places))))),
            idempotent=idempotent,
            acks=-1 if idempotent else errand.rng.choice((1, -1)),
            batches=self._knobs.batches_per_producer,
            records_max=errand.rng.choice((1, 5)),
            value_bytes_max=errand.rng.choice((30, 200)),
            safe={topic.name: topic.safe and not topic.shrinks for topic in self._knobs.topics},
        )
        return Producer(name, errand, plan)

    def _around_compaction(self) -> list[Worker]:
        """Clients that write keys, read them, and change how they are compacted."""
        plan = self._knobs.compacted
        if plan is None:
            return []
        topic, deletions = plan.topic, self.deletions
        if not plan.deletions_stay:
            # Compaction may remove a deletion before a slow reader sees it.
            deletions = Deletions.ARE_MISSED
        workers: list[Worker] = [
            *(self._keyed_producer(f"key{n}", plan, idempotent=True) for n in range(plan.idempotent_producers)),
            *(self._keyed_producer(f"plainkey{n}", plan, idempotent=False) for n in range(plan.plain_producers)),
            Rereader("rereader", self._errand("rereader"), topic.places, deletions if topic.safe else None),
        ]
        if "configs" in self._knobs.chores:
            values = {**RETUNED, "cleanup.policy": (topic.configs["cleanup.policy"], "delete")}
            workers.append(Tuner("retuner", self._errand("retuner"), (topic.name,), values))
        return workers

    def _keyed_producer(self, name: str, plan: CompactedPlan, *, idempotent: bool) -> Producer:
        errand = self._errand(name)
        producer = ProducerPlan(
            places=plan.topic.places,
            idempotent=idempotent,
            acks=-1 if idempotent else errand.rng.choice((1, -1)),
            batches=plan.batches_per_producer,
            records_max=3,
            value_bytes_max=60,
            safe={plan.topic.name: plan.topic.safe and not plan.topic.shrinks},
        )
        return KeyedProducer(name, errand, producer, plan.keys)

    def _around_transactions(self) -> list[Worker]:
        plan = self._knobs.transactions
        if plan is None:
            return []
        places = plan.topic.places
        accounts = plan.accounts.places if plan.accounts is not None else ()
        read = (*places, *accounts)
        reader = CommittedReader("committed", self._errand("committed"), read, self.transactions)
        kinds = [*(("old", False),) * plan.old_producers, *(("new", True),) * plan.new_producers]
        workers: list[Worker] = [reader]
        for number, (kind, is_new) in enumerate(kinds):
            transactional_id = f"{kind}-{number}"
            for name in (transactional_id, f"{transactional_id}-twin")[: 1 + plan.twins]:
                producer = self._transactional(plan, transactional_id, is_new=is_new, has_twin=plan.twins)
                workers.append(TransactionalProducer(name, self._errand(name), producer))
        for number in range(plan.copiers):
            name = f"copier-{number}"
            # All copiers of a run speak the same protocol.
            copier = self._transactional(plan, COPIERS, is_new=plan.new_producers > 1, has_twin=plan.copiers > 1)
            workers.append(Copier(name, self._errand(name), copier))
        return workers

    def _transactional(
        self, plan: TransactionPlan, transactional_id: str, *, is_new: bool, has_twin: bool
    ) -> TransactionalPlan:
        return TransactionalPlan(
            transactional_id=transactional_id,
            history=self.transactions,
            places=plan.topic.places,
            accounts=plan.accounts.places if plan.accounts is not None else (),
            keys=plan.keys,
            is_new=is_new,
            transactions=plan.transactions_per_producer,
            timeout_ms=plan.timeout_ms,
            has_twin=has_twin,
            clocks_agree=plan.clocks_agree,
        )

    def _group(self, places: tuple[Place, ...]) -> list[Worker]:
        knobs = self._knobs
        if not knobs.group_members:
            return []
        group = GroupPlan("readers", places, knobs.groups_safe, alone=knobs.nodes == 1)
        names = [f"member{index}" for index in range(knobs.group_members)]
        members = [GroupMember(name, self._errand(name), group) for name in names]
        return [*members, CommitAuditor("auditor", self._errand("auditor"), group)]

    def _operators(self, places: tuple[Place, ...]) -> list[Worker]:
        """Clients that change a cluster in use."""
        knobs = self._knobs
        workers: list[Worker] = []
        if "moves" in knobs.chores:
            brokers = tuple(machine.number for machine in self._machines if machine.is_broker)
            workers.append(Mover("mover", self._errand("mover"), places, brokers, knobs.replicas))
        if "deletions" in knobs.chores:
            workers.append(Ephemeral("mayfly", self._errand("mayfly"), knobs.replicas))
        if "elections" in knobs.chores:
            workers.append(Elector("elector", self._errand("elector")))
        if "configs" in knobs.chores:
            topics = tuple(topic.name for topic in knobs.topics)
            workers.append(Tuner("tuner", self._errand("tuner"), topics, TUNED))
        if "voters" in knobs.chores or LOST_DISK in knobs.faults:
            restless = "voters" in knobs.chores
            workers.append(VoterKeeper("keeper", self._errand("keeper"), self._seats, restless=restless))
        if self._grower is not None:
            workers.append(self._grower)
        return workers

    def _near_readers(self, places: tuple[Place, ...]) -> list[Worker]:
        if not self._knobs.racks:
            return []
        return [NearReader(f"near{n}", self._errand(f"near{n}"), places, rack_of(n)) for n in (0, 1)]

    def _seats(self) -> Seats:
        return {
            machine.number: machine.directory_id
            for machine in self._machines
            if machine.is_controller and machine.directory_id is not None
        }
