"""Which faults happen, when, and for how long. This follows from the seed, and from which nodes lead at the moment.

A fault strikes, lasts, heals; then, half of the time, the cluster gets time until all replicas are in sync again.
A cluster without faults whose replicas do not get in sync is an anomaly: it stalls.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.cluster import NODES, SESSION_MS, ChaosCluster
from chaos.history import Diary

HEALTHY_WITHIN_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    kind: str
    strike: Callable[[], str | None]  # returns a description, or None when there was nothing to strike
    lasts_s: tuple[float, float]
    weight: int = 2


@dataclass(slots=True)
class Nemesis:
    cluster: ChaosCluster
    diary: Diary
    seed: int
    # Kills a member of a group and starts another in its place. `run` passes it in, since it owns the clients.
    replace_member: Callable[[random.Random], str]
    strikes: dict[str, int] = field(default_factory=dict)
    now: str = ""
    stalled: bool = False
    _rng: random.Random = field(init=False)
    _may_die: dict[int, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def run(self, until: float) -> None:
        faults = self._faults()
        while time.monotonic() < until and not self.stalled:
            self._pause(self._rng.uniform(0.5, 4))
            chosen = self._rng.choices(faults, [fault.weight for fault in faults])
            if self._rng.random() < 0.2:  # two at once
                chosen.append(self._rng.choice(faults))
            lasts_s = max(self._rng.uniform(*fault.lasts_s) for fault in chosen)
            for fault in chosen:
                self._strike(fault)
            self._pause(lasts_s)
            self._heal()
            if self._rng.random() < 0.5:
                self.await_health()
        self._heal()

    def await_health(self) -> None:
        self.now = "becoming whole"
        began = time.monotonic()
        while not self.cluster.is_healthy():
            self._look_for_dead()
            if time.monotonic() - began > HEALTHY_WITHIN_S:
                self.stalled = True
                known = {f"{topic}-{index}": str(each) for (topic, index), each in self.cluster.partitions().items()}
                self.diary.note("stalled", why=f"not whole {HEALTHY_WITHIN_S:.0f} s after the last fault", known=known)
                return
            time.sleep(0.1)
        self.diary.note("healthy", after_s=round(time.monotonic() - began, 2))
        self.now = ""

    def _strike(self, fault: Fault) -> None:
        self._look_for_dead()
        said = fault.strike()
        if said is None:
            return
        self.strikes[fault.kind] = self.strikes.get(fault.kind, 0) + 1
        self.now = f"{fault.kind}: {said}"
        self.diary.note("fault", kind=fault.kind, said=said)

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))
            self._look_for_dead()

    def _look_for_dead(self) -> None:
        """Only a full disk may stop a node."""
        for node_id in NODES:
            if self.cluster.node(node_id).is_running and not self.cluster.is_alive(node_id):
                self.diary.note(
                    "died", node=node_id, expected=node_id in self._may_die, why=self.cluster.last_words(node_id)
                )

    def _heal(self) -> None:
        for node_id in NODES:
            if self.cluster.node(node_id).is_running and self.cluster.is_alive(node_id):
                self.cluster.node(node_id).resume()
        for node_id in self.cluster.small_disks:
            self.cluster.empty_disk(node_id)
        self._look_for_dead()
        self.cluster.heal_walls()
        down = [node_id for node_id in NODES if not self.cluster.node(node_id).is_running]
        for node_id in down:
            self.cluster.node(node_id).begin()
        for node_id in down:
            try:
                self.cluster.node(node_id).await_ready()
            except Exception as failed:  # noqa: BLE001 whatever made it fail
                self.stalled = True
                self.diary.note("stalled", why=f"node {node_id} does not start: {type(failed).__name__}: {failed}")
        self._may_die.clear()
        self.diary.note("healed")
        self.now = ""

    # Faults

    def _faults(self) -> list[Fault]:
        past_session_s = SESSION_MS / 1000
        faults = [
            Fault(kind="kill a node", strike=lambda: self._kill([self._any()]), lasts_s=(0, 8), weight=4),
            Fault(kind="kill the controller", strike=self._kill_controller, lasts_s=(0, 8), weight=3),
            Fault(kind="kill a leader", strike=lambda: self._kill([self._leader()]), lasts_s=(0, 8), weight=4),
            Fault(kind="kill a majority", strike=lambda: self._kill(self._two()), lasts_s=(1, 8), weight=1),
            Fault(kind="kill all", strike=lambda: self._kill(list(NODES)), lasts_s=(0, 3), weight=1),
            Fault(kind="pause briefly", strike=lambda: self._stop([self._any()]), lasts_s=(0.1, 2)),
            Fault(
                kind="pause past the session",
                strike=lambda: self._stop([self._leader()]),
                lasts_s=(past_session_s + 1, past_session_s + 8),
                weight=3,
            ),
            Fault(kind="pause a majority", strike=lambda: self._stop(self._two()), lasts_s=(1, 8), weight=1),
            Fault(kind="wall around a node", strike=self._wall_around, lasts_s=(1, 12), weight=3),
            Fault(kind="wall between two", strike=self._wall_between, lasts_s=(1, 12)),
            Fault(kind="one-way wall", strike=self._one_way_wall, lasts_s=(1, 12), weight=3),
            Fault(kind="dropped connections", strike=self._drop, lasts_s=(0, 2), weight=3),
            Fault(kind="rolling restart", strike=self._roll, lasts_s=(0, 1)),
            Fault(kind="elections", strike=self._elect, lasts_s=(0, 1)),
            Fault(kind="reassignment", strike=self._reassign, lasts_s=(0, 4), weight=3),
            Fault(kind="member killed", strike=lambda: self.replace_member(self._rng), lasts_s=(0, 4)),
        ]
        if self.cluster.small_disks:
            faults.append(Fault(kind="full disk", strike=self._fill, lasts_s=(2, 12), weight=4))
        return faults

    def _any(self) -> int:
        return self._rng.choice(NODES)

    def _two(self) -> list[int]:
        return self._rng.sample(NODES, 2)

    def _leader(self) -> int:
        """The leader of a random partition; a random node when no broker answers."""
        known = self.cluster.partitions()
        place = self._rng.choice(sorted(known)) if known else None
        leader = known[place].leader if place else 0
        return leader if leader in NODES else self._any()

    def _kill(self, node_ids: list[int]) -> str | None:
        struck = [node_id for node_id in node_ids if self.cluster.is_alive(node_id)]
        for node_id in struck:
            self.cluster.node(node_id).kill()
        return f"{struck}" if struck else None

    def _kill_controller(self) -> str | None:
        return self._kill([self.cluster.controller() or self._any()])

    def _stop(self, node_ids: list[int]) -> str | None:
        struck = [node_id for node_id in node_ids if self.cluster.is_alive(node_id)]
        for node_id in struck:
            self.cluster.node(node_id).pause()
        return f"{struck}" if struck else None

    def _wall_around(self) -> str:
        alone = self._leader()
        self.cluster.partition([alone], [node_id for node_id in NODES if node_id != alone])
        return f"{alone}"

    def _wall_between(self) -> str:
        one, other = self._two()
        self.cluster.partition([one], [other])
        return f"{one} and {other}"

    def _one_way_wall(self) -> str:
        here = self._leader()
        others = [node_id for node_id in NODES if node_id != here]
        if self._rng.random() < 0.5:
            self.cluster.deafen(here, others)
            return f"{here} reaches nobody"
        for other in others:
            self.cluster.deafen(other, [here])
        return f"nobody reaches {here}"

    def _drop(self) -> str | None:
        node_id = self._any()
        if not self.cluster.is_alive(node_id):
            return None
        self.cluster.node(node_id).drop_connections()
        return f"{node_id}"

    def _fill(self) -> str:
        node_id = self._rng.choice(self.cluster.small_disks)
        self._may_die[node_id] = None
        self.cluster.fill_disk(node_id)
        return f"{node_id}"

    def _roll(self) -> str | None:
        if not all(self.cluster.is_alive(node_id) for node_id in NODES) or self.now:
            return None
        self.now = "rolling restart"
        order = self._rng.sample(NODES, len(NODES))
        for node_id in order:
            self.cluster.node(node_id).restart()
        return f"{order}"

    def _elect(self) -> str | None:
        return "preferred leaders" if self.cluster.elect_preferred() else None

    def _reassign(self) -> str | None:
        """Reorders the three replicas, and now and then removes one: the next reassignment adds it again."""
        known = {place: each for place, each in sorted(self.cluster.partitions().items()) if place[0][0] != "_"}
        wanted = {
            place: self._rng.sample(NODES, 3 if self._rng.random() < 0.8 else 2)
            for place in known
            if self._rng.random() < 0.5
        }
        return f"{len(wanted)} partitions" if wanted and self.cluster.reassign(wanted) else None
