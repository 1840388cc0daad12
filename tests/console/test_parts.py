"""What single pages need: read beside the snapshot, never delaying it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from console.snapshots import healthy
from odradek.console.collecting.parts import Part, Parts
from odradek.console.collecting.snapshot import Event, EventKind
from odradek.console.finding import Finding, Level
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from support.waiting import wait_until


@pytest.fixture
def parts() -> Iterator[Parts]:
    parts = Parts()
    yield parts
    parts.close()


def part(read: Callable[[], object | None]) -> Part:
    return Part(
        name="connectors",
        every_s=0.0,
        read=lambda _: read(),
        findings=lambda value: [Finding(level=Level.WARN, what=str(value), why="", step="")],
        events=lambda before, now: (
            [Event(at_ms=0, kind=EventKind.TOPIC, level="info", text=f"{before} to {now}")] if before != now else []
        ),
    )


def values(parts: Parts) -> dict[str, object]:
    return parts.turn(healthy())[0]


def test_a_value_comes_with_its_findings_and_its_changes_are_events(parts):
    current = "one"
    parts.add([part(lambda: current)])
    wait_until(lambda: values(parts) == {"connectors": "one"}, "the first value")
    current = "two"
    told: list[str] = []

    def changed() -> bool:
        found, findings, events = parts.turn(healthy())
        told.extend(each.text for each in events)
        return found == {"connectors": "two"} and [each.what for each in findings] == ["two"]

    wait_until(changed, "the second value")
    assert told == ["one to two"]


def test_a_slow_part_never_delays_a_turn(parts):
    go_on = threading.Event()
    parts.add([part(lambda: go_on.wait() and "late")])
    assert [values(parts) for _ in range(3)] == [{}, {}, {}]
    go_on.set()
    wait_until(lambda: values(parts) == {"connectors": "late"}, "the value arrives")


def test_a_part_that_fails_keeps_its_last_value_and_none_removes_it(parts):
    answers: list[object] = ["good"]

    def read() -> object | None:
        if not answers:
            raise OSError("refused")
        return answers[0]

    parts.add([part(read)])
    wait_until(lambda: values(parts) == {"connectors": "good"}, "the value")
    answers.clear()
    assert [values(parts) for _ in range(20)][-1] == {"connectors": "good"}
    answers.append(None)
    wait_until(lambda: values(parts) == {}, "the cluster has no connectors any more")


def test_the_console_says_so_when_a_bug_stops_its_readings(broker):
    def bug(_value: object) -> list[Finding]:
        raise ZeroDivisionError("a bug")

    with running(ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0)) as (console, _):
        wait_until(lambda: console.snapshot.brokers, "the first snapshot")
        console.collector.add([Part(name="bug", every_s=0.0, read=lambda _: 1, findings=bug)])
        wait_until(lambda: "ZeroDivisionError" in (console.snapshot.problem or ""), "the problem is shown")
        assert console.verdict().level is Level.BAD
