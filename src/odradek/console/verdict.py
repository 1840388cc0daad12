"""The health of a cluster in one sentence, with the reason and the next step. A pure function of a snapshot.

A problem names its cause once: partitions that lack the replicas of a dead broker, or of a broker with a full disk, are
part of that finding, and no findings of their own. `monitor/cluster_health.py` has the rules, which
`odradek cluster health` shares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from odradek.console.collecting.snapshot import Broker, Group, LogDir, Partition, Quorum, Snapshot
from odradek.console.finding import Finding, Level
from odradek.console.words import counted, plural
from odradek.monitor.cluster_health import Disk, follows
from odradek.monitor.lag.evaluation import Status

NAMED_MAX = 3
GROUPS_MAX = 5
# A turn of the collector that is older than this is a problem of the console or of its network.
OLD_MS = 15_000

Place = tuple[str, Partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    level: Level
    sentence: str
    findings: Sequence[Finding] = ()

    @property
    def first(self) -> Finding | None:
        return self.findings[0] if self.findings else None


def verdict(snapshot: Snapshot) -> Verdict:
    if snapshot.is_empty:
        return _unknown(snapshot)
    found = sorted(findings(snapshot), key=lambda each: -each.level)
    if not found:
        return Verdict(level=Level.GOOD, sentence=_all_is_well(snapshot))
    more = f", and {counted(len(found) - 1, 'other problem')}" if len(found) > 1 else ""
    return Verdict(level=found[0].level, sentence=f"{found[0].what}{more}", findings=found)


def findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Causes come before their effects."""
    if snapshot.problem is not None:
        yield _silence(snapshot)
        return
    harm = _Harm(snapshot)
    yield from _of_quorum(snapshot.quorum, harm.dead)
    for broker in snapshot.brokers:
        if not broker.is_alive:
            yield _dead(broker, harm, snapshot.quorum)
    for broker in snapshot.brokers:
        if broker.is_alive:
            yield from _of_disks(broker, harm)
    yield from _of_partitions(snapshot, harm)
    yield from snapshot.findings
    explained = {name for each in snapshot.findings for name in each.explains}
    yield from _of_groups(group for group in snapshot.groups.values() if group.name not in explained)


def _unknown(snapshot: Snapshot) -> Verdict:
    if snapshot.problem is None:
        return Verdict(level=Level.UNKNOWN, sentence="Reading the cluster for the first time")
    return Verdict(level=Level.BAD, sentence="No broker answers", findings=[_silence(snapshot)])


def _silence(snapshot: Snapshot) -> Finding:
    return Finding(
        level=Level.BAD,
        what="No broker answers",
        why=f"{snapshot.problem}. The page shows what was known before" if snapshot.brokers else str(snapshot.problem),
        step="Start the brokers, or check the address and the network between this machine and them",
        path="/brokers",
        command="odradek doctor",
    )


def _all_is_well(snapshot: Snapshot) -> str:
    count = len(snapshot.brokers)
    brokers = f"all {count} brokers are" if count > 1 else "the broker is"
    if not snapshot.partitions:
        return f"All is well: {brokers} up. There are no topics yet"
    are = "the only partition is" if snapshot.partitions == 1 else f"all {snapshot.partitions:,} partitions are"
    return f"All is well: {brokers} up, and {are} in sync"


# The metadata quorum


def _of_quorum(quorum: Quorum | None, dead: Collection[int]) -> Iterator[Finding]:
    """A silent voter that is a dead broker is part of that finding."""
    if quorum is None:
        return
    voters = quorum.voters
    silent = [voter.node_id for voter in voters if not voter.follows and voter.node_id not in dead]
    if quorum.leader is None:
        needed = _nodes(quorum.unreachable)
        reached = len(voters) - len(quorum.unreachable)
        yield Finding(
            level=Level.BAD,
            what="The metadata quorum has no leader: topics, leaders and ISRs cannot change",
            why=f"{reached} of {counted(len(voters), 'voter')} can be reached, "
            f"{counted(quorum.majority, 'is needed', 'are needed')}"
            + (f". {needed.capitalize()} cannot" if needed else ""),
            step=f"Start {needed}" if needed else "Wait some seconds for an election, then look at the nodes' logs",
            path="/quorum",
        )
    elif silent:
        yield Finding(
            level=Level.WARN,
            what=f"{_nodes(silent).capitalize()} votes but does not follow the metadata log"
            if len(silent) == 1
            else f"{_nodes(silent).capitalize()} vote but do not follow the metadata log",
            why=_spare_voters(quorum),
            step=f"Start {_nodes(silent)} again, or remove it from the voters",
            path="/quorum",
        )


def _spare_voters(quorum: Quorum) -> str:
    following = sum(voter.follows for voter in quorum.voters)
    spare = following - quorum.majority
    left = f"{spare} more may fail" if spare > 0 else "If one more fails, the cluster cannot elect leaders any more"
    do = plural(following, "answers and follows", "answer and follow") if _is_cut_off(quorum) else ""
    follow = do or plural(following, "follows", "follow")
    return f"{following} of {counted(len(quorum.voters), 'voter')} {follow} the metadata log. {left}"


def _is_cut_off(quorum: Quorum) -> bool:
    """Whether a voter that does not answer has fetched recently: it has just died, or only the console misses it."""
    return any(not voter.answers and follows(voter.silent_ms) for voter in quorum.voters)


# Brokers and disks


class _Harm:
    """Partitions that lack in-sync replicas, and the brokers that are the cause."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.dead = {each.broker_id for each in snapshot.brokers if not each.is_alive}
        self.full = {each.broker_id for each in snapshot.brokers if _worst_dir(each) is not None}
        self.short: list[Place] = [
            (name, partition)
            for name, topic in snapshot.topics.items()
            for partition in topic.partitions
            if len(partition.in_sync) < len(partition.replicas) or self.is_offline(partition)
        ]

    def of(self, broker: int) -> list[Place]:
        """The partitions that need this broker: it is missing, or it led or held the last replica in sync."""
        return [
            place
            for place in self.short
            if broker in place[1].missing or (self.is_offline(place[1]) and broker in place[1].in_sync)
        ]

    def unexplained(self) -> list[Place]:
        known = self.dead | self.full
        return [
            (name, partition)
            for name, partition in self.short
            if not known & {*partition.missing} and not (self.is_offline(partition) and known & {*partition.in_sync})
        ]

    def is_offline(self, partition: Partition) -> bool:
        return partition.leader < 0 or partition.leader in self.dead

    def is_refusing(self, place: Place) -> bool:
        """Whether acks=all is refused."""
        return self._snapshot.refuses_writes(*place)

    def effect(self, places: Sequence[Place], broker: Broker) -> str:
        """What the missing replicas mean for clients, in one sentence."""
        if not places:
            return "No partition needs it" if not broker.replicas else "Its replicas were not in sync before"
        offline = [place for place in places if self.is_offline(place[1])]
        refusing = [place for place in places if not self.is_offline(place[1]) and self.is_refusing(place)]
        if offline:
            return f"{_partitions_have(offline)} no leader, and cannot be read or written: {_named(offline)}"
        if refusing:
            refuse = plural(len(refusing), "refuses", "refuse")
            return (
                f"{_partitions_have(refusing)} too few replicas for acks=all, and {refuse} writes: {_named(refusing)}"
            )
        return f"{_partitions_have(places)} fewer replicas, and can still be read and written"


def _dead(broker: Broker, harm: _Harm, quorum: Quorum | None) -> Finding:
    effect = harm.effect(harm.of(broker.broker_id), broker)
    votes = quorum is not None and broker.broker_id in [voter.node_id for voter in quorum.voters]
    if quorum is not None and quorum.leader is not None and votes:
        effect += f". {_spare_voters(quorum)}"
    path = f"/brokers/{broker.broker_id}"
    if broker.problem is None:
        return Finding(
            level=Level.BAD,
            what=f"Broker {broker.broker_id} is fenced",
            why=f"It answers, but the controller has fenced it. {effect}",
            step="Wait until it has caught up, or look at its log",
            path=path,
        )
    # What was seen last of its disk may be the reason.
    full = next((each for each in broker.log_dirs if each.state is Disk.FULL), None)
    left = f"{full.path} had {_size(full.bytes_usable)} left. " if full else ""
    start = f"start broker {broker.broker_id} again{_at(broker)}"
    return Finding(
        level=Level.BAD,
        what=f"Broker {broker.broker_id} is down" + (": its disk is full" if full else ""),
        why=f"{_sentence(broker.problem)}. {left}{effect}",
        step=f"Free space in {full.path}, then {start}" if full else _sentence(start),
        path=path,
    )


def _at(broker: Broker) -> str:
    return f", on {broker.host}" if broker.host else ""


def _worst_dir(broker: Broker) -> LogDir | None:
    """The directory that cannot take more records, if there is one."""
    return next((each for each in broker.log_dirs if each.state >= Disk.FULL), None)


def _of_disks(broker: Broker, harm: _Harm) -> Iterator[Finding]:
    path = f"/brokers/{broker.broker_id}"
    broken = _worst_dir(broker)
    if broken is not None:
        places = [place for place in harm.of(broker.broker_id) if not harm.dead & {*place[1].missing}]
        yield _broken_disk(broker, broken, f" {harm.effect(places, broker)}." if places else "")
        return
    fullest = broker.fullest
    if fullest is None or fullest.used_share is None or fullest.state < Disk.FILLING:
        return
    is_bad = fullest.state is Disk.ALMOST_FULL
    yield Finding(
        level=Level.BAD if is_bad else Level.WARN,
        what=f"The disk of broker {broker.broker_id} is {'almost full' if is_bad else 'filling up'}",
        why=f"{fullest.path}: {fullest.used_share:.0%} used, {_size(fullest.bytes_usable)} left",
        step="Free space: lower retention.ms or retention.bytes of the largest topics, or enlarge the disk",
        path=path,
    )


def _broken_disk(broker: Broker, broken: LogDir, effect: str) -> Finding:
    path = f"/brokers/{broker.broker_id}"
    failed = f" {counted(len(broken.failed), 'log')} went offline: {_few(broken.failed)}." if broken.failed else ""
    if broken.state is Disk.FULL:
        return Finding(
            level=Level.BAD,
            what=f"The disk of broker {broker.broker_id} is full",
            why=f"{broken.path}: {_size(broken.bytes_usable)} left.{failed}{effect}".rstrip("."),
            step="Free space on this disk. The broker opens its logs again by itself, and catches up",
            path=path,
        )
    error = broken.error or "its logs cannot be written"
    return Finding(
        level=Level.BAD,
        what=f"The disk of broker {broker.broker_id} has failed",
        why=f"{broken.path}: {error}.{failed}{effect}".rstrip("."),
        step="Repair or replace the disk, then restart the broker",
        path=path,
    )


# Partitions whose brokers are all well


def _of_partitions(snapshot: Snapshot, harm: _Harm) -> Iterator[Finding]:
    places = harm.unexplained()
    offline = [place for place in places if place[1].leader < 0]
    refusing = [place for place in places if place[1].leader >= 0 and harm.is_refusing(place)]
    behind = [place for place in places if place not in offline and place not in refusing]
    if offline:
        yield Finding(
            level=Level.BAD,
            what=f"{_partitions_have(offline)} no leader, and cannot be read or written",
            why=f"No replica in sync is available: {_named(offline)}",
            step="Start the brokers that were in sync last. Only if their data is lost: elect an unclean leader",
            path=_path(offline),
            command="odradek cluster health",
        )
    if refusing:
        yield Finding(
            level=Level.BAD,
            what=f"{_partitions_have(refusing)} too few replicas in sync: writes with acks=all are refused",
            why=f"Fewer than min.insync.replicas: {_named(refusing)}. {_lacking(refusing, snapshot)}",
            step="Look at the brokers whose replicas are missing: are they overloaded, or is their disk slow?",
            path=_path(refusing),
        )
    if behind:
        yield Finding(
            level=Level.WARN,
            what=f"{_partitions_have(behind)} replicas that are not in sync",
            why=f"{_named(behind)}. {_lacking(behind, snapshot)}",
            step="Wait if a broker has just started: it catches up. Otherwise look at its disk and its log",
            path=_path(behind),
        )


def _lacking(places: Sequence[Place], snapshot: Snapshot) -> str:
    missing = sorted({replica for _, partition in places for replica in partition.missing})
    alive = {each.broker_id for each in snapshot.brokers if each.is_alive}
    who = "Broker" if len(missing) == 1 else "Brokers"
    up = ", though it is up" if len(missing) == 1 and missing[0] in alive else ""
    return f"{who} {', '.join(map(str, missing))} {'lacks' if len(missing) == 1 else 'lack'} records{up}"


def _path(places: Sequence[Place]) -> str:
    topics = {name for name, _ in places}
    return f"/topics/{quote(next(iter(topics)), safe='')}" if len(topics) == 1 else "/topics?show=problems"


# Groups


_RULES = {
    Status.STOP: ("has stopped committing", "Its consumers commit no more offsets, and records wait"),
    Status.STALL: ("is stuck", "Its consumers commit the same offset again and again: they may fail on one record"),
    Status.REWIND: ("went back", "An earlier offset was committed, and the former one was not reached again"),
    Status.WARN: ("is falling behind", "Its consumers commit, but the lag never decreases: they are too slow"),
}
_STEPS = {
    Status.STOP: "Look at the log of its consumers. If nobody needs the group any more, delete it",
    Status.STALL: "Look at the log of its consumers for the record at the committed offset",
    Status.REWIND: "If this was no reset of yours, look for a second application that uses the same group",
    Status.WARN: "Add consumers, up to the number of partitions, or make them faster",
}


def _of_groups(groups: Iterable[Group]) -> Iterator[Finding]:
    unwell = [group for group in groups if group.rule in _RULES]
    unwell.sort(key=lambda group: (-_severity(group), -_lag(group)))
    for group in unwell[:GROUPS_MAX]:
        yield _unwell(group)
    more = len(unwell) - GROUPS_MAX
    if more > 0:
        yield Finding(
            level=Level.WARN,
            what=counted(more, "more group is behind", "more groups are behind"),
            why=_few([group.name for group in unwell[GROUPS_MAX:]]),
            step="Look at the list of groups",
            path="/groups?show=problems",
        )


def _unwell(group: Group) -> Finding:
    if group.lag is None:
        raise ValueError(f"group {group.name} has no lag")
    rule = group.rule
    what, why = _RULES[rule]
    step = _STEPS[rule]
    if rule is Status.STOP and group.state == "Empty":
        what, why = "has no consumers", "All its consumers have gone, and records wait"
        step = "Start its consumers. If nobody needs the group any more, delete it"
    if group.lag.worst is not rule:
        grew = counted(group.growth or 0, "record")
        why = f"Its lag grew by {grew} a second in the last minutes: its consumers are too slow"
    behind = counted(group.lag.total_lag, "record") + (
        f", {_time(group.lag.age.seconds)}," if group.lag.age.seconds else ""
    )
    return Finding(
        level=Level.WARN,
        what=f"Group {group.name} {what}",
        why=f"{why}{f' ({rule.name})' if group.lag.worst is rule else ''}. It is {behind} behind",
        step=step,
        path=f"/groups/{quote(group.name, safe='')}",
    )


def _severity(group: Group) -> int:
    return 0 if group.rule is Status.WARN else 1


def _lag(group: Group) -> int:
    return 0 if group.lag is None else group.lag.total_lag


# Words


def _partitions_have(places: Sequence[Place]) -> str:
    return counted(len(places), "partition has", "partitions have")


def _named(places: Sequence[Place]) -> str:
    return _few([f"{name}-{partition.number}" for name, partition in places])


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def _nodes(ids: Collection[int]) -> str:
    found = sorted(ids)
    if not found:
        return ""
    return f"node {found[0]}" if len(found) == 1 else f"nodes {', '.join(map(str, found[:-1]))} and {found[-1]}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".")


def _size(value: int | None) -> str:
    if value is None:
        return "nothing"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value //= 1024
    return f"{value:,} {unit}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
