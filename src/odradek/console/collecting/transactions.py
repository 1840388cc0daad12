"""Transactions of the cluster: what coordinators know, and what is open in partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.client.transaction_requests import (
    IDLE,
    OLD_MS,
    Listed,
    Open,
    TransactionRefused,
    Transactions,
    partitions_of,
)
from odradek.client.wire import NoAnswer
from odradek.console.collecting import figures
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.snapshot import Snapshot, Topic
from odradek.monitor.lag.cluster_lag import GroupLag, PartitionLag
from odradek.monitor.lag.evaluation import Status
from odradek.protocol.messages.p65_describe_transactions import TransactionState
from odradek.watch.watched_cluster import now_ms

STATE_TOPIC = "__transaction_state"
EVERY_S = 5.0
# Last stable offsets are read less often, and never for more than this share of the time.
HELD_EVERY_S, HELD_SHARE_MAX = 5.0, 0.05
# A page waits this long for a coordinator that is busy.
PATIENCE_S = 4.0
IDS_MAX = 20_000
# Of so many ids the partitions and the epoch are read, open transactions first.
DESCRIBED_MAX, DESCRIBED_AT_ONCE = 2_000, 250
HELD_MAX = 1_000
# A coordinator looks every few seconds for transactions whose time is over, and writes markers at once.
LATE_MS = 60_000
# Markers have offsets, too: a consumer that has read everything commits the offset after its last record.
MARKERS_MAX = 10
GROUPS_MAX = 200

Evaluate = Callable[[str], GroupLag | None]


class Rule(Enum):
    """Why a transaction needs a person."""

    HANGING = "No coordinator knows it, and it had no record for 15 minutes: it will not end by itself"
    OVERDUE = "It is open for longer than its timeout, but its coordinator has not aborted it"
    STUCK = "It is decided, but for more than a minute markers cannot be written to all its partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The last transaction of a transactional id, as its coordinator knows it."""

    name: str
    state: str
    producer_id: int
    coordinator: int
    since_ms: int  # when the console saw it in this state for the first time
    # Known if the transaction was described:
    epoch: int | None = None
    timeout_ms: int | None = None
    started_ms: int | None = None  # None if nothing is open
    places: tuple[TopicPartition, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.state not in IDLE

    @property
    def is_ending(self) -> bool:
        return self.state.startswith("Prepare")

    def open_ms(self, at_ms: int) -> int | None:
        return max(at_ms - self.started_ms, 0) if self.is_open and self.started_ms is not None else None

    def rule(self, at_ms: int) -> Rule | None:
        open_ms = self.open_ms(at_ms)
        if self.is_ending:
            return Rule.STUCK if at_ms - self.since_ms > LATE_MS else None
        if open_ms is not None and self.timeout_ms is not None and open_ms > self.timeout_ms + LATE_MS:
            return Rule.OVERDUE
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A partition of which read_committed consumers cannot read the end."""

    partition: TopicPartition
    stable: int  # the last stable offset
    end: int
    open: tuple[Open, ...] = ()  # by their first offset

    @property
    def first(self) -> Open | None:
        """The transaction that holds the last stable offset back."""
        return self.open[0] if self.open else None

    @property
    def records(self) -> int:
        """How many wait, of other transactions, too. Markers count."""
        return self.end - self.stable


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A group that has read everything up to a last stable offset, and lags behind the end."""

    group: str
    places: frozenset[TopicPartition]
    # It lags nowhere else, so open transactions are the only reason.
    is_explained: bool
    is_unwell: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hanging:
    open: Open
    owner: str  # the transactional id that its producer has now; empty if no coordinator knows it
    held: Held

    @property
    def path(self) -> str:
        where = self.open.partition
        return f"/transactions/at/{where.topic}/{where.partition}/{self.open.start_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTransactions:
    at_ms: int
    by_name: Mapping[str, Transaction] = field(default_factory=dict)
    total: int = 0  # of transactional ids; more than IDS_MAX are counted only
    hanging: tuple[Hanging, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    held: Mapping[TopicPartition, Held] = field(default_factory=dict)
    held_total: int = 0
    # What could not be read, as sentences.
    problems: tuple[str, ...] = ()

    def groups_at(self, place: TopicPartition) -> list[str]:
        """Groups that wait at the last stable offset of this partition."""
        return [each.group for each in self.waiting if place in each.places]

    def of_producer(self, producer_id: int) -> Transaction | None:
        return next((each for each in self.by_name.values() if each.producer_id == producer_id), None)


class TransactionReader:
    """What the transactions page shows, read once for all visitors. `evaluate` gives the lag of a group."""

    def __init__(self, cluster: Cluster, evaluate: Evaluate) -> None:
        self._cluster = cluster
        self._evaluate = evaluate
        self._requests = Transactions(cluster, within_s=PATIENCE_S)
        self._last: KnownTransactions | None = None
        self._held_due_s = 0.0
        self._held: dict[TopicPartition, Held] = {}
        self._held_total = 0
        self._hanging: tuple[Hanging, ...] = ()
        self._waiting: tuple[Waiting, ...] = ()

    def read(self, snapshot: Snapshot) -> KnownTransactions | None:
        """None for a cluster that never had a transaction, or that cannot list them."""
        if STATE_TOPIC not in snapshot.topics or snapshot.problem is not None:
            return self._last if STATE_TOPIC in snapshot.topics else None
        alive = [each.broker_id for each in snapshot.brokers if each.is_alive]
        listed, problems = self._listed(alive)
        if not listed and len(problems) == len(alive):
            raise NoAnswer("; ".join(problems))
        before = self._last.by_name if self._last is not None else {}
        kept = sorted(listed, key=lambda each: (each.state in IDLE, each.transactional_id))[:IDS_MAX]
        known = self._described(kept, before)
        if time.monotonic() >= self._held_due_s:
            problems += self._look_at_partitions(snapshot, alive)
        self._last = KnownTransactions(
            at_ms=now_ms(),
            by_name={each.name: each for each in known},
            total=len(listed),
            hanging=self._hanging,
            waiting=self._waiting,
            held=self._held,
            held_total=self._held_total,
            problems=tuple(problems),
        )
        return self._last

    def _listed(self, alive: Sequence[int]) -> tuple[list[Listed], list[str]]:
        def ask(broker: int) -> list[Listed] | str:
            try:
                return self._requests.listed_by(broker)
            except (NoAnswer, TransactionRefused) as failed:
                return f"Broker {broker}: {failed}"

        answers = self._cluster.each(alive, ask).values()
        found = [each for answer in answers if isinstance(answer, list) for each in answer]
        return found, [each for each in answers if isinstance(each, str)]

    def _described(self, listed: Sequence[Listed], before: Mapping[str, Transaction]) -> list[Transaction]:
        details: dict[str, TransactionState] = {}
        by_coordinator: dict[int, list[str]] = {}
        for each in listed[:DESCRIBED_MAX]:
            by_coordinator.setdefault(each.coordinator, []).append(each.transactional_id)

        def ask(coordinator: int) -> list[TransactionState]:
            return [
                state
                for first in range(0, len(by_coordinator[coordinator]), DESCRIBED_AT_ONCE)
                for state in self._requests.described_by(
                    coordinator, by_coordinator[coordinator][first : first + DESCRIBED_AT_ONCE]
                )
            ]

        for answer in self._cluster.each(by_coordinator, ask).values():
            if not isinstance(answer, NoAnswer):
                details |= {each.transactional_id: each for each in answer if each.error_code == ErrorCode.NONE}
        at_ms = now_ms()
        return [
            transaction(each, details.get(each.transactional_id), before.get(each.transactional_id), at_ms)
            for each in listed
        ]

    def _look_at_partitions(self, snapshot: Snapshot, alive: Sequence[int]) -> list[str]:
        began_s = time.monotonic()
        found = read_held(self._cluster, snapshot.topics, alive, snapshot.ends)
        self._held_total = len(found)
        # The lowest offsets first: the longer a transaction is open, the more came after it.
        chosen = sorted(found.values(), key=lambda each: -each.records)[:HELD_MAX]
        self._held, problems = with_open(self._cluster, self._requests, snapshot, chosen)
        self._waiting = waiting(snapshot, self._held, self._evaluate)
        if coordinators_answer(snapshot):
            self._hanging = self._find_hanging(alive)
        took_s = time.monotonic() - began_s
        self._held_due_s = time.monotonic() + max(HELD_EVERY_S, took_s / HELD_SHARE_MAX)
        return problems

    def _find_hanging(self, alive: Sequence[int]) -> tuple[Hanging, ...]:
        at_ms = now_ms()
        old = [each for held in self._held.values() for each in held.open if at_ms - each.last_ms >= OLD_MS]
        try:
            found = self._requests.hanging(alive, old)
            owners = self._requests.owners(alive, found)
        except (NoAnswer, TransactionRefused):
            return self._hanging
        return tuple(
            Hanging(
                open=each,
                owner=owners[each.producer_id].transactional_id if each.producer_id in owners else "",
                held=self._held[each.partition],
            )
            for each in found
        )


def transaction(listed: Listed, state: TransactionState | None, was: Transaction | None, at_ms: int) -> Transaction:
    is_same = was is not None and (was.state, was.producer_id) == (listed.state, listed.producer_id)
    known = Transaction(
        name=listed.transactional_id,
        state=listed.state,
        producer_id=listed.producer_id,
        coordinator=listed.coordinator,
        since_ms=was.since_ms if was is not None and is_same else at_ms,
    )
    return known if state is None else described(known, state)


def described(known: Transaction, state: TransactionState) -> Transaction:
    is_open = state.transaction_state not in IDLE
    return Transaction(
        name=known.name,
        state=state.transaction_state,
        producer_id=state.producer_id,
        coordinator=known.coordinator,
        since_ms=known.since_ms,
        epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        started_ms=state.transaction_start_time_ms if is_open and state.transaction_start_time_ms > 0 else None,
        places=tuple(sorted(partitions_of(state))),
    )


def coordinators_answer(snapshot: Snapshot) -> bool:
    """Without one of them, transactions that it knows would look like hanging ones."""
    alive = {each.broker_id for each in snapshot.brokers if each.is_alive}
    return all(each.leader in alive for each in snapshot.topics[STATE_TOPIC].partitions)


def read_held(
    cluster: Cluster, topics: Mapping[str, Topic], alive: Sequence[int], ends: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, Held]:
    """`ends` must be older than this call: records that came since then hold nothing back."""
    stable = figures.read_offsets(cluster, topics, alive, figures.LATEST, figures.READ_COMMITTED)
    return {
        TopicPartition(topic, index): Held(partition=TopicPartition(topic, index), stable=offset, end=end)
        for topic, offsets in stable.items()
        for index, (offset, end) in enumerate(zip(offsets, ends.get(topic, ()), strict=False))
        if 0 <= offset < end
    }


def with_open(
    cluster: Cluster, requests: Transactions, snapshot: Snapshot, found: Iterable[Held]
) -> tuple[dict[TopicPartition, Held], list[str]]:
    """The same partitions with their open transactions, and what could not be read."""
    held = {each.partition: each for each in found}
    by_leader: dict[int, list[TopicPartition]] = {}
    for place in held:
        by_leader.setdefault(snapshot.topics[place.topic].partitions[place.partition].leader, []).append(place)
    opened: dict[TopicPartition, list[Open]] = {}
    problems = []
    answers = cluster.each(by_leader, lambda leader: requests.open_at(leader, by_leader[leader]))
    for leader, answer in answers.items():
        if isinstance(answer, NoAnswer):
            problems.append(f"Broker {leader} does not describe its producers: {answer}")
        else:
            for each in answer[0]:
                opened.setdefault(each.partition, []).append(each)
    return {
        place: Held(
            partition=place,
            stable=each.stable,
            end=each.end,
            open=tuple(sorted(opened.get(place, ()), key=lambda one: one.start_offset)),
        )
        for place, each in held.items()
    }, problems


def waiting(snapshot: Snapshot, held: Mapping[TopicPartition, Held], evaluate: Evaluate) -> tuple[Waiting, ...]:
    topics = {place.topic for place in held}
    behind = [each for each in snapshot.groups.values() if each.lag and topics & {*each.lag.lag_by_topic}]
    found = []
    for group in behind[:GROUPS_MAX]:
        lag = evaluate(group.name)
        lagging = [each for each in lag.partitions if each.current_lag] if lag is not None else []
        places = {
            place
            for each in lagging
            if (place := TopicPartition(each.topic, each.partition)) in held and _waits(each, held[place])
        }
        if places:
            found.append(
                Waiting(
                    group=group.name,
                    places=frozenset(places),
                    is_explained=len(places) == len(lagging),
                    is_unwell=group.rule is not Status.OK,
                )
            )
    return tuple(found)


def _waits(lag: PartitionLag, held: Held) -> bool:
    return bool(lag.commits) and held.stable - MARKERS_MAX <= lag.commits[-1].offset <= held.stable
