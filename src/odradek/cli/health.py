"""Finds problems of a cluster in what brokers and the metadata quorum report. Does no I/O.

`monitor/cluster_health.py` has the rules, which the console shares. A disk that fills up is a warning alone: it is no
reason to wait before the next node is restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from odradek.base.limits import MIB
from odradek.console.collecting.snapshot import LogDir
from odradek.monitor.cluster_health import Disk, follows, majority, refuses_acks_all

NAMED_MAX = 10
NO_DIRECTORIES: Mapping[int, Sequence[LogDir]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    topic: str
    index: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    # None when unknown.
    min_in_sync: int | None = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterState:
    node_id: int
    # None: it has never fetched from this leader.
    silent_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """What the leader of the metadata log reports. Without a leader: which voters can be reached."""

    leader: int | None
    voters: tuple[VoterState, ...]

    @property
    def majority(self) -> int:
        return majority(len(self.voters))

    @property
    def present(self) -> list[int]:
        return [v.node_id for v in self.voters if follows(v.silent_ms)]

    @property
    def absent(self) -> list[int]:
        return [voter.node_id for voter in self.voters if voter.node_id not in self.present]


def problems(
    quorum: QuorumState,
    fenced_brokers: Sequence[int],
    partitions: Sequence[PartitionState],
    silent_brokers: Sequence[int] = (),
    directories: Mapping[int, Sequence[LogDir]] = NO_DIRECTORIES,
) -> Iterable[str]:
    """Causes first, then what they do to partitions, the most severe first.

    `silent_brokers` do not answer, and no controller has fenced them.
    """
    yield from of_quorum(quorum)
    # Internal topics come last.
    partitions = sorted(partitions, key=lambda partition: partition.topic.startswith("__"))
    for broker in silent_brokers:
        if broker not in quorum.absent:
            yield f"broker {broker} cannot be reached"
    for broker in fenced_brokers:
        yield f"broker {broker} is registered but not alive, or still catching up with the metadata"
    yield from _of_disks(directories)
    lost = [p for p in partitions if p.leader in silent_brokers]
    yield from _told(lost, "{} a leader that cannot be reached: nothing is read or written ({})", _leader_of)
    without = [p for p in partitions if p.leader is None]
    yield from _told(without, "{} no leader: nothing is read or written ({})", _replicas_of)
    led = [p for p in partitions if p.leader is not None and p not in lost]
    refusing = [p for p in led if refuses_acks_all(len(p.in_sync), len(p.replicas), p.min_in_sync)]
    yield from _told(refusing, "{} fewer replicas in sync than min.insync.replicas: acks=all is refused ({})", _in_sync)
    behind = [p for p in led if len(p.in_sync) < len(p.replicas) and p not in refusing]
    yield from _told(behind, "{} replicas that are not in sync: under-replicated ({})", _in_sync)


def warnings(directories: Mapping[int, Sequence[LogDir]]) -> Iterable[str]:
    """What is no problem yet."""
    for broker, found in directories.items():
        for each in found:
            if Disk.FILLING <= each.state < Disk.FULL:
                yield f"the disk of broker {broker} is filling up ({each.path}: {each.used_share:.0%} used)"


def _of_disks(directories: Mapping[int, Sequence[LogDir]]) -> Iterable[str]:
    for broker, found in directories.items():
        for each in found:
            if each.state is Disk.FULL:
                left = (each.bytes_usable or 0) // MIB
                yield f"the disk of broker {broker} is full: it stores no more records ({each.path}: {left} MiB left)"
            elif each.state is Disk.FAILED:
                logs = f"logs that went offline: {', '.join(each.failed[:NAMED_MAX])}"
                yield f"the disk of broker {broker} has failed ({each.path}: {each.error or logs})"


def no_majority(quorum: QuorumState) -> str | None:
    """The consequence of a missing majority; None if there is a majority."""
    if quorum.leader is not None or not quorum.voters or len(quorum.present) >= quorum.majority:
        return None
    return (
        f"no metadata majority ({len(quorum.present)} of {len(quorum.voters)}): {_nodes(quorum.absent)} cannot be "
        "reached. Partitions with a leader are served; topics, leaders and ISRs cannot change"
    )


def of_quorum(quorum: QuorumState) -> Iterable[str]:
    count = len(quorum.voters)
    if quorum.leader is None:
        if count == 0:
            yield "no controller leads the metadata log: topics, leaders and ISRs cannot change"
        else:
            reached = f"{len(quorum.present)} of {count} can be reached"
            yield no_majority(quorum) or f"no controller leads the metadata log, though {reached}"
    elif quorum.absent:
        more = len(quorum.present) - quorum.majority
        left = f"{more} more may fail" if more > 0 else "no other may fail"
        following = f"{len(quorum.present)} of {count} do, and {left}"
        do = "votes but does" if len(quorum.absent) == 1 else "vote but do"
        yield f"{_nodes(quorum.absent)} {do} not follow the metadata log: {following}"


def _told(
    partitions: Sequence[PartitionState], sentence: str, detail: Callable[[PartitionState], str]
) -> Iterable[str]:
    if not partitions:
        return
    named = [f"{partition}: {detail(partition)}" for partition in partitions[:NAMED_MAX]]
    if len(partitions) > NAMED_MAX:
        named.append(f"and {len(partitions) - NAMED_MAX} more")
    subject = "1 partition has" if len(partitions) == 1 else f"{len(partitions)} partitions have"
    yield sentence.format(subject, ", ".join(named))


def _replicas_of(partition: PartitionState) -> str:
    return f"replicas on {_names(partition.replicas)}"


def _leader_of(partition: PartitionState) -> str:
    return f"broker {partition.leader}"


def _in_sync(partition: PartitionState) -> str:
    missing = [replica for replica in partition.replicas if replica not in partition.in_sync]
    return f"{len(partition.in_sync)} of {len(partition.replicas)}, without {_names(missing)}"


def _nodes(ids: Sequence[int]) -> str:
    if len(ids) == 1:
        return f"node {ids[0]}"
    return f"nodes {_names(ids[:-1])} and {ids[-1]}"


def _names(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))
