"""The checkers of transactions notice what they are there for."""

from __future__ import annotations

import pytest

from odradek.sim.history import Violation
from odradek.sim.transactions import TransactionHistory, check_copies, check_transactions

A, B, ACCOUNT = ("booked", 0), ("booked", 1), ("accounts", 0)
PRODUCER = (7, 0)


@pytest.fixture
def history():
    return TransactionHistory()


def transaction(history, *, commits=None, **changes):
    """One record in each of two partitions. `commits`: True if answered, False if only sent, None if never sent."""
    number = len(history.transactions)
    seen = history.begins("id", PRODUCER, f"transaction {number}")
    for place in (A, B):
        seen.sends(place, [b"%d in %d" % (number, place[1])])
    if commits is not None:
        history.sends_commit(seen)
        seen.commit_in_doubt = True
    if commits:
        history.committed(seen)
    for name, value in changes.items():
        setattr(seen, name, value)
    return seen


def violation(history, final):
    with pytest.raises(Violation) as found:
        check_transactions(history, final)
    return str(found.value).split()[0]


def test_whole_and_absent_transactions_pass(history):
    transaction(history, commits=True)
    transaction(history, commits=False)
    transaction(history)
    check_transactions(history, {A: {0: b"0 in 0", 2: b"1 in 0"}, B: {0: b"0 in 1", 2: b"1 in 1"}})
    check_transactions(history, {A: {0: b"0 in 0"}, B: {0: b"0 in 1"}})


@pytest.mark.parametrize("commits", [True, False])
def test_t1_half_of_a_transaction_is_visible(history, commits):
    transaction(history, commits=commits)
    assert violation(history, {A: {0: b"0 in 0"}, B: {}}) == "T1"


def test_t1_records_are_out_of_order(history):
    transaction(history, commits=True).sends(A, [b"next"])
    assert violation(history, {A: {0: b"next", 1: b"0 in 0"}, B: {0: b"0 in 1"}}) == "T1"


@pytest.mark.parametrize(
    ("changes", "name"), [({}, "T2"), ({"replaced": True}, "T4"), ({"echoed": True}, "T5")], ids=["T2", "T4", "T5"]
)
def test_record_of_a_transaction_that_never_committed_is_visible(history, changes, name):
    transaction(history, **changes)
    assert violation(history, {A: {0: b"0 in 0"}, B: {0: b"0 in 1"}}) == name


def test_t2_reader_saw_an_aborted_record_that_is_hidden_later(history):
    transaction(history)
    history.polled(A, [(0, b"0 in 0")])
    assert violation(history, {A: {}, B: {}}) == "T2"


def test_t3_last_stable_offset_passed_an_open_transaction(history):
    seen = transaction(history, acked_at={A: 3})
    history.answered(A, 4)
    history.sends_commit(seen)
    with pytest.raises(Violation, match="T3"):
        history.committed(seen)


def balance(history, offset, **changes):
    """A transaction that sets the balance of one account, at this offset."""
    seen = transaction(history, **changes)
    value = b"k=%d@0" % offset
    seen.sends(ACCOUNT, [value])
    seen.offsets[value] = offset
    return value


def everywhere(history, **balances):
    content = {A: {}, B: {}, ACCOUNT: balances.get("left", {})}
    for number, each in enumerate(history.transactions):
        if each.commit_answered:
            content[A][number], content[B][number] = b"%d in 0" % number, b"%d in 1" % number
    return content


def test_only_the_latest_committed_balance_has_to_be_left(history):
    balance(history, 0, commits=True)
    latest = balance(history, 3, commits=True)
    balance(history, 6)
    check_transactions(history, everywhere(history, left={3: latest}))


def test_l6_compaction_removed_the_latest_committed_balance(history):
    kept = balance(history, 0, commits=True)
    balance(history, 3, commits=True)
    assert violation(history, everywhere(history, left={0: kept})) == "L6"


def test_t2_balance_of_an_aborted_transaction_is_visible(history):
    aborted = balance(history, 0)
    assert violation(history, everywhere(history, left={0: aborted})) == "T2"


def test_t1_balance_is_visible_without_the_other_records_of_its_transaction(history):
    seen = balance(history, 0, commits=False)
    assert violation(history, everywhere(history, left={0: seen})) == "T1"


def test_t6_committed_transaction_is_gone(history):
    transaction(history, commits=True)
    assert violation(history, {A: {}, B: {}}) == "T6"


@pytest.mark.parametrize(
    ("copied", "committed"),
    [((0, 1, 1), 2), ((0, 1, 2), 2), ((0,), 2)],
    ids=["copied twice", "records without their offset", "offset without its records"],
)
def test_t7_offsets_and_records_of_a_transaction_disagree(history, copied, committed):
    check_copies(history, (0, 1), 2)
    with pytest.raises(Violation, match="T7"):
        check_copies(history, copied, committed)


def test_t8_epoch_is_given_twice_or_goes_back(history):
    history.given("id", (7, 3), 0)
    with pytest.raises(Violation, match="T8"):
        history.given("id", (7, 3), 1)
    with pytest.raises(Violation, match="T8"):
        history.given("id", (7, 2), 1)
    with pytest.raises(Violation, match="T8"):
        history.given("other", (7, 4), 0)


def test_late_answer_with_an_older_epoch_is_no_violation_and_replaces_nothing(history):
    history.given("id", (7, 3), 0)
    history.given("id", (7, 2), 0)
    assert history.is_replaced("id", (7, 2))
    assert not history.is_replaced("id", (7, 3))
    history.given("id", (8, 0), 2)
    assert history.is_replaced("id", (7, 3))
