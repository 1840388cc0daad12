"""What happened between two snapshots."""

from __future__ import annotations

from dataclasses import replace

from console.snapshots import broker, healthy, quorum, with_broker, with_group, with_isr
from odradek.console.collecting.events import happened
from odradek.console.collecting.snapshot import NO_LEADER, Snapshot
from odradek.monitor.lag.evaluation import Status


def told(before: Snapshot, now: Snapshot) -> list[tuple[str, str]]:
    return [(each.level, each.text) for each in happened(before, now)]


def test_nothing_happens_between_equal_snapshots():
    assert told(healthy(), healthy()) == []


def test_the_first_snapshot_is_no_event():
    assert told(Snapshot(at_ms=0), healthy()) == []


def test_another_cluster_at_the_same_address_is_no_event():
    assert told(healthy(), replace(healthy(brokers=1), cluster_id="other")) == []


def test_a_broker_goes_and_comes_back():
    gone = with_broker(healthy(), 2, problem="refused")
    assert told(healthy(), gone) == [("bad", "Broker 2 is gone: refused")]
    assert told(gone, healthy()) == [("good", "Broker 2 is back")]


def test_a_new_broker_joins_and_an_unregistered_broker_leaves():
    more = replace(healthy(), brokers=(*healthy().brokers, broker(4)))
    assert told(healthy(), more) == [("info", "Broker 4 has joined at 10.0.0.1:9092")]
    assert told(more, healthy()) == [("warn", "Broker 4 has left the cluster")]


def test_a_failover_of_many_partitions_is_one_event_of_each_kind():
    assert told(healthy(), with_isr(healthy(), (1, 3), leader=1)) == [
        ("info", "2 partitions led by broker 1 now: orders-1, orders-2"),
        ("warn", "4 partitions under-replicated: broker 2 fell behind: orders-0, orders-1, orders-2 and 1 more"),
    ]


def test_a_dead_broker_has_not_fallen_behind():
    gone = with_broker(healthy(), 2, problem="refused")
    now = with_isr(gone, (1, 3), numbers=[0, 2])
    assert told(gone, now) == [("warn", "2 partitions under-replicated: broker 2 has gone: orders-0, orders-2")]


def test_shrinking_and_growing_isr():
    small = with_isr(healthy(), (1, 3), numbers=[0, 2])
    assert told(healthy(), small) == [
        ("warn", "2 partitions under-replicated: broker 2 fell behind: orders-0, orders-2")
    ]
    assert told(small, healthy()) == [("good", "2 partitions back in sync: orders-0, orders-2")]


def test_a_partition_loses_its_leader_and_gets_one_again():
    offline = with_isr(healthy(), (1, 2, 3), leader=NO_LEADER, numbers=[3])
    assert told(healthy(), offline) == [
        ("bad", "1 partition without a leader now: no in-sync replica is available: orders-3")
    ]
    assert told(offline, healthy()) == [("good", "1 partition led again: orders-3")]


def test_the_metadata_quorum_changes_its_leader():
    other = replace(healthy(), quorum=quorum((1, 2, 3), leader=2))
    none = replace(healthy(), quorum=quorum((1, 2, 3), leader=None))
    assert told(healthy(), other) == [("info", "Node 2 leads the metadata quorum, epoch 3")]
    assert told(healthy(), none) == [("bad", "The metadata quorum has lost its leader, node 1")]


def test_a_topic_that_was_created_again_is_a_new_one():
    again = replace(healthy(), topics={"orders": replace(healthy().topics["orders"], topic_id="orders-2")})
    assert told(healthy(), again) == [("info", "Topic orders was created")]
    assert told(healthy(), replace(healthy(), topics={})) == [("info", "Topic orders was deleted")]


def test_a_group_changes_its_status():
    well, stuck = with_group(healthy(), "billing", Status.OK), with_group(healthy(), "billing", Status.STALL)
    assert told(well, stuck) == [("bad", "Group billing went from OK to STALL")]
    assert told(stuck, well) == [("good", "Group billing went from STALL to OK")]


def test_a_group_rebalances_and_loses_its_last_member():
    stable = with_group(healthy(), "billing", Status.OK)
    busy = with_group(healthy(), "billing", Status.OK, state="PreparingRebalance")
    empty = with_group(healthy(), "billing", Status.OK, state="Empty")
    assert told(stable, busy) == [("info", "Group billing rebalances (PreparingRebalance)")]
    assert told(stable, empty) == [("info", "Group billing has lost its last member")]


def test_groups_are_quiet_until_their_commits_have_been_read():
    before = replace(with_group(healthy(), "billing", Status.OK), lag_is_known=False)
    assert told(before, with_group(healthy(), "billing", Status.STALL)) == []
