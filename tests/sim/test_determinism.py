"""The same seed is the same run: in another process, under another hash seed."""

import os
import subprocess
import sys

import pytest

SEEDS = ((3, 1), (15, 1), (29, 1), (1, 3), (8, 3), (0, 5))
PROGRAM = (
    "import logging; logging.disable(); from odradek.sim.world import World; "
    f"print([World(seed, nodes=nodes).run().digest for seed, nodes in {SEEDS}])"
)


def _digests(hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.sim
def test_same_digest_in_two_processes_with_two_hash_seeds():
    one, other = _digests("1"), _digests("12345")
    digests = one.communicate()[0], other.communicate()[0]
    assert one.returncode == other.returncode == 0
    assert digests[0] == digests[1]
    assert len(set(eval(digests[0]))) == len(SEEDS)
