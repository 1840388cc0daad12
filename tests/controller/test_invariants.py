"""Whatever happens to brokers and in whatever order proposals arrive: no acknowledged record is lost unasked."""

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
def test_partitions_stay_whole(new_cluster, batch, eligible_leaders):
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
def test_each_rule_is_missed_when_it_is_off(new_cluster, monkeypatch, rule, without):
    monkeypatch.setattr(safeguards, rule, without)
    assert first_violation(new_cluster, seeds=400) is not None
