"""Problems of transactions for the verdict, and what happened to them. Without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from odradek.client.transaction_requests import named
from odradek.console.collecting.snapshot import Event, EventKind
from odradek.console.collecting.transactions import Hanging, KnownTransactions, Rule, Transaction, Waiting
from odradek.console.finding import Finding, Level
from odradek.console.rendering import count, duration

NAMED_MAX = 3
PROBLEMS = "/transactions?show=problems"


def findings(value: object) -> Iterator[Finding]:
    if not isinstance(value, KnownTransactions):
        return
    if value.hanging:
        yield _hanging(value.hanging[0], value) if len(value.hanging) == 1 else _several(value)
    for rule in (Rule.STUCK, Rule.OVERDUE):
        late = [each for each in value.by_name.values() if each.rule(value.at_ms) is rule]
        if late:
            yield _late(late, rule)
    yield from _open_too_long(value)


def events(before: object, now: object) -> Iterator[Event]:
    if not isinstance(before, KnownTransactions) or not isinstance(now, KnownTransactions):
        return
    was = {each.path: each for each in before.hanging}
    for each in now.hanging:
        if was.pop(each.path, None) is None:
            text = f"A hanging transaction was found in {each.open.partition}"
            yield Event(at_ms=now.at_ms, kind=EventKind.TRANSACTION, level="warn", text=text, path=each.path)
    for gone in was.values():
        text = f"The hanging transaction in {gone.open.partition} has ended"
        yield Event(at_ms=now.at_ms, kind=EventKind.TRANSACTION, level="good", text=text, path="/transactions")


def _hanging(found: Hanging, value: KnownTransactions) -> Finding:
    where, offset = found.open.partition, found.open.start_offset
    age = duration((value.at_ms - found.open.last_ms) / 1000)
    behind = (
        "1 record behind it is" if found.held.records == 1 else f"{count(found.held.records)} records behind it are"
    )
    return Finding(
        level=Level.WARN,
        what=f"A hanging transaction stops the readers of {where}",
        why=(
            f"It began at offset {offset}, its last record is {age} old, and no coordinator will end it. "
            f"{behind} not visible to consumers that read committed records{_waiting(value.groups_at(where))}"
        ),
        step="Look at the transaction, and abort it if its producer is gone",
        path=found.path,
        command=f"odradek txn abort --at {named(where)}:{offset}",
        explains=_explained(value),
    )


def _several(value: KnownTransactions) -> Finding:
    places = [each.open.partition for each in value.hanging]
    groups = sorted({name for place in places for name in value.groups_at(place)})
    return Finding(
        level=Level.WARN,
        what=f"{len(places)} hanging transactions stop the readers of {_few(list(map(str, places)))}",
        why=(
            "No coordinator will end them. The records behind them are not visible to consumers that read committed "
            f"records{_waiting(groups)}"
        ),
        step="Look at each of them, and abort it if its producer is gone",
        path=PROBLEMS,
        command="odradek txn find-hanging",
        explains=_explained(value),
    )


def _explained(value: KnownTransactions) -> frozenset[str]:
    """Groups that lag because of hanging transactions."""
    hanging = {each.open.partition for each in value.hanging}
    return frozenset(each.group for each in value.waiting if each.is_explained and each.places & hanging)


def _open_too_long(value: KnownTransactions) -> Iterator[Finding]:
    """Transactions that their coordinator will end, but for which groups wait that look as if they had failed."""
    explained = _explained(value)
    blocked: dict[str, list[Waiting]] = {}
    for each in value.waiting:
        if each.is_unwell and each.is_explained and each.group not in explained:
            for name in _owners(each, value)[:1]:
                blocked.setdefault(name, []).append(each)
    for name, groups in blocked.items():
        found = value.by_name[name]
        names = [each.group for each in groups]
        open_ms, timeout_ms = found.open_ms(value.at_ms) or 0, found.timeout_ms or 0
        left = f", at the latest in {duration((timeout_ms - open_ms) / 1000)}" if timeout_ms > open_ms else ""
        yield Finding(
            level=Level.WARN,
            what=f"Group {names[0]} waits for the open transaction of {name}"
            if len(names) == 1
            else f"{len(names)} groups wait for the open transaction of {name}",
            why=(
                f"It is open for {duration(open_ms / 1000)}, and holds back {_few(_places(groups))}: consumers that "
                f"read committed records cannot go on{f': {_few(names)}' if len(names) > 1 else ''}"
            ),
            step=f"Wait until its producer ends it, or its coordinator{left}. If the producer is gone, abort it",
            path=f"/transactions/id/{quote(name, safe='')}",
            explains=frozenset(names),
        )


def _owners(waiting: Waiting, value: KnownTransactions) -> list[str]:
    """The transactional ids that hold back the partitions at which a group waits."""
    firsts = [held.first for place in sorted(waiting.places) if (held := value.held.get(place)) is not None]
    owners = [value.of_producer(each.producer_id) for each in firsts if each is not None]
    return list(dict.fromkeys(each.name for each in owners if each is not None and each.is_open))


def _places(groups: Sequence[Waiting]) -> list[str]:
    return [str(place) for place in sorted({place for each in groups for place in each.places})]


def _late(late: Sequence[Transaction], rule: Rule) -> Finding:
    first, one = late[0], len(late) == 1
    names = _few([f"{each.name} ({each.state})" for each in late])
    return Finding(
        level=Level.WARN,
        what=f"The transaction of {first.name} does not end" if one else f"{len(late)} transactions do not end",
        why=f"{rule.value}: {names}",
        step=_STEPS[rule],
        path=f"/transactions/id/{quote(first.name, safe='')}" if one else PROBLEMS,
    )


_STEPS = {
    Rule.STUCK: "Look for partitions without a leader: their markers are written when they have one again",
    Rule.OVERDUE: "Look at the log of its coordinator, or abort the transaction on its page",
}


def _waiting(groups: Sequence[str]) -> str:
    if not groups:
        return ""
    who, wait = ("Group", "waits") if len(groups) == 1 else ("Groups", "wait")
    return f". {who} {_few(groups)} {wait} for it"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
