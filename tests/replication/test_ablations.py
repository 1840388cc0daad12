"""Each rule of replication switched off, and who notices: a scenario by its name, or the model with a seed."""

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
        test_leading.test_the_watermark_waits_for_a_replica_that_is_only_proposed,
    ),
    ("maximal_isr", lambda committed, _: tuple(committed), seed(270)),
    (
        "maximal_isr",
        lambda committed, proposed: tuple(proposed) or tuple(committed),
        test_leading.test_who_does_not_keep_up_leaves_the_isr,
    ),
    ("maximal_isr", lambda committed, proposed: tuple(proposed) or tuple(committed), seed(5)),
    ("commits_with", always, test_leading.test_below_the_minimum_nothing_is_committed),
    (
        "is_in_sync",
        lambda end, high_watermark, _: end >= high_watermark,
        test_leading.test_a_follower_joins_only_from_the_leaders_epoch_on,
    ),
    ("is_in_sync", always, seed(6)),
    (
        "is_same_incarnation",
        always,
        partial(
            test_leading.test_only_a_live_replica_of_the_registered_incarnation_joins, {"broker_epoch": 0}
        ),
    ),
    (
        "agrees_on_leader_epoch",
        always,
        test_following.test_an_old_leader_neither_commits_nor_serves_its_followers,
    ),
    ("has_diverged", lambda *_: False, test_following.test_kip_101_logs_of_the_same_length_are_not_the_same_logs),
    ("has_diverged", lambda *_: False, seed(0)),
    (
        "truncation_offset",
        lambda own, leaders, high_watermark: high_watermark,
        test_following.test_kip_101_a_former_leader_keeps_what_its_successor_has,
    ),
    ("truncation_offset", lambda own, leaders, high_watermark: high_watermark, seed(133)),
    (
        "is_known_alike",
        always,
        partial(test_following.test_what_lost_against_deleted_records_does_not_come_back, length=1),
    ),
    (
        "is_known_alike",
        always,
        partial(test_following.test_what_lost_against_deleted_records_is_not_taken_for_stored, length=2),
    ),
    (
        "is_of_followed_epoch",
        always,
        test_following.test_a_batch_of_a_later_epoch_than_the_followed_one_is_not_stored,
    ),
    ("is_still_wanted", always, test_following.test_an_answer_to_another_question_is_dropped),
])  # fmt: skip
def test_someone_notices(monkeypatch, rule, instead, scenario):
    scenario()
    monkeypatch.setattr(safeguards, rule, instead)
    with pytest.raises((AssertionError, Violation)):
        scenario()
