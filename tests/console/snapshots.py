"""Snapshots of a cluster, for tests of what is concluded from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from odradek.console.collecting.snapshot import Broker, Group, LogDir, Partition, Quorum, Snapshot, Topic, Voter
from odradek.monitor.lag.cluster_lag import GroupSummary
from odradek.monitor.lag.evaluation import Status, group_status
from odradek.monitor.lag.log_ends import Age

GIB = 2**30


def healthy(*, brokers: int = 3, partitions: int = 4) -> Snapshot:
    """Three brokers with one topic, each partition on all of them."""
    ids = tuple(range(1, brokers + 1))
    orders = Topic(
        name="orders",
        topic_id="orders-1",
        is_internal=False,
        partitions=tuple(Partition(index, ids[index % brokers], ids, ids) for index in range(partitions)),
    )
    return Snapshot(
        at_ms=1_000_000,
        cluster_id="test",
        brokers=tuple(broker(each) for each in ids),
        topics={"orders": orders},
        quorum=quorum(ids),
        lag_is_known=True,
    )


def broker(broker_id: int) -> Broker:
    return Broker(
        broker_id=broker_id,
        host="10.0.0.1",
        port=9092,
        rack=None,
        is_fenced=False,
        problem=None,
        replicas=4,
        log_dirs=(directory(free=50 * GIB),),
    )


def directory(*, free: int, total: int = 100 * GIB) -> LogDir:
    return LogDir(path="/data", error=None, bytes_total=total, bytes_usable=free, bytes_logs=GIB)


def quorum(voters: Iterable[int], *, silent: Iterable[int] = (), leader: int | None = 1) -> Quorum:
    absent = {*silent}
    members = tuple(
        Voter(
            node_id=each,
            directory_id="",
            is_voter=True,
            log_end=10,
            lag=0,
            silent_ms=None if each in absent else 0,
        )
        for each in voters
    )
    return Quorum(leader=leader, members=members, epoch=3, unreachable=() if leader else tuple(sorted(absent)))


def with_broker(snapshot: Snapshot, broker_id: int, **changes: object) -> Snapshot:
    changed = tuple(replace(each, **changes) if each.broker_id == broker_id else each for each in snapshot.brokers)
    return replace(snapshot, brokers=changed)


def with_isr(
    snapshot: Snapshot, in_sync: Iterable[int], *, leader: int | None = None, numbers: Iterable[int] = ()
) -> Snapshot:
    """`numbers` are the partitions of orders that change; by default, all."""
    wanted = {*numbers} or {each.number for each in snapshot.topics["orders"].partitions}
    left = tuple(in_sync)
    partitions = tuple(
        each._replace(in_sync=left, leader=leader if leader is not None else each.leader)
        if each.number in wanted
        else each
        for each in snapshot.topics["orders"].partitions
    )
    return replace(snapshot, topics={"orders": replace(snapshot.topics["orders"], partitions=partitions)})


def with_group(
    snapshot: Snapshot, name: str, status: Status, *, state: str = "Stable", lag: int = 1200, seconds: float = 240.0
) -> Snapshot:
    summary = GroupSummary(
        status=group_status([status]),
        worst=status,
        lag_by_topic={"orders": lag},
        max_lag=lag,
        age=Age(seconds, is_minimum=False),
    )
    group = Group(name=name, state=state, kind="classic", protocol="consumer", coordinator=1, lag=summary)
    return replace(snapshot, groups={**snapshot.groups, name: group})
