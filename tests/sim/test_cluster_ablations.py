"""Each rule that keeps replicas and controllers honest is switched off once, and the simulation of three nodes notices.

Those that it would take too many seeds for have a story of their own: `tests/replication/test_ablations.py`,
`tests/controller/test_invariants.py`, `tests/quorum`.
"""

from dataclasses import dataclass, field

import pytest

from odradek.controller import safeguards as controller
from odradek.replication import safeguards as replication
from odradek.sim.knobs import Focus
from odradek.sim.world import World

BOUND = 60
STORM = Focus(
    faults=(
        *("kill", "power cut", "kill of several", "power cut of several", "long pause"),
        *("wall around one", "one-way wall", "wall between halves", "slow way"),
    )
)


def always(*_):
    return True


def never(*_):
    return False


def as_if_agreed(committed, proposed):
    return tuple(proposed) or tuple(committed)


@dataclass
class Rule:
    room: object
    name: str
    without: object
    first_seed: int
    focus: Focus = field(default_factory=Focus)

    def __str__(self):
        return self.name


RULES = [
    Rule(replication, "maximal_isr", as_if_agreed, 0),
    Rule(replication, "commits_with", always, 9, STORM),
    Rule(replication, "is_in_sync", always, 1),
    Rule(replication, "has_diverged", never, 1),
    Rule(controller, "may_elect_uncleanly", always, 1),
    Rule(controller, "fenced_broker_leaves_isr", never, 0),
]


@pytest.mark.sim
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_simulation_misses(rule, monkeypatch, caplog):
    caplog.set_level("CRITICAL")
    monkeypatch.setattr(rule.room, rule.name, rule.without)
    for seed in (rule.first_seed, *range(BOUND)):
        problem = World(seed, nodes=3, focus=rule.focus).run().problem
        if problem is not None:
            print(f"{rule}: seed {seed}: {problem}")
            return
    pytest.fail(f"{BOUND} seeds without {rule}, and nobody noticed")
