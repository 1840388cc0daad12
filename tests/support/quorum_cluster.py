"""Cores of the quorum on a simulated network and disks, with faults from a seed. Time is virtual."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import replace
from random import Random

from odradek.protocol.control_records import VotersRecord
from odradek.quorum.effects import (
    AppendEpochStart,
    AppendFetched,
    AppendVoters,
    FetchSnapshot,
    HighWatermarkAdvanced,
    LeaderChanged,
    PersistElection,
    Reply,
    Send,
    TruncateTo,
)
from odradek.quorum.events import (
    Answered,
    LogSynced,
    Requested,
    RequestFailed,
    SnapshotFailed,
    SnapshotLoaded,
    SnapshotProgress,
    Tick,
    VotersChanged,
)
from odradek.quorum.messages import Fetch, FetchAnswer, ReadSnapshot
from odradek.quorum.roles import Role
from odradek.quorum.timing import Now
from odradek.quorum.voters import Voter, VoterSet, voters_from_record
from support.quorum_checks import Promises, promise
from support.quorum_nemesis import PEACE, Faults, Nemesis, drawn_faults
from support.quorum_node import CLUSTER, Node, key_of

REQUEST_TIMEOUT_MS = 150


class Cluster(Nemesis):
    def __init__(self, seed: int, size: int, faults: Faults | None = None) -> None:
        self.rng = Random(seed)
        self.faults = faults or drawn_faults(self.rng)
        self.now_ms = 0
        self.promises = Promises()
        self.events = 0
        self.elections = 0
        self.deeds = 0
        self._queue = []
        self._order = itertools.count()
        self._walls = {}
        self._asked = {}
        self._values = itertools.count()
        self._disks = itertools.count(1)
        first = VoterSet(tuple(Voter(key=key_of(node_id)) for node_id in range(1, size + 1)))
        self.nodes = {node_id: Node(node_id, first) for node_id in range(1, size + 1)}
        for node in self.nodes.values():
            self._start(node)
        self._later(0, self._propose)
        self._nemesis_soon()

    # --- running

    def run(self, until_ms: int) -> None:
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, act, args = heapq.heappop(self._queue)
            self.events += 1
            act(*args)
        self.now_ms = until_ms

    def heal(self) -> None:
        """End all faults, and start all nodes."""
        self.faults = PEACE
        self._walls.clear()
        for node in self.nodes.values():
            node.paused_until = 0
            if not node.up:
                self._start(node)

    def settle(self, within_ms: int) -> None:
        """Liveness: a value written from now on is soon committed on all nodes."""
        deadline_ms = self.now_ms + within_ms
        goal = None
        while self.now_ms < deadline_ms:
            self.run(self.now_ms + 50)
            leader = self.leader()
            if goal is None and leader is not None and leader.high_watermark >= leader.core.epoch_start_offset >= 0:
                goal = len(self.promises.committed) + 1
            if goal is not None and all(node.high_watermark >= goal for node in self.nodes.values()):
                return
        states = [(n.name, n.core.role.value, n.core.leader_epoch, n.high_watermark) for n in self.nodes.values()]
        promise(False, f"no value is committed on all nodes after {within_ms} ms without faults: {states}")

    def leader(self) -> Node | None:
        leaders = [node for node in self.nodes.values() if node.up and node.core.role is Role.LEADER]
        return max(leaders, key=lambda node: node.core.leader_epoch, default=None)

    def _later(self, delay_ms: float, act, *args) -> None:
        heapq.heappush(self._queue, (self.now_ms + int(delay_ms), next(self._order), act, args))

    # --- start and stop of nodes

    def _start(self, node: Node) -> None:
        node.start()
        self._tell(node, node.started)
        self.promises.restarted(node)
        self._sync_soon(node)

    def crash(self, node: Node) -> None:
        unsynced = len(node.log.entries) - node.log.synced
        node.log.lose_unsynced(self.rng.randint(0, unsynced))
        node.up = False
        self._later(self.rng.randint(1, 400), self._restart, node)

    def _restart(self, node: Node) -> None:
        if not node.up:
            self._start(node)

    def _tell(self, node: Node, event) -> None:
        effects = node.core.step(event, Now(self.now_ms, self.rng.random()))
        for effect in effects:
            if not node.up:
                return
            self._carry_out(node, effect)
            if self.faults.torn and self.rng.random() < self.faults.torn:
                self.crash(node)
        if node.up:
            self.promises.stepped(node)
            self._arm(node)

    def _on_time(self, node: Node, incarnation, event) -> None:
        if node.incarnation != incarnation or not node.up:
            return
        if self.now_ms < node.paused_until:
            self._later(node.paused_until - self.now_ms, self._on_time, node, incarnation, event)
            return
        self._tell(node, event)

    def _arm(self, node: Node) -> None:
        deadline_ms = node.core.deadline_ms
        if deadline_ms is not None and deadline_ms != node.armed_ms:
            node.armed_ms = deadline_ms
            self._later(max(deadline_ms - self.now_ms, 0), self._tick, node, node.incarnation, deadline_ms)

    def _tick(self, node: Node, incarnation, deadline_ms: int) -> None:
        if node.incarnation == incarnation and node.up and node.armed_ms == deadline_ms:
            node.armed_ms = None
            if node.core.deadline_ms == deadline_ms:
                self._on_time(node, incarnation, Tick())
            else:
                self._arm(node)

    # --- effects

    def _carry_out(self, node: Node, effect) -> None:
        match effect:
            case PersistElection():
                node.election = effect.election
            case LeaderChanged():
                node.leading = False
            case AppendEpochStart():
                node.leading = True
                self.elections += 1
                self._append(node, [voters_of(record) or (self.now_ms, node.id) for record in effect.records])
            case AppendVoters():
                self._append(node, [voters_of(effect.record)])
            case AppendFetched():
                start = node.log.log_end_offset
                node.log.entries += effect.records
                self._appended(node, start)
            case TruncateTo():
                node.log.truncate_to(effect.offset)
                self._voters_may_differ(node)
            case HighWatermarkAdvanced():
                self.promises.advanced(node, effect.high_watermark, list(self.nodes.values()))
            case FetchSnapshot():
                self._later(self._delay(), self._load_snapshot, node, node.incarnation, effect)
            case Send():
                self._send(node, effect)
            case Reply():
                self._reply(node, effect)

    def _append(self, node: Node, values) -> None:
        start = node.log.log_end_offset
        for value in values:
            node.log.append(node.core.leader_epoch, value)
        self._appended(node, start)

    def _appended(self, node: Node, start: int) -> None:
        self.promises.appended(node, start)
        self._voters_may_differ(node)
        self._sync_soon(node)

    def _voters_may_differ(self, node: Node) -> None:
        voters, offset = node.log.newest_voters() or (node.first_voters, -1)
        if voters != node.core.voters:
            self._later(0, self._on_time, node, node.incarnation, VotersChanged(voters, offset))

    def _sync_soon(self, node: Node) -> None:
        if not node.syncing:
            node.syncing = True
            self._later(
                self._delay(), self._synced, node, node.incarnation, node.log.log_end_offset, node.log.truncations
            )

    def _synced(self, node: Node, incarnation, end_offset: int, truncations: int) -> None:
        if node.incarnation != incarnation or not node.up:
            return
        node.syncing = False
        if truncations != node.log.truncations:
            self._sync_soon(node)
            return
        node.log.synced = max(node.log.synced, end_offset)
        self._on_time(node, incarnation, LogSynced())
        if node.up and node.log.log_end_offset > end_offset:
            self._sync_soon(node)

    def _propose(self) -> None:
        self._later(self.rng.randint(1, 30), self._propose)
        for node in self.nodes.values():
            if node.up and node.leading and self.now_ms >= node.paused_until:
                self._append(node, [next(self._values) for _ in range(self.rng.randint(1, 3))])

    # --- the network

    def _delay(self) -> float:
        slow = self.rng.random() < self.faults.slow
        return self.rng.expovariate(1 / self.faults.delay_ms) + (300 if slow else 0)

    def _send(self, node: Node, send: Send) -> None:
        node.said_epoch = max(node.said_epoch, node.core.leader_epoch)
        asked = next(self._order)
        self._asked[asked] = node, node.incarnation, send
        self._later(REQUEST_TIMEOUT_MS, self._fail, asked, False)
        for _ in range(2 if self.rng.random() < self.faults.twice else 1):
            self._later(self._delay(), self._deliver, asked, node.id, send)

    def _is_lost(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self._walls or self.rng.random() < self.faults.loss

    def _deliver(self, asked: int, sender: int, send: Send) -> None:
        receiver = self.nodes[send.peer]
        if self._is_lost(sender, receiver.id):
            return
        if receiver.up:
            self._on_time(receiver, receiver.incarnation, Requested((asked, sender, send.request), send.request))
        else:
            self._later(self._delay(), self._fail, asked, True)

    def _fail(self, asked: int, peer_gone: bool) -> None:
        if asked in self._asked:
            node, incarnation, send = self._asked.pop(asked)
            self._on_time(node, incarnation, RequestFailed(send.peer, send.request, peer_gone))

    def _reply(self, node: Node, reply: Reply) -> None:
        if reply.token is None:
            return
        asked, sender, request = reply.token
        self.promises.replied(node, request, reply.answer)
        if isinstance(request, Fetch) and is_empty(node, request, reply.answer) and self.rng.random() < 0.9:
            self._later(self.rng.randint(1, 60), self._end_wait, node, node.incarnation, asked, sender, request)
        else:
            self._answer(node, asked, sender, request, reply.answer)

    def _end_wait(self, node: Node, incarnation, asked: int, sender: int, request: Fetch) -> None:
        if node.incarnation == incarnation and node.up:
            self._answer(node, asked, sender, request, node.core.fetch_answer(request))

    def _answer(self, node: Node, asked: int, sender: int, request, answer) -> None:
        node.said_epoch = max(node.said_epoch, node.core.leader_epoch)
        if isinstance(answer, FetchAnswer) and answer.diverging is None and answer.snapshot is None:
            answer = replace(answer, records=node.log.read(request.fetch_offset, self.rng.randint(1, 8)))
        self._later(self._delay(), self._deliver_answer, asked, node.id, sender, answer)

    def _deliver_answer(self, asked: int, peer: int, sender: int, answer) -> None:
        if asked in self._asked and not self._is_lost(peer, sender):
            node, incarnation, send = self._asked.pop(asked)
            self._on_time(node, incarnation, Answered(send.peer, send.request, answer))

    def _load_snapshot(self, node: Node, incarnation, effect: FetchSnapshot) -> None:
        if node.incarnation != incarnation or not node.up:
            return
        leader = self.nodes[effect.leader_id]
        if not leader.up or leader.log.newest_snapshot != effect.snapshot or self._is_lost(node.id, leader.id):
            self._on_time(node, incarnation, SnapshotFailed(effect.snapshot))
            return
        read = ReadSnapshot(replica=node.key, cluster_id=CLUSTER, leader_epoch=effect.leader_epoch)
        self._on_time(leader, leader.incarnation, Requested(None, read))
        self._on_time(node, incarnation, SnapshotProgress(effect.snapshot))
        if node.up and node.incarnation == incarnation and node.core.is_loading(effect.snapshot):
            node.log.load_snapshot(effect.snapshot, leader.log.entries[: effect.snapshot.end_offset])
            self.promises.appended(node, 0)
            self._tell(node, SnapshotLoaded(effect.snapshot))
            self._voters_may_differ(node)


def voters_of(record) -> VoterSet | None:
    return voters_from_record(record) if isinstance(record, VotersRecord) else None


def is_empty(node: Node, fetch: Fetch, answer) -> bool:
    return (
        isinstance(answer, FetchAnswer)
        and answer.diverging is None
        and answer.snapshot is None
        and fetch.fetch_offset >= node.log.log_end_offset
        and fetch.high_watermark >= answer.high_watermark
    )


def run(seed: int, size: int, faulty_ms: int = 4000) -> Cluster:
    cluster = Cluster(seed, size)
    cluster.run(faulty_ms)
    cluster.heal()
    cluster.settle(within_ms=5000)
    return cluster
