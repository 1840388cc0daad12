"""For any order of broker failures and proposals: no acknowledged record is lost without an unclean election."""

from __future__ import annotations

import pytest

from odradek.controller import safeguards
from support.controller_story import Story, Violation

STEPS = 120


def tell(new_cluster, seed: int, *, eligible_leaders: bool = True) -> None:
    cluster = new_cluster()
    if not eligible_leaders:
        cluster.forget_eligible_leaders()
    Story(cluster, seed, eligible_leaders=eligible_leaders).run(STEPS)


@pytest.mark.parametrize("eligible_leaders", [True, False])
@pytest.mark.parametrize("batch", range(4))
def test_random_failures_keep_the_partition_invariants(new_cluster, batch, eligible_leaders):
    for seed in range(batch * 40, batch * 40 + 40):
        tell(new_cluster, seed, eligible_leaders=eligible_leaders)


def first_violation(new_cluster, seeds: int) -> tuple[int, str] | None:
    for seed in range(seeds):
        try:
            tell(new_cluster, seed)
        except Violation as violation:
            return seed, str(violation).splitlines()[0]
    return None


@pytest.mark.parametrize(
    ("rule", "without"),
    [
        ("is_current_partition_epoch", lambda proposed, current: True),
        ("is_same_incarnation", lambda proposed, registered: True),
        ("may_join_isr", lambda active: True),
        ("may_elect_uncleanly", lambda asked: True),
        ("forgets_eligible_after_unclean_stop", lambda: False),
        ("fenced_broker_leaves_isr", lambda: False),
    ],
)
def test_switching_off_a_safeguard_breaks_an_invariant(new_cluster, monkeypatch, rule, without):
    monkeypatch.setattr(safeguards, rule, without)
    assert first_violation(new_cluster, seeds=400) is not None
