"""Worlds, each broken in its own way. `odradek sim --seed N --nodes 3 --trace` tells the story of one."""

import pytest

from odradek.sim.world import World

PER_TEST = 5
# How many worlds of how many machines.
WORLDS = ((100, 1), (40, 3), (5, 5))


@pytest.mark.sim
@pytest.mark.parametrize(
    ("nodes", "first"), [(nodes, first) for seeds, nodes in WORLDS for first in range(0, seeds, PER_TEST)]
)
def test_seeds(nodes, first, caplog):
    caplog.set_level("CRITICAL")
    acknowledged = 0
    for seed in range(first, first + PER_TEST):
        outcome = World(seed, nodes=nodes).run()
        assert outcome.problem is None, f"seed {seed} of {nodes} node(s): {outcome.problem}"
        acknowledged += outcome.acked_records
    assert acknowledged > 0
