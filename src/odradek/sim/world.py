"""One run: a seed becomes machines, a network, clients and a nemesis; in the end the promises are checked."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from odradek.base import limits
from odradek.coordinator.placing import positive_java_hash
from odradek.sim.agreement import check_images, check_replica_logs, log_starts, not_yet_quiet
from odradek.sim.cast import Cast
from odradek.sim.checkers import (
    check_duplicates,
    check_jumps,
    check_keyed_sightings,
    check_retention,
    check_sightings,
)
from odradek.sim.client import Address, ClientHost
from odradek.sim.cluster_knobs import draw_cluster
from odradek.sim.cluster_watch import ClusterWatch
from odradek.sim.compaction_knobs import with_compaction
from odradek.sim.history import History, Place, Violation
from odradek.sim.inside import check_epochs, check_indexes, check_producers, logs_of
from odradek.sim.keyed import last_deletions
from odradek.sim.knobs import Focus, Knobs, TopicPlan, draw
from odradek.sim.loop import Host, SimLoop
from odradek.sim.machine import Machine
from odradek.sim.measured import check_metrics, measured
from odradek.sim.nemesis import Nemesis
from odradek.sim.net import SimNet
from odradek.sim.on_disk import StoredLog, stored_logs
from odradek.sim.ports import SimClock
from odradek.sim.randomness import Streams
from odradek.sim.recompression_knobs import with_recompression
from odradek.sim.transaction_knobs import with_transactions
from odradek.sim.transaction_watch import check_open_transactions, check_transaction_indexes
from odradek.sim.transactions import check_copies, check_markers, check_transactions
from odradek.sim.truth import NodeWatch, Truth
from odradek.sim.workloads.admin import NewTopic, TopicSetter
from odradek.sim.workloads.committed_reader import CommittedFinalReader
from odradek.sim.workloads.consumer import FinalReader
from odradek.sim.workloads.copier import copied_offset
from odradek.sim.workloads.worker import Errand, Worker

# Once the faults are over: how long clients may take to finish.
SETTLING_S = 120.0
WATCH_S = 0.05

Story = Callable[[int, str, str], None]


@dataclass(slots=True, kw_only=True)
class Outcome:
    seed: int
    knobs: Knobs
    problem: Exception | None
    digest: str
    steps: int
    simulated_s: float
    acked_records: int
    polled_records: int
    polled_nearby: int
    boots: int
    compactions: int
    # How many transactions ended in which way.
    transactions: Counter[str] = field(default_factory=Counter)
    faults: dict[str, int] = field(default_factory=dict)


def _draw(streams: Streams, nodes: int, controllers: int, focus: Focus) -> Knobs:
    knobs = draw(streams.stream("knobs"), focus)
    if nodes + controllers > 1:
        knobs = draw_cluster(streams.stream("cluster"), knobs, focus, nodes, controllers)
    knobs = with_compaction(streams.stream("compaction"), knobs, focus)
    knobs = with_recompression(streams.stream("recompression"), knobs, focus)
    knobs = with_transactions(streams.stream("transactions"), knobs, focus)
    return knobs if focus.adjust is None else focus.adjust(knobs)


class World:
    """`nodes` brokers, each a controller as well, unless `controllers` others are."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 1,
        controllers: int = 0,
        focus: Focus | None = None,
        story: Story | None = None,
    ) -> None:
        self.seed = seed
        self._streams = streams = Streams(seed)
        self.knobs = _draw(streams, nodes, controllers, focus or Focus())
        self.loop = SimLoop(  # type: ignore[abstract]  # what is missing must raise
            streams.stream("schedule"), step_cost_ns=self.knobs.step_cost_ns
        )
        self.loop.story = story
        self.net = SimNet(self.loop, streams.stream("network"), self.knobs.net)
        self.history = History()
        self.machines = tuple(
            Machine(self.loop, self.net, streams, self.knobs, number, self._loaded)
            for number in range(1, self.knobs.nodes + 1)
        )
        self._bootstrap = tuple(machine.address for machine in self.machines if machine.is_broker)
        self.truth = Truth(self.machines)
        self._clients: list[Host] = []
        self.nemesis = Nemesis(
            self.loop,
            self.net,
            self.machines,
            self._clients,
            self.knobs,
            streams.stream("nemesis"),
            self.truth,
        )
        self._closing = asyncio.Event()
        # Truncated bytes, on all nodes: a leader's retention may count them, and its followers delete, too.
        self._shortened: dict[Place, int] = {}
        self._cast = Cast(self.knobs, self.machines, self._errand)

    def run(self) -> Outcome:
        """Raises nothing: what went wrong is in the outcome."""
        problem: Exception | None = None
        epoch_max, plan = limits.producer_epoch_max, self.knobs.transactions
        if plan is not None:
            limits.producer_epoch_max = plan.epoch_max
        gc.disable()  # a collection at a moment of its own choosing would run finalisers in the middle of the run
        try:
            self.loop.run_until_complete(self._live())
        except Exception as found:  # noqa: BLE001 - any exception is the result of this seed
            problem = found
        finally:
            self.loop.close()
            limits.producer_epoch_max = epoch_max
            gc.unfreeze()  # each node has frozen the objects of its start
            gc.enable()
            gc.collect()
        return Outcome(
            seed=self.seed,
            knobs=self.knobs,
            problem=problem,
            digest=self.loop.digest(),
            steps=self.loop.steps,
            simulated_s=self.loop.time(),
            acked_records=self.history.acked_records,
            polled_records=self.history.polled_records,
            polled_nearby=self.history.polled_nearby,
            boots=sum(machine.incarnation for machine in self.machines),
            compactions=sum(machine.compactions for machine in self.machines),
            transactions=Counter(each.outcome.value for each in self._cast.transactions.transactions),
            faults=self._faults(),
        )

    def _faults(self) -> dict[str, int]:
        faults = {**self.nemesis.fired, **self.net.faults}
        for machine in self.machines:
            for fault, count in machine.disk.faults.items():
                faults[fault] = faults.get(fault, 0) + count
        return faults

    async def _live(self) -> None:
        for machine in self.machines:
            machine.boot()
        topics = tuple(
            NewTopic(name=topic.name, partitions=topic.partitions, replicas=self.knobs.replicas, configs=topic.configs)
            for topic in self.knobs.created_topics
        )
        setter = TopicSetter("setter", self._errand("setter"), topics)
        await self._finish([self._start(setter)], "the topics were not created")
        workers = [self._start(worker) for worker in self._cast.workers()]
        self.loop.create_task(self._watch(), name="watch").add_done_callback(self._complain)
        await self.nemesis.run()
        self._closing.set()
        self.loop.note("the faults are over")
        await self._finish(workers, "a client did not come to an end")
        await self._final_check()

    async def _watch(self) -> None:
        if self.knobs.nodes == 1:
            watch: NodeWatch | ClusterWatch = NodeWatch(self.truth)
        else:
            offsets = ("__consumer_offsets", "__transaction_state") if self.knobs.groups_safe else ()
            safe = tuple(topic.name for topic in self.knobs.created_topics if topic.safe)
            watch = ClusterWatch(self.truth, (*offsets, *safe), self._cast.deletions, self._was_shortened)
        while True:
            watch.look()
            await asyncio.sleep(WATCH_S)

    def _was_shortened(self, place: Place, lost_bytes: int) -> None:
        self._shortened[place] = self._shortened.get(place, 0) + lost_bytes

    def _errand(self, name: str) -> Errand:
        host = Host(name)
        self._clients.append(host)
        return Errand(
            client=ClientHost(self.net, host, self._bootstrap, self._incarnation),
            nodes=self.knobs.nodes,
            rng=self._streams.stream(name),
            clock=SimClock(self.loop),
            history=self.history,
            in_charge=self._in_charge,
            crashes=lambda: sum(machine.crashes for machine in self.machines),
            note=self.loop.note,
            closing=self._closing,
            request_timeout_s=self.knobs.request_timeout_s,
            pause_mean_s=self.knobs.pause_mean_s,
        )

    def _incarnation(self, address: Address) -> int:
        return next(machine.incarnation for machine in self.machines if machine.address[0] == address[0])

    def _in_charge(self, address: Address, group: str) -> int | None:
        partition = positive_java_hash(group) % int(self.knobs.broker["offsets.topic.num.partitions"])
        return self.truth.leads(address, "__consumer_offsets", partition)

    def _start(self, worker: Worker) -> asyncio.Task[None]:
        with self.loop.on(worker.errand.client.host):
            task = self.loop.create_task(worker.run(), name=worker.name)
        task.add_done_callback(self._complain)
        return task

    def _complain(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            self.loop.failures.append(problem)

    async def _finish(self, tasks: list[asyncio.Task[None]], complaint: str) -> None:
        ends_at = self.loop.time() + SETTLING_S
        for task in tasks:
            while not task.done():
                if self.loop.time() > ends_at:
                    raise Violation(f"V2 {complaint}: {task.get_name()} is still at work")
                await asyncio.sleep(0.1)

    def _loaded(self, incarnation: int, logs: dict[str, StoredLog]) -> None:
        if self.knobs.nodes > 1:
            return
        self.history.ends_at_start[incarnation] = {
            place: logs[f"{place[0]}-{place[1]}"].end
            for topic in self.knobs.all_topics
            for place in topic.places
            if f"{place[0]}-{place[1]}" in logs
        }

    async def _final_check(self) -> None:
        places = tuple(place for topic in self.knobs.all_topics for place in self._cast.places(topic))
        # A single node compacts by durable records; in a cluster, a node may compact by records that are lost later.
        may_lose = [
            place
            for topic in self.knobs.all_topics
            if topic.compacts and not topic.safe and self.knobs.nodes > 1
            for place in topic.places
        ]
        errand = replace(self._errand("last"), request_timeout_s=SETTLING_S)
        reader = FinalReader("last", errand, places, may_lose)
        await self._until_quiet()
        await self._finish([self._start(reader)], "the last reader found no end")
        for topic in self.knobs.all_topics:
            for place in self._cast.places(topic):
                self._check_partition(topic, place, reader.starts[place], reader.content[place])
        check_jumps(self.history, {topic.name: topic for topic in self.knobs.all_topics})
        files = {machine.name: machine.disk.files() for machine in self.machines}
        deleted_at = {
            f"{place[0]}-{place[1]}": last_deletions(self.history, place)
            for topic in self.knobs.all_topics
            for place in topic.places
            if topic.compacts
        }
        lossy = [f"{topic}-{index}" for topic, index in may_lose]
        check_replica_logs(files, log_starts(self.truth), self._cast.deletions, deleted_at, lossy)
        await self._check_transactions()
        for machine in self.machines:
            await self._inspect(machine, reader.starts)

    async def _check_transactions(self) -> None:
        plan = self.knobs.transactions
        if plan is None:
            return
        errand = replace(self._errand("last committed"), request_timeout_s=SETTLING_S)
        seen = self._cast.transactions
        places = (*plan.topic.places, *(plan.accounts.places if plan.accounts is not None else ()))
        reader = CommittedFinalReader("last committed", errand, places, seen, copies=plan.copiers > 0)
        await self._finish([self._start(reader)], "the last committed reader found no end")
        check_transactions(seen, reader.content)
        copied = [copied_offset(value) for content in reader.content.values() for value in content.values()]
        check_copies(seen, [offset for offset in copied if offset is not None], reader.copied_to)
        by_epoch = {each.producer[0] for each in seen.transactions if each.transactional_id.startswith("new-")}
        for machine in self.machines:
            check_markers(stored_logs(machine.disk.files()), by_epoch)

    async def _until_quiet(self) -> None:
        ends_at = self.loop.time() + SETTLING_S
        while (still := not_yet_quiet(self.truth)) is not None:
            if self.loop.time() > ends_at:
                raise Violation(still)
            await asyncio.sleep(0.1)
        if self.knobs.nodes > 1:
            check_images(self.truth)
            check_metrics(self.truth)

    async def _inspect(self, machine: Machine, starts: dict[Place, int]) -> None:
        """The node's own memory against its files, then the files that a clean stop leaves."""
        node = machine.node
        if node is None:
            raise Violation(f"V2 the faults are over and {machine.name} is down")
        measured(node)
        logs = stored_logs(machine.disk.files())
        if not self.knobs.loses_power:
            # Otherwise retention may have counted records that a power cut or the next leader removed later.
            for topic in self.knobs.topics:
                for place in topic.places:
                    if (stored := logs.get(f"{place[0]}-{place[1]}")) is not None:
                        lost_bytes = self._shortened.get(place, 0)
                        check_retention(topic.retention_bytes, place, starts[place], stored, lost_bytes)
        unsafe = [place for topic in self.knobs.all_topics if not topic.safe for place in topic.places]
        for log in logs_of(node):
            if log.directory in logs:
                wall_ms, safe = machine.clock.wall_ms(), log.topic_partition not in unsafe
                check_producers(log, logs[log.directory], wall_ms, safe=safe)
                check_epochs(log, logs[log.directory])
                check_open_transactions(log, logs[log.directory], wall_ms)
        check_transaction_indexes(machine.disk.files(), logs)
        await machine.stop_cleanly(then_lose_power=False)
        check_indexes(machine.disk.files())

    def _check_partition(self, topic: TopicPlan, place: Place, start: int, content: dict[int, bytes]) -> None:
        asked = self.history.deleted_below.get(place, 0)
        if start > asked and topic.retention_bytes < 0:
            raise Violation(f"L6 {place} begins at {start}, only records below {asked} were to be deleted")
        self.history.deletes_below(place, start)
        if topic.safe or self.knobs.nodes == 1:
            # On a single node we know when its log came back shorter; in a cluster that may lose records we do not.
            if topic.compacts:
                check_keyed_sightings(self.history, place, content, self._cast.deletions, safe=topic.safe)
            else:
                check_sightings(self.history, place, content, safe=topic.safe)
        check_duplicates(self.history, place, content)
