"""Transactions as the clients saw them, and what that promises: T1 to T8 from the history.

A transaction counts as committed when its EndTxn was answered, as aborted when no commit was ever sent or every commit
was refused, and as undecided otherwise. An undecided one must be visible as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from odradek.sim.history import Place, Violation
from odradek.sim.keyed import is_compacted, key_of, latest_by_key
from odradek.sim.on_disk import StoredLog

Identity = tuple[int, int]
"""Producer id and epoch."""


class Given(NamedTuple):
    identity: Identity
    # How many identities had been given when this one was asked for: it is newer than those.
    known: int

    def is_of(self, other: Identity) -> bool:
        return self.identity[0] == other[0]


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNDECIDED = "undecided"


@dataclass(slots=True, kw_only=True, eq=False)
class SeenTransaction:
    """One transaction, by the client that made it."""

    transactional_id: str
    producer: Identity
    name: str
    # What it sent, in order, by partition.
    values: dict[Place, list[bytes]] = field(default_factory=dict)
    # Where each of its records was acknowledged.
    offsets: dict[bytes, int] = field(default_factory=dict)
    # Where the first batch of it was acknowledged, by partition.
    acked_at: dict[Place, int] = field(default_factory=dict)
    # By partition: the highest last stable offset that any reader had seen when the commit was first sent.
    stable_before_commit: dict[Place, int] = field(default_factory=dict)
    commit_sent: bool = False
    commit_answered: bool = False
    # A commit was sent and its fate is unknown.
    commit_in_doubt: bool = False
    # A request of an earlier transaction was sent again while this one was open.
    echoed: bool = False
    # Another producer with this transactional id had got its epoch before this one sent its first record.
    replaced: bool = False
    # Offsets of the group that it commits: the next input offset before and after.
    consumed: tuple[int, int] | None = None

    @property
    def outcome(self) -> Outcome:
        if self.commit_answered:
            return Outcome.COMMITTED
        return Outcome.UNDECIDED if self.commit_in_doubt else Outcome.ABORTED

    def sends(self, place: Place, values: Iterable[bytes]) -> None:
        self.values.setdefault(place, []).extend(values)

    def all_values(self) -> list[tuple[Place, bytes]]:
        return [(place, value) for place, values in self.values.items() for value in values]


@dataclass(slots=True)
class TransactionHistory:
    transactions: list[SeenTransaction] = field(default_factory=list)
    # What readers with read_committed got: by partition, the value at each offset.
    read: dict[Place, dict[int, bytes]] = field(default_factory=dict)
    # The highest last stable offset that any reader was answered.
    stable: dict[Place, int] = field(default_factory=dict)
    # By transactional id: every identity that a producer was given, in the order of the answers.
    _given: dict[str, list[Given]] = field(default_factory=dict)
    _producer_ids: dict[int, str] = field(default_factory=dict)

    def begins(self, transactional_id: str, producer: Identity, name: str) -> SeenTransaction:
        transaction = SeenTransaction(transactional_id=transactional_id, producer=producer, name=name)
        self.transactions.append(transaction)
        return transaction

    # Producers

    def known(self, transactional_id: str) -> int:
        """How many identities were given so far: for a request that is sent now."""
        return len(self._given.get(transactional_id, ()))

    def given(self, transactional_id: str, identity: Identity, known: int) -> None:
        """T8: each identity is given once, and is newer than those that were given before it was asked for."""
        before = self._given.setdefault(transactional_id, [])
        owner = self._producer_ids.setdefault(identity[0], transactional_id)
        if owner != transactional_id:
            raise Violation(f"T8 producer id {identity[0]} of {owner} was given to {transactional_id}")
        if any(each.identity == identity for each in before):
            raise Violation(f"T8 {transactional_id} was given (producer id, epoch) {identity} twice")
        older = [each.identity for each in before[:known] if each.is_of(identity) and each.identity > identity]
        if older:
            raise Violation(f"T8 {transactional_id} was given epoch {identity} after {older[-1]}")
        before.append(Given(identity, known))

    def is_replaced(self, transactional_id: str, identity: Identity) -> bool:
        """Whether a later identity of this transactional id is known to have been given to a producer."""
        before = self._given.get(transactional_id, [])
        place = next((index for index, each in enumerate(before) if each.identity == identity), len(before))
        return any(each.identity > identity if each.is_of(identity) else each.known > place for each in before)

    # Ends

    def sends_commit(self, transaction: SeenTransaction) -> None:
        if not transaction.commit_sent:
            transaction.stable_before_commit = {place: self.stable.get(place, 0) for place in transaction.acked_at}
        transaction.commit_sent = True

    def committed(self, transaction: SeenTransaction) -> None:
        transaction.commit_answered = True
        check_held_back(transaction)

    # Readers

    def answered(self, place: Place, last_stable_offset: int) -> None:
        self.stable[place] = max(last_stable_offset, self.stable.get(place, 0))

    def polled(self, place: Place, records: Iterable[tuple[int, bytes]]) -> None:
        seen = self.read.setdefault(place, {})
        for offset, value in records:
            if seen.setdefault(offset, value) != value:
                raise Violation(f"J2 {place} offset {offset} was {seen[offset]!r} and is read as {value!r}")


def check_held_back(transaction: SeenTransaction) -> None:
    """T3: while a transaction was open that committed later, no reader saw a last stable offset behind its records."""
    for place, stable in transaction.stable_before_commit.items():
        if stable > transaction.acked_at[place]:
            raise Violation(
                f"T3 {transaction.name} was open at {transaction.acked_at[place]} of {place}, and the last stable "
                f"offset was {stable} already"
            )


def check_transactions(history: TransactionHistory, final: Mapping[Place, Mapping[int, bytes]]) -> None:
    """T1, T2, T4, T5, T6. `final`: what a reader with read_committed finds when all is quiet."""
    owners = {value: each for each in history.transactions for _, value in each.all_values()}
    for place, read in history.read.items():
        for offset, value in read.items():
            transaction = owners[value]
            if transaction.outcome is Outcome.ABORTED:
                raise _aborted_is_visible(transaction, place, offset)
            if not _is_compacted(place) and final[place].get(offset) != value:
                raise Violation(
                    f"J1 {place} offset {offset}: {value!r} was read, in the end {final[place].get(offset)!r}"
                )
    found: dict[bytes, tuple[Place, int]] = {}
    for place, content in final.items():
        for offset, value in content.items():
            if value in found:
                raise Violation(f"J3 {value!r} is at {found[value]} and at {(place, offset)}")
            if value not in owners:
                raise Violation(f"J5 {value!r} was read from {place} and never sent there")
            found[value] = (place, offset)
    for transaction in history.transactions:
        _check_atomic(transaction, found)
    for place, content in final.items():
        if _is_compacted(place):
            check_compacted_transactions(history, place, content, found)


def check_compacted_transactions(
    history: TransactionHistory, place: Place, content: Mapping[int, bytes], found: Mapping[bytes, object]
) -> None:
    """L6: the latest committed record of each key is left: no aborted record has replaced it."""
    latest = latest_by_key(content)
    for transaction in history.transactions:
        elsewhere = [value for where, value in transaction.all_values() if not _is_compacted(where)]
        if transaction.outcome is not Outcome.COMMITTED and not any(value in found for value in elsewhere):
            continue
        for value in transaction.values.get(place, ()):
            offset = transaction.offsets.get(value, -1)
            if latest.get(key_of(value), -1) < offset:
                left = content.get(latest.get(key_of(value), -1))
                raise Violation(
                    f"L6 {place} lacks {value!r} at {offset} of {transaction.name}, which committed: {left!r}"
                )


def _is_compacted(place: Place) -> bool:
    return is_compacted(f"{place[0]}-{place[1]}")


def _check_atomic(transaction: SeenTransaction, found: Mapping[bytes, tuple[Place, int]]) -> None:
    # Compaction may take some of them; `check_compacted_transactions` says which not.
    sent = [(place, value) for place, value in transaction.all_values() if not _is_compacted(place)]
    compacted = [value for place, value in transaction.all_values() if _is_compacted(place) and value in found]
    visible = [(place, value) for place, value in sent if value in found]
    if transaction.outcome is Outcome.ABORTED and (visible or compacted):
        raise _aborted_is_visible(transaction, *found[visible[0][1] if visible else compacted[0]])
    if compacted and sent and not visible:
        raise Violation(f"T1 {transaction.name}: {compacted[0]!r} is visible and none of its {len(sent)} other records")
    if transaction.outcome is Outcome.COMMITTED and sent and not visible:
        raise Violation(f"T6 {transaction.name} was committed, and none of its {len(sent)} records is visible")
    if visible and len(visible) < len(sent):
        missing = [value for _, value in sent if value not in found]
        raise Violation(
            f"T1 {transaction.name} is {transaction.outcome.value}: {len(visible)} of {len(sent)} records are visible, "
            f"not {missing[0]!r}"
        )
    for place, values in transaction.values.items():
        places = [found[value] for value in values if value in found and not _is_compacted(place)]
        if any(where[0] != place for where in places) or [where[1] for where in places] != sorted(
            where[1] for where in places
        ):
            raise Violation(f"T1 {transaction.name}: the records in {place} are out of order: {places}")
    if visible:
        check_held_back(transaction)


def _aborted_is_visible(transaction: SeenTransaction, place: Place, offset: int) -> Violation:
    what = f"{transaction.name} did not commit, and its record at {offset} of {place} is visible"
    if transaction.replaced:
        return Violation(f"T4 {what}: another producer had replaced this one before")
    if transaction.echoed:
        return Violation(f"T5 {what}: a request of the transaction before it arrived while it was open")
    return Violation(f"T2 {what}")


def check_copies(
    history: TransactionHistory, copied: Iterable[int], committed: int, *, input_of: str = "the input"
) -> None:
    """T7: the offsets that a group committed in transactions moved with the records of these transactions.

    `copied`: the input offset of each visible copy. `committed`: the group's offset in the end, 0 without any.
    """
    counts: dict[int, int] = {}
    for offset in copied:
        counts[offset] = counts.get(offset, 0) + 1
    twice = sorted(offset for offset, count in counts.items() if count > 1)
    if twice:
        raise Violation(f"T7 the records at {twice[:5]} of {input_of} were copied and committed twice")
    ahead = sorted(offset for offset in counts if offset >= committed)
    if ahead:
        raise Violation(f"T7 copies of {ahead[:5]} of {input_of} are visible, and the group committed {committed}")
    lost = sorted(set(range(committed)) - set(counts))
    if lost:
        raise Violation(f"T7 the group committed {committed}, and there are no copies of {lost[:5]} of {input_of}")
    acknowledged = [
        each.consumed[1]
        for each in history.transactions
        if each.consumed is not None and each.outcome is Outcome.COMMITTED
    ]
    if acknowledged and max(acknowledged) > committed:
        raise Violation(f"T7 a transaction committed offset {max(acknowledged)}, and the group has {committed}")


def check_markers(logs: Mapping[str, StoredLog], producer_ids: Iterable[int]) -> None:
    """T1 on the disks: all markers of a transaction agree. `producer_ids`: those with an epoch for each transaction."""
    judged = set(producer_ids)
    outcomes: dict[Identity, tuple[bool, str]] = {}
    for directory, stored in logs.items():
        for batch in stored.batches:
            committed = batch.commits() if batch.is_control and batch.producer_id in judged else None
            if committed is None:
                continue
            identity = (batch.producer_id, batch.producer_epoch)
            known, where = outcomes.setdefault(identity, (committed, directory))
            if known != committed:
                raise Violation(f"T1 the markers of {identity} in {where} and {directory} disagree")
