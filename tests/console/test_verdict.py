"""The verdict: one sentence with the cause, the reason, and the next step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.snapshots import GIB, directory, healthy, quorum, with_broker, with_group, with_isr
from odradek.console.collecting.snapshot import NO_LEADER, LogDir, Snapshot
from odradek.console.finding import Finding, Level
from odradek.console.pages.quorum import standing
from odradek.console.verdict import GROUPS_MAX, verdict
from odradek.monitor.lag.evaluation import Status

REFUSED = "Connection refused"


def told(snapshot: Snapshot) -> list[str]:
    return [each.what for each in verdict(snapshot).findings]


def test_a_healthy_cluster_is_well():
    found = verdict(healthy())
    assert (found.level, found.findings) == (Level.GOOD, ())
    assert found.sentence == "All is well: all 3 brokers are up, and all 4 partitions are in sync"


@pytest.mark.parametrize(
    ("snapshot", "sentence"),
    [
        (healthy(brokers=1, partitions=1), "All is well: the broker is up, and the only partition is in sync"),
        (replace(healthy(), topics={}), "All is well: all 3 brokers are up. There are no topics yet"),
        (Snapshot(at_ms=0), "Reading the cluster for the first time"),
        (Snapshot(at_ms=0, problem="refused"), "No broker answers"),
    ],
)
def test_sentences_fit_the_cluster(snapshot, sentence):
    assert verdict(snapshot).sentence == sentence


def test_an_unknown_cluster_is_neither_good_nor_bad():
    assert verdict(Snapshot(at_ms=0)).level is Level.UNKNOWN


def test_silence_hides_everything_that_is_out_of_date():
    snapshot = replace(with_group(healthy(), "billing", Status.STOP), problem="no route")
    assert told(snapshot) == ["No broker answers"]
    assert "what was known before" in verdict(snapshot).findings[0].why


# Brokers


def test_a_dead_broker_is_the_only_finding_for_its_missing_replicas():
    snapshot = with_isr(with_broker(healthy(), 2, problem=REFUSED), (1, 3), leader=1)
    found = verdict(replace(snapshot, quorum=quorum((1, 2, 3), silent=[2])))
    assert (found.level, found.sentence) == (Level.BAD, "Broker 2 is down")
    [finding] = found.findings
    assert finding.why == (
        f"{REFUSED}. 4 partitions have fewer replicas, and can still be read and written. "
        "2 of 3 voters follow the metadata log. If one more fails, the cluster cannot elect leaders any more"
    )
    assert (finding.step, finding.path) == ("Start broker 2 again, on 10.0.0.1", "/brokers/2")


def test_a_dead_broker_that_leads_partitions_alone_makes_them_unreadable():
    snapshot = with_isr(with_isr(healthy(), (1, 3), leader=1), (2,), leader=NO_LEADER, numbers=[3])
    snapshot = with_broker(snapshot, 2, problem=REFUSED)
    assert "1 partition has no leader, and cannot be read or written: orders-3" in verdict(snapshot).findings[0].why


def test_findings_with_one_voter_or_one_record_use_the_singular():
    alone = replace(healthy(brokers=1), quorum=quorum((1,), silent=(1,), leader=None))
    assert verdict(alone).findings[0].why == "0 of 1 voter can be reached, 1 is needed. Node 1 cannot"


def test_a_dead_broker_may_make_partitions_refuse_writes():
    snapshot = with_isr(with_broker(healthy(), 2, problem=REFUSED), (1,), leader=1)
    found = verdict(replace(snapshot, min_in_sync={"orders": 2}))
    assert "4 partitions have too few replicas for acks=all, and refuse writes" in found.findings[0].why


def test_a_dead_leader_counts_as_no_leader_until_another_one_is_elected():
    finding = verdict(with_broker(healthy(), 2, problem=REFUSED)).findings[0]
    assert "1 partition has no leader, and cannot be read or written: orders-1" in finding.why


def test_a_dead_broker_without_replicas_harms_nothing():
    snapshot = with_broker(replace(healthy(), topics={}), 2, problem=REFUSED, replicas=0)
    assert "No partition needs it" in verdict(snapshot).findings[0].why


def test_a_fenced_broker_that_answers_is_not_down():
    finding = verdict(with_broker(healthy(), 2, is_fenced=True)).findings[0]
    assert finding.what == "Broker 2 is fenced"
    assert "controller has fenced it" in finding.why


def test_two_dead_brokers_are_two_findings_in_one_sentence():
    snapshot = with_broker(with_broker(healthy(), 2, problem=REFUSED), 3, problem=REFUSED)
    assert verdict(snapshot).sentence == "Broker 2 is down, and 1 other problem"


def test_a_dead_broker_that_votes_is_one_finding():
    snapshot = replace(with_broker(healthy(), 2, problem=REFUSED), quorum=quorum((1, 2, 3), silent=[2]))
    [finding] = verdict(snapshot).findings
    assert "If one more fails, the cluster cannot elect leaders any more" in finding.why


def test_the_vote_of_a_broker_that_has_just_died_does_not_count():
    """It fetched the metadata log within the last seconds, so its silence does not show yet."""
    snapshot = with_broker(healthy(), 2, problem=REFUSED)
    assert snapshot.quorum is not None
    snapshot = replace(snapshot, quorum=snapshot.quorum.without_answers_of([2]))
    [finding] = verdict(snapshot).findings
    assert "2 of 3 voters answer and follow the metadata log. If one more fails" in finding.why
    assert "more may fail" not in finding.why
    assert standing(snapshot.quorum) == ("warn", "2 of 3 voters follow the leader; no other may fail")


def test_a_broker_that_a_full_disk_has_stopped_says_so():
    snapshot = with_broker(healthy(), 3, problem=REFUSED, log_dirs=(directory(free=0),))
    [finding] = verdict(snapshot).findings
    assert finding.what == "Broker 3 is down: its disk is full"
    assert "/data had 0 B left" in finding.why
    assert finding.step == "Free space in /data, then start broker 3 again, on 10.0.0.1"


# Disks


def test_a_full_disk_names_the_broker_the_directory_and_the_effect():
    full = replace(directory(free=0), failed=("orders-0", "orders-1"))
    snapshot = with_isr(with_broker(healthy(), 3, log_dirs=(full,)), (1, 2), leader=1, numbers=[0, 1])
    [finding] = verdict(snapshot).findings
    assert (finding.level, finding.what, finding.path) == (Level.BAD, "The disk of broker 3 is full", "/brokers/3")
    assert finding.why == (
        "/data: 0 B left. 2 logs went offline: orders-0, orders-1. "
        "2 partitions have fewer replicas, and can still be read and written"
    )
    assert finding.step.startswith("Free space")


def test_a_broken_disk_is_not_a_full_one():
    broken = LogDir(path="/data", error="KAFKA_STORAGE_ERROR", bytes_total=None, bytes_usable=None, bytes_logs=0)
    [finding] = verdict(with_broker(healthy(), 3, log_dirs=(broken,))).findings
    assert (finding.what, finding.why) == ("The disk of broker 3 has failed", "/data: KAFKA_STORAGE_ERROR")


@pytest.mark.parametrize(
    ("free", "level", "what"),
    [
        (16 * GIB, None, None),
        (14 * GIB, Level.WARN, "The disk of broker 1 is filling up"),
        (4 * GIB, Level.BAD, "The disk of broker 1 is almost full"),
    ],
)
def test_disks_are_reported_before_they_are_full(free, level, what):
    found = verdict(with_broker(healthy(), 1, log_dirs=(directory(free=free),))).findings
    assert [(each.level, each.what) for each in found] == ([] if what is None else [(level, what)])


# Partitions whose brokers are all up


def test_under_replicated_partitions_name_the_broker_that_lacks_records():
    finding = verdict(with_isr(healthy(), (1, 2), numbers=[1])).findings[0]
    assert (finding.level, finding.what) == (Level.WARN, "1 partition has replicas that are not in sync")
    assert finding.why == "orders-1. Broker 3 lacks records, though it is up"
    assert finding.path == "/topics/orders"


def test_below_min_insync_replicas_writes_are_refused():
    finding = verdict(replace(with_isr(healthy(), (1,)), min_in_sync={"orders": 2})).findings[0]
    assert finding.level is Level.BAD
    assert finding.what == "4 partitions have too few replicas in sync: writes with acks=all are refused"


def test_min_insync_replicas_above_the_replication_factor_is_not_counted_for_healthy_replicas():
    assert told(replace(with_isr(healthy(), (1, 2)), min_in_sync={"orders": 2})) == [
        "4 partitions have replicas that are not in sync"
    ]


def test_partitions_without_a_leader_come_first():
    snapshot = with_isr(with_isr(healthy(), (1, 2), numbers=[0]), (3,), leader=NO_LEADER, numbers=[1])
    assert told(snapshot) == [
        "1 partition has no leader, and cannot be read or written",
        "1 partition has replicas that are not in sync",
    ]


# The quorum


def test_a_silent_voter_says_how_many_more_may_fail():
    finding = verdict(replace(healthy(), quorum=quorum((1, 2, 3), silent=[3]))).findings[0]
    assert (finding.level, finding.what) == (Level.WARN, "Node 3 votes but does not follow the metadata log")
    assert (
        finding.why
        == "2 of 3 voters follow the metadata log. If one more fails, the cluster cannot elect leaders any more"
    )


def test_a_quorum_without_a_leader_names_the_nodes_to_start():
    finding = verdict(replace(healthy(), quorum=quorum((1, 2, 3), silent=[2, 3], leader=None))).findings[0]
    assert finding.level is Level.BAD
    assert finding.why == "1 of 3 voters can be reached, 2 are needed. Nodes 2 and 3 cannot"
    assert finding.step == "Start nodes 2 and 3"


# Groups


@pytest.mark.parametrize(
    ("status", "state", "what", "step"),
    [
        (Status.STOP, "Stable", "Group billing has stopped committing", "Look at the log of its consumers"),
        (Status.STOP, "Empty", "Group billing has no consumers", "Start its consumers"),
        (Status.STALL, "Stable", "Group billing is stuck", "the record at the committed offset"),
        (Status.REWIND, "Stable", "Group billing went back", "second application"),
        (Status.WARN, "Stable", "Group billing is falling behind", "Add consumers"),
    ],
)
def test_an_unwell_group_names_the_rule_and_what_to_do(status, state, what, step):
    finding = verdict(with_group(healthy(), "billing", status, state=state)).findings[0]
    assert (finding.level, finding.what, finding.path) == (Level.WARN, what, "/groups/billing")
    assert f"({status.name})" in finding.why
    assert "1,200 records, 4 min, behind" in finding.why
    assert step in finding.step


def test_a_group_that_has_just_begun_to_commit_has_not_stopped():
    young = with_group(healthy(), "billing", Status.STOP, seconds=20.0)
    assert told(young) == []


def test_a_group_that_keeps_up_is_not_mentioned():
    assert told(with_group(healthy(), "billing", Status.OK)) == []


def test_a_group_whose_lag_grows_is_too_slow_even_if_it_falls_at_times():
    growing = with_group(healthy(), "billing", Status.OK)
    growing = replace(growing, groups={"billing": replace(growing.groups["billing"], growth=28.0)})
    finding = verdict(growing).findings[0]
    assert finding.what == "Group billing is falling behind"
    assert finding.why.startswith(
        "Its lag grew by 28 records a second in the last minutes: its consumers are too slow. "
    )


def test_stuck_groups_come_before_slow_ones_and_the_rest_is_counted():
    snapshot = with_group(healthy(), "slow", Status.WARN, lag=10**9)
    for number in range(GROUPS_MAX):
        snapshot = with_group(snapshot, f"stuck-{number}", Status.STALL)
    found = told(snapshot)
    assert len(found) == GROUPS_MAX + 1
    assert found[-1] == "1 more group is behind"
    assert all("stuck" in each for each in found[:-1])


def test_a_group_with_a_strange_name_gets_a_safe_address():
    finding = verdict(with_group(healthy(), "a/b?c#<d>", Status.STALL)).findings[0]
    assert finding.path == "/groups/a%2Fb%3Fc%23%3Cd%3E"


def test_causes_come_before_effects_and_bad_before_warnings():
    other = Finding(level=Level.BAD, what="Connector files failed", why="", step="")
    snapshot = replace(
        with_group(with_broker(healthy(), 2, problem=REFUSED), "billing", Status.STALL),
        findings=(other,),
        quorum=quorum((1, 2, 3), silent=[3]),
    )
    assert told(snapshot) == [
        "Broker 2 is down",
        "Connector files failed",
        "Node 3 votes but does not follow the metadata log",
        "Group billing is stuck",
    ]
