"""A hundred worlds, each broken in its own way. `python -m odradek.sim --seed N --trace` tells the story of one."""

import pytest

from odradek.sim.world import World

SEEDS = 100
PER_TEST = 5


@pytest.mark.sim
@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_seeds(first, caplog):
    caplog.set_level("CRITICAL")
    for seed in range(first, first + PER_TEST):
        outcome = World(seed).run()
        assert outcome.problem is None, f"seed {seed}: {outcome.problem}"
        assert outcome.acked_records > 0, f"seed {seed} did nothing"
