"""Simulations with different faults. `odradek sim --seed N --nodes 3 --trace` traces one."""

import pytest

from odradek.log.recompression import ready_to_append
from odradek.protocol.batch import read_header
from odradek.protocol.compression import Codec
from odradek.sim.knobs import Focus
from odradek.sim.world import World

PER_TEST = 5
# Number of simulations, brokers and separate controllers (0: the brokers are controllers).
WORLDS = ((50, 1, 0), (15, 3, 0), (5, 5, 0), (5, 3, 3))


@pytest.mark.sim
@pytest.mark.parametrize(
    ("nodes", "controllers", "first"),
    [(nodes, controllers, first) for seeds, nodes, controllers in WORLDS for first in range(0, seeds, PER_TEST)],
)
def test_seeds(nodes, controllers, first, caplog):
    caplog.set_level("CRITICAL")
    acknowledged = 0
    for seed in range(first, first + PER_TEST):
        outcome = World(seed, nodes=nodes, controllers=controllers).run()
        assert outcome.problem is None, f"seed {seed} of {nodes} + {controllers}: {outcome.problem}"
        acknowledged += outcome.acked_records
    assert acknowledged > 0


@pytest.mark.sim
@pytest.mark.parametrize(("nodes", "seeds"), [(1, range(4)), (3, range(3))])
def test_topics_that_recompress_keep_the_same_promises(nodes, seeds, caplog, monkeypatch):
    caplog.set_level("CRITICAL")
    made = []

    def noted(batch, config):
        made.append(ready_to_append(batch, config))
        return made[-1]

    monkeypatch.setattr("odradek.server.unappended.ready_to_append", noted)
    for seed in seeds:
        outcome = World(seed, nodes=nodes, focus=Focus(recompresses=True)).run()
        assert outcome.problem is None, f"seed {seed} of {nodes}: {outcome.problem}"
    assert Codec.GZIP in {read_header(batch).codec for batch in made}
