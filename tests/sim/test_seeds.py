"""A hundred worlds, each broken in its own way. `python -m odradek.sim --seed N --trace` tells the story of one."""

import pytest

from odradek.sim.world import World

SEEDS = 100
PER_TEST = 5


@pytest.mark.sim
@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_seeds(first, caplog):
    caplog.set_level("CRITICAL")
    acknowledged = 0
    for seed in range(first, first + PER_TEST):
        outcome = World(seed).run()
        assert outcome.problem is None, f"seed {seed}: {outcome.problem}"
        acknowledged += outcome.acked_records
    assert acknowledged > 0
