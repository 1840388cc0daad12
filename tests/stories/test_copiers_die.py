"""Copiers and brokers are killed while a topic is copied in transactions: the copy has every record exactly once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.copying.judgement import Copied, judge
from support.copying.ordeal import in_python, require_exact, run

pytestmark = [pytest.mark.stories, pytest.mark.timeout(300)]
ORIGINAL = {0: [b"0", b"2", b"4"], 1: [b"1", b"3"]}
COPY = [
    Copied(0, b"0", "first", 2),
    Copied(1, b"1", "first", 2),
    Copied(0, b"2", "second", 3),
    Copied(0, b"4", "second", 3),
    Copied(1, b"3", "second", 3),
]


def test_copy_equals_the_original_when_copiers_and_brokers_die(tell: Callable[[str], None]) -> None:
    require_exact(run(in_python("confluent_kafka"), seconds=12, seed=1), tell)


def test_exact_copy_is_accepted() -> None:
    assert judge(ORIGINAL, COPY).is_exact


def test_missing_record_and_its_torn_transaction_are_found() -> None:
    judged = judge(ORIGINAL, COPY[:3] + COPY[4:])
    assert (judged.missing, judged.torn, judged.is_exact) == (((0, b"4"),), ("second",), False)


def test_duplicate_is_found() -> None:
    judged = judge(ORIGINAL, [*COPY, Copied(1, b"3", "third", 1)])
    assert (judged.duplicates, judged.torn, judged.is_exact) == (((1, b"3"),), (), False)


def test_wrong_order_in_a_partition_is_found() -> None:
    judged = judge(ORIGINAL, [*COPY[:2], COPY[3], COPY[2], COPY[4]])
    assert (judged.misplaced, judged.missing, judged.duplicates) == (((0, b"2"),), (), ())
    assert not judged.is_exact
