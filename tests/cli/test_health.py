"""What `odradek cluster health` reports in states that are hard to produce."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.snapshots import GIB, directory, healthy, with_broker, with_isr
from console.snapshots import quorum as quorum_of
from odradek.cli.health import PartitionState, QuorumState, VoterState, problems, warnings
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.finding import Level
from odradek.console.verdict import verdict

GOOD = QuorumState(leader=1, voters=tuple(VoterState(node_id=n, silent_ms=n) for n in (1, 2, 3)))


def quorum(leader, *silent_ms):
    voters = tuple(VoterState(node_id=n, silent_ms=silent) for n, silent in enumerate(silent_ms, 1))
    return QuorumState(leader=leader, voters=voters)


def partition(leader=1, in_sync=(1, 2, 3), index=0, min_in_sync=None, topic="orders"):
    return PartitionState(
        topic=topic, index=index, leader=leader, replicas=(1, 2, 3), in_sync=in_sync, min_in_sync=min_in_sync
    )


def test_a_healthy_cluster_has_no_problems():
    assert list(problems(GOOD, [], [partition(), partition(index=1)])) == []


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (quorum(None, 0, None, None), "no metadata majority (1 of 3): nodes 2 and 3 cannot be reached"),
        (quorum(None, 0, 0, None), "no controller leads the metadata log, though 2 of 3 can be reached"),
        (quorum(None), "no controller leads the metadata log: topics"),
        (
            quorum(1, 0, 5, 10_001),
            "node 3 votes but does not follow the metadata log: 2 of 3 do, and no other may fail",
        ),
        (
            quorum(1, 0, 5, 5, None, None),
            "nodes 4 and 5 vote but do not follow the metadata log: 3 of 5 do, and no other",
        ),
        (quorum(1, 0, 5, 5, 5, None), "node 5 votes but does not follow the metadata log: 4 of 5 do, and 1 more may"),
    ],
)
def test_the_quorum(state, said):
    (sentence,) = problems(state, [], [])
    assert sentence.startswith(said)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            partition(in_sync=(1, 3)),
            "1 partition has replicas that are not in sync: under-replicated (orders-0: 2 of 3, without 2)",
        ),
        (
            partition(leader=None, in_sync=(2,)),
            "1 partition has no leader: nothing is read or written (orders-0: replicas on 1, 2, 3)",
        ),
        (
            partition(in_sync=(1,), min_in_sync=2),
            "1 partition has fewer replicas in sync than min.insync.replicas: acks=all is refused "
            "(orders-0: 1 of 3, without 2, 3)",
        ),
    ],
)
def test_partitions(state, said):
    assert list(problems(GOOD, [], [state])) == [said]


def test_unreachable_leaders_are_reported_while_no_election_is_possible():
    state, led, lost = quorum(None, 0, None, None), partition(), partition(leader=2, index=1)
    assert list(problems(state, [], [led, lost], silent_brokers=[2, 3, 4]))[1:] == [
        "broker 4 cannot be reached",
        "1 partition has a leader that cannot be reached: nothing is read or written (orders-1: broker 2)",
    ]


def test_many_partitions_are_counted_and_some_named():
    (sentence,) = problems(GOOD, [], [partition(in_sync=(1, 2), index=n) for n in range(25)])
    assert sentence.startswith("25 partitions have replicas that are not in sync")
    assert "orders-9" in sentence
    assert "orders-10" not in sentence
    assert sentence.endswith("and 15 more)")


def test_causes_come_before_their_consequences():
    found = problems(
        quorum(None, 0, None, None), [2, 3], [partition(in_sync=(1, 2)), partition(leader=None), partition(index=2)]
    )
    assert [sentence.split(":")[0] for sentence in found] == [
        "no metadata majority (1 of 3)",
        "broker 2 is registered but not alive, or still catching up with the metadata",
        "broker 3 is registered but not alive, or still catching up with the metadata",
        "1 partition has no leader",
        "1 partition has replicas that are not in sync",
    ]


def test_user_topics_are_listed_before_internal_topics():
    behind = [partition(in_sync=(1,), topic="__consumer_offsets", index=index) for index in range(50)]
    (sentence,) = problems(GOOD, [], [*behind, partition(in_sync=(1,))])
    assert "under-replicated (orders-0: 1 of 3, without 2, 3, __consumer_offsets-0" in sentence


def test_a_topic_does_not_need_more_replicas_in_sync_than_it_has():
    assert list(problems(GOOD, [], [partition(min_in_sync=4)])) == []


FULL = directory(free=GIB // 1024)
FAILED = replace(directory(free=50 * GIB), failed=("orders-0",))


def test_disks_that_store_no_more_records_are_problems_and_others_warnings():
    disks = {1: [directory(free=50 * GIB)], 2: [FULL], 3: [FAILED], 4: [directory(free=4 * GIB)]}
    assert list(problems(GOOD, [], [], directories=disks)) == [
        "the disk of broker 2 is full: it stores no more records (/data: 1 MiB left)",
        "the disk of broker 3 has failed (/data: logs that went offline: orders-0)",
    ]
    assert list(warnings(disks)) == ["the disk of broker 4 is filling up (/data: 96% used)"]


def as_the_command_sees(snapshot: Snapshot) -> list[str]:
    """The problems of the same cluster for `odradek cluster health`."""
    voters = tuple(VoterState(node_id=each.node_id, silent_ms=each.silent_ms) for each in snapshot.quorum.voters)
    return list(
        problems(
            QuorumState(leader=snapshot.quorum.leader, voters=voters),
            [each.broker_id for each in snapshot.brokers if each.is_fenced],
            [
                PartitionState(
                    topic=name,
                    index=each.number,
                    leader=None if each.leader < 0 else each.leader,
                    replicas=each.replicas,
                    in_sync=each.in_sync,
                    min_in_sync=snapshot.min_in_sync.get(name),
                )
                for name, topic in snapshot.topics.items()
                for each in topic.partitions
            ],
            [each.broker_id for each in snapshot.brokers if each.problem is not None and not each.is_fenced],
            {each.broker_id: each.log_dirs for each in snapshot.brokers},
        )
    )


@pytest.mark.parametrize(
    ("snapshot", "named"),
    [
        (healthy(), ""),
        (replace(healthy(), min_in_sync={"orders": 4}), ""),
        (with_broker(healthy(), 2, problem="Connection refused"), "roker 2"),
        (with_broker(healthy(), 2, is_fenced=True), "roker 2"),
        (with_isr(healthy(), (1, 3), leader=1), "4 partitions have replicas that are not in sync"),
        (replace(with_isr(healthy(), (1,), leader=1), min_in_sync={"orders": 2}), "acks=all"),
        (with_isr(healthy(), (), leader=-1), "4 partitions have no leader"),
        (with_broker(healthy(), 2, log_dirs=(FULL,)), "he disk of broker 2 is full"),
        (with_broker(healthy(), 2, log_dirs=(FAILED,)), "he disk of broker 2 has failed"),
        (replace(healthy(), quorum=quorum_of((1, 2, 3), silent=[3])), "ode 3 votes but does not follow"),
        (replace(healthy(), quorum=quorum_of((1, 2, 3), silent=[2, 3], leader=None)), "etadata"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_console_and_the_command_see_the_same_problems(snapshot: Snapshot, named: str) -> None:
    seen = verdict(snapshot)
    assert (seen.level is not Level.GOOD) == bool(as_the_command_sees(snapshot)) == bool(named)
    if named:
        assert named in seen.sentence
        assert any(named in sentence for sentence in as_the_command_sees(snapshot))
