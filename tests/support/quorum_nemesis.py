"""The faults and changes that a simulated quorum goes through."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from odradek.quorum.events import Requested, Resign, ShuttingDown
from odradek.quorum.messages import AddVoter, RemoveVoter
from odradek.quorum.voters import Voter, VoterKey
from support.quorum_node import CLUSTER, Node


@dataclass(frozen=True)
class Faults:
    """Probabilities per message, per effect, and per step of the nemesis."""

    loss: float = 0.0
    twice: float = 0.0
    delay_ms: int = 3
    slow: float = 0.0
    torn: float = 0.0
    nemesis_ms: int = 0
    # The actions of the nemesis. An action that is listed n times is n times as likely.
    deeds: tuple[str, ...] = ()


PEACE = Faults()
ALL_DEEDS = ("crash",) * 4 + ("cut", "cut", "mend", "stop", "resign", "snapshot", "pause", "replace", "remove", "add")


def drawn_faults(rng: Random) -> Faults:
    """Random faults. Each kind of fault is off in some runs."""
    deeds = tuple(deed for deed in ALL_DEEDS if rng.random() < 0.7)
    return Faults(
        loss=rng.choice((0, 0.02, 0.1)),
        twice=rng.choice((0, 0.1)),
        delay_ms=rng.choice((2, 10, 40)),
        slow=rng.choice((0, 0.05)),
        torn=rng.choice((0, 0.01)),
        nemesis_ms=rng.choice((60, 150, 400)),
        deeds=deeds,
    )


class Nemesis:
    def _nemesis_soon(self) -> None:
        if self.faults.nemesis_ms:
            self._later(self.rng.expovariate(1 / self.faults.nemesis_ms), self._nemesis)

    def _nemesis(self) -> None:
        if not self.faults.deeds:
            return
        self.deeds += 1
        node = self.rng.choice([*self.nodes.values(), *filter(None, [self.leader()])])
        getattr(self, "_" + self.rng.choice(self.faults.deeds))(node)
        self._nemesis_soon()

    def _crash(self, node: Node) -> None:
        if node.up:
            self.crash(node)

    def _cut(self, node: Node) -> None:
        for other in self.nodes.values():
            if other is not node and self.rng.random() < 0.8:
                one_way = self.rng.choice((True, False))
                self._walls[node.id, other.id] = None
                if not one_way:
                    self._walls[other.id, node.id] = None

    def _mend(self, node: Node) -> None:
        self._walls.clear()

    def _stop(self, node: Node) -> None:
        if node.up:
            self._tell(node, ShuttingDown())
            self._later(self.rng.randint(1, 100), self._crash, node)

    def _resign(self, node: Node) -> None:
        if node.up:
            self._tell(node, Resign())

    def _snapshot(self, node: Node) -> None:
        if node.up and node.high_watermark > node.log.log_start_offset:
            node.log.take_snapshot(node.high_watermark)

    def _pause(self, node: Node) -> None:
        node.paused_until = self.now_ms + self.rng.randint(10, 500)

    def _replace(self, node: Node) -> None:
        """Lose the disk of a node. At most one node loses its disk, and only if the other voters are a majority."""
        others = [other for other in self.nodes.values() if other is not node]
        alive = [other.key for other in others]
        sets = [(n.log.newest_voters() or (n.first_voters, -1))[0].keys for n in self.nodes.values()]
        if all(other.disk_number == 0 for other in others) and all(_is_majority(alive, keys) for keys in sets):
            self.promises.lost_disks.append((node.key, node.log))
            node.up = False
            node.lose_disk(next(self._disks))
            self._later(self.rng.randint(1, 100), self._restart, node)

    def _remove(self, node: Node) -> None:
        """Remove a voter; first the voters whose disks are lost."""
        leader = self.leader()
        if leader is None or self.now_ms < leader.paused_until:
            return
        keys = [other.key for other in self.nodes.values()]
        gone = [key for key in leader.core.voters.keys if key not in keys]
        if gone or len(leader.core.voters.keys) > 2:
            self._tell(leader, Requested(None, RemoveVoter(voter=gone[0] if gone else node.key, cluster_id=CLUSTER)))

    def _add(self, node: Node) -> None:
        leader = self.leader()
        if leader is not None and self.now_ms >= leader.paused_until:
            self._tell(leader, Requested(None, AddVoter(voter=Voter(key=node.key), cluster_id=CLUSTER)))


def _is_majority(some: list[VoterKey], voters: tuple[VoterKey, ...]) -> bool:
    return len([key for key in voters if key in some]) > len(voters) // 2
