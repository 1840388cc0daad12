from __future__ import annotations

from odradek.coordinator.due import Due


def test_keys_are_taken_in_the_order_in_which_they_are_due():
    deadlines = {"late": 30, "early": 10, "later": 31}
    due = Due(deadlines.get)
    for key in deadlines:
        due.put(key)
    due.put("never")
    assert not due.may_have(9)
    assert due.take(30, 10) == ["early", "late"]
    assert due.take(30, 10) == []


def test_a_key_that_was_postponed_is_taken_when_it_is_due_and_once():
    deadlines = {"a": 10}
    due = Due(deadlines.get)
    due.put("a")
    deadlines["a"] = 50
    due.put("a")
    assert due.take(49, 10) == []
    assert due.take(50, 10) == ["a"]
    assert not due.may_have(1000)


def test_a_key_may_become_due_earlier_or_never():
    deadlines = {"earlier": 50, "gone": 20}
    due = Due(deadlines.get)
    for key in deadlines:
        due.put(key)
    deadlines["earlier"] = 10
    due.put("earlier")
    del deadlines["gone"]
    assert due.take(60, 10) == ["earlier"]
    assert not due.may_have(1000)


def test_a_key_that_was_put_back_is_taken_again():
    due = Due({"a": 10}.get)
    due.put("a")
    assert due.take(10, 1) == ["a"]
    due.put("a")
    assert due.take(10, 1) == ["a"]


def test_no_more_keys_are_looked_at_than_asked_for_and_none_that_cannot_be_due():
    looked: list[int] = []
    deadlines = dict.fromkeys(range(1000), 10)

    def due_ms(key: int) -> int:
        looked.append(key)
        return deadlines[key]

    due = Due(due_ms)
    for key in deadlines:
        due.put(key)
    deadlines = dict.fromkeys(range(990), 1000) | dict.fromkeys(range(990, 1000), 10)
    looked.clear()
    found: list[int] = []
    while due.may_have(10):
        found += due.take(10, 100)
        assert len(set(looked)) <= 100
        looked.clear()
    assert found == list(range(990, 1000))
    assert due.take(999, 100) == []
    assert looked == []
