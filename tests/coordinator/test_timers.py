from __future__ import annotations

from odradek.coordinator.timers import Timers


def test_timers_fire_in_order_and_once():
    timers: Timers[str] = Timers()
    timers.set("late", 30)
    timers.set("early", 10)
    timers.set("also early", 10)
    assert timers.due(9, 10) == []
    assert timers.due(30, 10) == ["early", "also early", "late"]
    assert timers.due(100, 10) == []
    assert timers.next_wakeup() is None


def test_a_timer_may_be_moved_both_ways_and_cancelled():
    timers: Timers[str] = Timers()
    timers.set("back", 10)
    timers.set("back", 50)
    timers.set("forth", 50)
    timers.set("forth", 20)
    timers.set("never", 10)
    timers.cancel("never")
    assert timers.due(20, 10) == ["forth"]
    assert timers.due(49, 10) == []
    assert timers.due(50, 10) == ["back"]


def test_a_cancelled_timer_can_be_set_again():
    timers: Timers[str] = Timers()
    timers.set("a", 10)
    timers.cancel("a")
    timers.set("a", 30)
    assert timers.due(20, 10) == []
    assert timers.due(30, 10) == ["a"]


def test_heartbeats_do_not_grow_the_heap():
    timers: Timers[str] = Timers()
    for at in range(10, 10_000):
        timers.set("member", at)
    assert len(timers._heap) == 1
    assert timers.due(9998, 10) == []
    assert timers.next_wakeup() == 9999


def test_no_more_fire_at_a_time_than_asked_for():
    timers: Timers[int] = Timers()
    for number in range(5):
        timers.set(number, 10)
    assert timers.due(10, 3) == [0, 1, 2]
    assert timers.due(10, 3) == [3, 4]
