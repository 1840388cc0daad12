"""What happened between two snapshots: brokers that went and came back, elections, ISR changes, topics, groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

from odradek.console.collecting.snapshot import NO_LEADER, Broker, Event, EventKind, Snapshot, Topic

EVENTS_MAX = 300
NAMED_MAX = 3
# More topics than these in one comparison become one event.
DISK_FULL_SHARE = 0.9

CALM_STATES = {"Stable", "Empty", "Dead"}


def happened(before: Snapshot, now: Snapshot) -> list[Event]:
    """The events that lead from one snapshot to the next, the most important first."""
    if before.is_empty or now.is_empty or before.cluster_id != now.cluster_id:
        return []
    told = [*_brokers(before, now), *_quorum(before, now), *_partitions(before, now), *_topics(before, now)]
    return [*told, *_groups(before, now)]


def _brokers(before: Snapshot, now: Snapshot) -> Iterator[Event]:
    known = {each.broker_id: each for each in before.brokers}
    for broker in now.brokers:
        was = known.pop(broker.broker_id, None)
        path = f"/brokers/{broker.broker_id}"
        if was is None:
            yield Event(at_ms=now.at_ms, kind=EventKind.BROKER_BACK, level="info", text=_joined(broker), path=path)
        elif was.is_alive and not broker.is_alive:
            why = broker.problem or "the controller has fenced it"
            text = f"Broker {broker.broker_id} is gone: {why}"
            yield Event(at_ms=now.at_ms, kind=EventKind.BROKER_GONE, level="bad", text=text, path=path)
        elif broker.is_alive and not was.is_alive:
            text = f"Broker {broker.broker_id} is back"
            yield Event(at_ms=now.at_ms, kind=EventKind.BROKER_BACK, level="good", text=text, path=path)
    for broker_id in known:
        text = f"Broker {broker_id} has left the cluster"
        yield Event(at_ms=now.at_ms, kind=EventKind.BROKER_GONE, level="warn", text=text, path="/brokers")


def _joined(broker: Broker) -> str:
    return f"Broker {broker.broker_id} has joined at {broker.address}"


def _quorum(before: Snapshot, now: Snapshot) -> Iterator[Event]:
    was, led = before.quorum, now.quorum
    if was is None or led is None or was.leader == led.leader:
        return
    if led.leader is None:
        text, level = f"The metadata quorum has lost its leader, node {was.leader}", "bad"
    else:
        text, level = f"Node {led.leader} leads the metadata quorum, epoch {led.epoch}", "info"
    yield Event(at_ms=now.at_ms, kind=EventKind.CONTROLLER, level=level, text=text, path="/quorum")


def _partitions(before: Snapshot, now: Snapshot) -> Iterator[Event]:
    elected: list[str] = []
    shrank: list[str] = []
    grew: list[str] = []
    offline: list[str] = []
    online: list[str] = []
    leaders: set[int] = set()
    missing: set[int] = set()
    for name, topic in now.topics.items():
        was = before.topics.get(name)
        if was is topic or was is None or was.topic_id != topic.topic_id or was.partitions == topic.partitions:
            continue
        for old, new in zip(was.partitions, topic.partitions, strict=False):
            place = f"{name}-{new.number}"
            if new.leader != old.leader:
                if new.leader == NO_LEADER:
                    offline.append(place)
                elif old.leader == NO_LEADER:
                    online.append(place)
                else:
                    elected.append(place)
                    leaders.add(new.leader)
            lost, won = {*old.in_sync} - {*new.in_sync}, {*new.in_sync} - {*old.in_sync}
            if lost:
                shrank.append(place)
                missing |= lost
            elif won:
                grew.append(place)
    yield from _told(now, offline, EventKind.OFFLINE, "bad", "without a leader now: no in-sync replica is available")
    yield from _told(now, elected, EventKind.ELECTION, "info", f"led by {_brokers_named(leaders)} now")
    dead = {each.broker_id for each in now.brokers if not each.is_alive}
    why = "fell behind" if missing - dead else "has gone" if len(missing) == 1 else "have gone"
    yield from _told(now, shrank, EventKind.ISR_SHRANK, "warn", f"under-replicated: {_brokers_named(missing)} {why}")
    yield from _told(now, online, EventKind.ONLINE, "good", "led again")
    yield from _told(now, grew, EventKind.ISR_GREW, "good", "back in sync")


def _told(now: Snapshot, places: Sequence[str], kind: EventKind, level: str, what: str) -> Iterator[Event]:
    if not places:
        return
    count = f"{len(places)} partitions" if len(places) > 1 else "1 partition"
    path = f"/topics/{quote(places[0].rpartition('-')[0], safe='')}" if len(places) == 1 else "/topics?show=problems"
    yield Event(at_ms=now.at_ms, kind=kind, level=level, text=f"{count} {what}: {_named(places)}", path=path)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def _brokers_named(ids: Iterable[int]) -> str:
    found = sorted(ids)
    return ("broker " if len(found) == 1 else "brokers ") + ", ".join(map(str, found))


def _topics(before: Snapshot, now: Snapshot) -> Iterator[Event]:
    def is_new(topic: Topic) -> bool:
        was = before.topics.get(topic.name)
        return was is None or was.topic_id != topic.topic_id

    made = sorted(topic.name for topic in now.topics.values() if is_new(topic) and not topic.is_internal)
    gone = sorted(name for name, topic in before.topics.items() if name not in now.topics and not topic.is_internal)
    for names, what in ((made, "was created"), (gone, "was deleted")):
        if names:
            many = f"{len(names)} topics {what.replace('was', 'were')}: {_named(names)}"
            subject = f"Topic {names[0]} {what}" if len(names) == 1 else many
            path = f"/topics/{quote(names[0], safe='')}" if len(names) == 1 and names is made else "/topics"
            yield Event(at_ms=now.at_ms, kind=EventKind.TOPIC, level="info", text=subject, path=path)


def _groups(before: Snapshot, now: Snapshot) -> Iterator[Event]:
    for name, group in now.groups.items():
        was = before.groups.get(name)
        if was is None or not before.lag_is_known:
            continue
        path = f"/groups/{quote(name, safe='')}"
        if was.state in CALM_STATES and group.state not in CALM_STATES:
            text = f"Group {name} rebalances ({group.state})"
            yield Event(at_ms=now.at_ms, kind=EventKind.REBALANCE, level="info", text=text, path=path)
        if was.lag is not None and group.lag is not None and was.rule is not group.rule:
            level = {"OK": "good", "WARN": "warn"}.get(group.rule.name, "bad")
            text = f"Group {name} went from {was.rule.name} to {group.rule.name}"
            yield Event(at_ms=now.at_ms, kind=EventKind.GROUP, level=level, text=text, path=path)
        elif was.state == "Stable" and group.state == "Empty":
            text = f"Group {name} has lost its last member"
            yield Event(at_ms=now.at_ms, kind=EventKind.GROUP, level="info", text=text, path=path)
