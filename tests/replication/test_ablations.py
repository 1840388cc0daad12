"""Each rule of replication is disabled once. A named scenario, or the model with a seed, must fail."""

from __future__ import annotations

from functools import partial

import pytest

from odradek.replication import safeguards
from replication import test_following, test_leading
from replication.test_model import Violation, World


def always(*_):
    return True


def seed(number):
    return lambda: World(number).run()


@pytest.mark.parametrize(("rule", "instead", "scenario"), [
    (
        "maximal_isr",
        lambda committed, _: tuple(committed),
        test_leading.test_high_watermark_waits_for_a_replica_of_a_pending_isr_proposal,
    ),
    ("maximal_isr", lambda committed, _: tuple(committed), seed(270)),
    (
        "maximal_isr",
        lambda committed, proposed: tuple(proposed) or tuple(committed),
        test_leading.test_lagging_follower_leaves_the_isr,
    ),
    ("maximal_isr", lambda committed, proposed: tuple(proposed) or tuple(committed), seed(5)),
    ("commits_with", always, test_leading.test_nothing_is_committed_below_min_insync_replicas),
    (
        "is_in_sync",
        lambda end, high_watermark, _: end >= high_watermark,
        test_leading.test_follower_joins_the_isr_only_after_it_reached_the_leaders_epoch_start,
    ),
    ("is_in_sync", always, seed(6)),
    (
        "is_same_incarnation",
        always,
        partial(
            test_leading.test_only_a_live_replica_of_the_registered_incarnation_joins_the_isr, {"broker_epoch": 0}
        ),
    ),
    (
        "agrees_on_leader_epoch",
        always,
        test_following.test_an_old_leader_neither_commits_nor_serves_its_followers,
    ),
    ("has_diverged", lambda *_: False, test_following.test_kip_101_diverged_log_of_the_same_length_is_truncated),
    ("has_diverged", lambda *_: False, seed(0)),
    (
        "truncation_offset",
        lambda own, leaders, high_watermark: high_watermark,
        test_following.test_kip_101_former_leader_keeps_records_that_its_successor_has,
    ),
    ("truncation_offset", lambda own, leaders, high_watermark: high_watermark, seed(133)),
    (
        "is_known_alike",
        always,
        partial(test_following.test_diverged_records_do_not_reappear_when_records_were_deleted, length=1),
    ),
    (
        "is_known_alike",
        always,
        partial(test_following.test_retry_of_a_diverged_record_is_no_duplicate_when_records_were_deleted, length=2),
    ),
    (
        "is_of_followed_epoch",
        always,
        test_following.test_a_batch_of_a_later_epoch_than_the_followed_one_is_not_stored,
    ),
    ("is_still_wanted", always, test_following.test_reply_to_an_outdated_fetch_is_ignored),
])  # fmt: skip
def test_disabled_replication_rule_is_detected(monkeypatch, rule, instead, scenario):
    scenario()
    monkeypatch.setattr(safeguards, rule, instead)
    with pytest.raises((AssertionError, Violation)):
        scenario()
