"""Whole quorums under faults drawn from a seed: messages late, lost, twice and in another order, power cuts in
the middle of a step, one-way walls, pauses, snapshots, lost disks, changes of voters.

The promises of `support.quorum_checks` are checked at every step; when the faults end, something new must soon be
committed everywhere.
"""

from __future__ import annotations

import pytest

from support.quorum_cluster import run

# The last ones once found something.
THREE = [*range(18), 601, 673, 1366, 1958]
FIVE = [*range(10), 601, 967, 10013, 10405]


@pytest.mark.parametrize(("seed", "size"), [*((seed, 3) for seed in THREE), *((seed, 5) for seed in FIVE)])
def test_the_promises_hold_under_faults(seed, size):
    assert run(seed, size).promises.committed


def test_a_seed_is_a_run():
    first, again = run(5, 3), run(5, 3)
    assert (first.events, first.elections, first.promises.committed) == (
        again.events,
        again.elections,
        again.promises.committed,
    )
    assert run(6, 3).promises.committed != first.promises.committed


def test_the_faults_do_happen():
    runs = [run(seed, 3) for seed in range(12)]
    assert sum(cluster.elections for cluster in runs) > 24
    assert sum(cluster.deeds for cluster in runs) > 100
    assert sum(len(cluster.promises.lost_disks) for cluster in runs) > 2
