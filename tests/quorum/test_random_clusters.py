"""Whole quorums with faults drawn from a seed: messages delayed, lost, duplicated and reordered, power cuts in the
middle of a step, one-way partitions, pauses, snapshots, lost disks, voter changes.

The guarantees of `support.quorum_checks` are checked at every step. When the faults end, a new record must soon be
committed on all nodes.
"""

from __future__ import annotations

import pytest

from support.quorum_cluster import run

# The last ones once found a bug.
THREE = [*range(18), 601, 673, 1366, 1958]
FIVE = [*range(10), 601, 967, 10013, 10405]


@pytest.mark.parametrize(("seed", "size"), [*((seed, 3) for seed in THREE), *((seed, 5) for seed in FIVE)])
def test_quorum_guarantees_hold_under_faults(seed, size):
    assert run(seed, size).promises.committed


def test_quorum_run_is_reproducible_from_its_seed():
    first, again = run(5, 3), run(5, 3)
    assert (first.events, first.elections, first.promises.committed) == (
        again.events,
        again.elections,
        again.promises.committed,
    )
    assert run(6, 3).promises.committed != first.promises.committed


def test_random_runs_have_many_elections_and_faults():
    runs = [run(seed, 3) for seed in range(12)]
    assert sum(cluster.elections for cluster in runs) > 24
    assert sum(cluster.deeds for cluster in runs) > 100
    assert sum(len(cluster.promises.lost_disks) for cluster in runs) > 2
