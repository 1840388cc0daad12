"""Each rule of the quorum is disabled once: the random clusters must detect it.

Random clusters rarely need the rule that only a record of the leader's own epoch commits; `test_replication` has a
scenario for it.
"""

from __future__ import annotations

import pytest

from odradek.base.invariants import InvariantBroken
from odradek.quorum import fetching, leader, requests
from odradek.quorum.effects import PersistElection
from odradek.quorum.quorum import Quorum
from odradek.quorum.replica import Replica
from odradek.quorum.voters import VoterSet
from support.quorum_checks import Violation
from support.quorum_cluster import run

SEEDS = 60


def votes_as_often_as_asked(patch):
    patch.setattr(Replica, "has_vote_for", lambda self, candidate: True)


def votes_for_shorter_logs(patch):
    patch.setattr(Replica, "is_up_to_date", lambda self, vote: True)


def persists_after_it_has_spoken(patch):
    step = Quorum.step

    def late(self, event, now):
        return sorted(step(self, event, now), key=lambda effect: isinstance(effect, PersistElection))

    patch.setattr(Quorum, "step", late)


def compares_logs_by_length(patch):
    by_epoch = requests.parting

    def by_length(log, offset, epoch):
        return None if log.log_start_offset <= offset <= log.log_end_offset else by_epoch(log, offset, epoch)

    patch.setattr(requests, "parting", by_length)


def knows_voters_by_their_id(patch):
    def seat_of(self, replica):
        return next((key for key in self.keys if key.voter_id == replica.voter_id), None)

    patch.setattr(VoterSet, "seat_of", seat_of)
    patch.setattr(Replica, "is_addressed", lambda self, voter: voter.voter_id == self.id)


def acknowledges_what_is_not_synced(patch):
    patch.setattr(fetching, "is_all_synced", lambda replica: True)


def commits_without_a_majority(patch):
    patch.setattr(leader, "_majority_has", max)


RULES_OFF = [
    votes_as_often_as_asked,
    votes_for_shorter_logs,
    persists_after_it_has_spoken,
    compares_logs_by_length,
    knows_voters_by_their_id,
    acknowledges_what_is_not_synced,
    commits_without_a_majority,
]


@pytest.mark.parametrize("switch_off", RULES_OFF, ids=lambda rule: rule.__name__)
def test_disabled_quorum_rule_is_detected(switch_off, monkeypatch):
    switch_off(monkeypatch)
    with pytest.raises((Violation, InvariantBroken)):
        run_many()


def run_many() -> None:
    for seed in range(SEEDS):
        run(seed, 3 if seed % 2 else 5)
