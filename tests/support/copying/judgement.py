"""Compares a copy with its original, record by record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Copied:
    """A record of the copy. Its copier names the transaction, and how many records the transaction has."""

    partition: int
    value: bytes
    transaction: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    records: int
    transactions: int
    missing: tuple[tuple[int, bytes], ...]
    duplicates: tuple[tuple[int, bytes], ...]
    # The first record of each partition that is not the next one of the original.
    misplaced: tuple[tuple[int, bytes], ...]
    # Transactions of which a reader sees a part.
    torn: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.duplicates or self.misplaced or self.torn)

    def __str__(self) -> str:
        return (
            f"{self.records} records in {self.transactions} transactions, {len(self.missing)} missing, "
            f"{len(self.duplicates)} duplicates, {len(self.misplaced)} partitions out of order, {len(self.torn)} torn"
        )


def judge(original: Mapping[int, Sequence[bytes]], copy: Iterable[Copied]) -> Judgement:
    """`original` has the values of each partition in their order; `copy` is what a read_committed consumer got."""
    copied = list(copy)
    wanted = Counter((partition, value) for partition, values in original.items() for value in values)
    found = Counter((record.partition, record.value) for record in copied)
    sizes = {record.transaction: record.size for record in copied}
    seen = Counter(record.transaction for record in copied)
    return Judgement(
        records=wanted.total(),
        transactions=len(sizes),
        missing=tuple((wanted - found).elements()),
        duplicates=tuple((found - wanted).elements()),
        misplaced=tuple(_misplaced(original, copied)),
        torn=tuple(name for name, size in sizes.items() if seen[name] != size),
    )


def _misplaced(original: Mapping[int, Sequence[bytes]], copied: Sequence[Copied]) -> Iterable[tuple[int, bytes]]:
    for partition, values in original.items():
        place = {value: index for index, value in enumerate(values)}
        last = -1
        for record in copied:
            if record.partition == partition and record.value in place:
                if place[record.value] < last:
                    yield partition, record.value
                    break
                last = place[record.value]
