"""The demo's judge: correct results pass, and every kind of wrong result is reported."""

from __future__ import annotations

import json

import pytest

from odradek.demo.trucking import topics
from odradek.demo.trucking.checking import FIELDS, Results, problems, uncaptured
from odradek.demo.trucking.fleet import Fleet, iso
from odradek.demo.trucking.truth import WINDOW_MS, Truth, truth_of

START_MS = 1_767_225_600_000


@pytest.fixture(scope="module")
def truth() -> Truth:
    return truth_of(Fleet(seed=1, start_ms=START_MS).step(START_MS + 60_000))


def right_results(truth: Truth) -> Results:
    """What a perfect application would have written."""
    results = Results()
    for correlation, violation in truth.violations.items():
        _, row = truth.drivers[violation.driver][truth.row_at(violation.driver, violation.time_ms)]
        event = {
            "correlationId": correlation,
            "driverId": violation.driver,
            "eventType": violation.kind,
            "speed": violation.speed,
            **row,
        }
        for topic in (topics.DANGEROUS, topics.ENRICHED):
            results.see(topic, json.dumps(event).encode())
    for (driver, start_ms), spree in truth.sprees.items():
        _, row = truth.drivers[driver][truth.row_at(driver, start_ms)]
        alert = {**row, "driverId": driver, "window_start": iso(start_ms), "violations": spree.violations}
        alert |= {"overspeeds": spree.overspeeds, "kinds": spree.kinds}
        results.see(topics.ALERTS, json.dumps(alert).encode())
    for driver, events in truth.events.items():
        kinds = truth.kinds[driver]
        row = {"driverId": driver, "events": events, "violations": kinds.total()}
        row |= {field: kinds[kind] for kind, field in FIELDS.items()}
        results.see(topics.STATISTICS, json.dumps(row).encode())
    for value in truth.malformed:
        results.see(topics.DEAD_LETTERS, value)
    return results


def complaint(truth: Truth, results: Results, *, restarted: bool = False) -> str:
    return "\n".join(problems(truth, results, restarted=restarted))


def test_a_minute_of_the_road_has_something_of_everything(truth):
    assert len(truth.events) == 30
    assert len(truth.sprees) >= 5
    assert truth.malformed.total() >= 4
    assert any(violation.speed is None for violation in truth.violations.values())
    assert any(len(rows) > 1 for rows in truth.drivers.values())


def test_right_results_pass(truth):
    assert problems(truth, right_results(truth), restarted=False) == []


def test_twice_is_right_after_a_restart_only(truth):
    results = right_results(truth)
    results.see(topics.DEAD_LETTERS, next(iter(truth.malformed)))
    assert "1 records were written twice" in complaint(truth, results)
    assert complaint(truth, results, restarted=True) == ""


def test_missing_results_are_reported_for_each_topic(truth):
    told = complaint(truth, Results())
    assert all(topic in told for topic in topics.OUTPUTS)


def test_wrong_count_is_reported(truth):
    results = right_results(truth)
    results.statistics[14]["events"] += 1
    assert complaint(truth, results).startswith(
        "driver_stats: 1 of 30 drivers are wrong; the first is {'driverId': 14,"
    )


def test_wrong_speed_and_invented_event_are_reported(truth):
    results = right_results(truth)
    (row,) = results.enriched[next(c for c, v in truth.violations.items() if v.speed)]
    row["speed"] = 1
    results.enriched[10**9].append({})
    told = complaint(truth, results)
    assert "has speed 1, not" in told
    assert "1 events that were never sent" in told


def test_driver_row_that_never_existed_is_reported(truth):
    results = right_results(truth)
    (row,) = results.enriched[min(truth.violations)]
    row["wagePlan"] = "tips"
    assert "is shown as" in complaint(truth, results)


def test_row_from_an_hour_ago_is_reported():
    fleet = Fleet(seed=1, start_ms=START_MS)
    truth = truth_of(fleet.step(START_MS + 200_000))
    results = right_results(truth)
    stale = next(
        (rows[0], truth.drivers[rows[0]["driverId"]][0][1])
        for c, rows in results.enriched.items()
        if truth.row_at(truth.violations[c].driver, truth.violations[c].time_ms - 60_000) == 1
        and len(truth.drivers[truth.violations[c].driver]) == 2
    )
    stale[0].update(wagePlan=stale[1]["wagePlan"], certified=stale[1]["certified"])
    assert "is shown as" in complaint(truth, results)


def test_missing_wrong_and_unfounded_alerts_are_reported(truth):
    results = right_results(truth)
    windows = sorted(truth.sprees, key=lambda window: window[1])
    del results.alerts[windows[0]]
    results.alerts[windows[1]][0]["violations"] += 1
    results.alerts[99, windows[0][1]].append({"driverId": 99})
    told = complaint(truth, results)
    assert "driver_alerts: none for driver" in told
    assert "expected Spree(" in told
    assert "no reason" in told


def test_a_window_that_is_still_open_may_be_missing(truth):
    results = right_results(truth)
    newest = max(truth.sprees, key=lambda window: window[1])
    assert newest[1] + WINDOW_MS > truth.newest_ms - 20_000
    del results.alerts[newest]
    assert complaint(truth, results) == ""


def test_missing_and_invented_dead_letters_are_reported(truth):
    results = right_results(truth)
    results.dead_letters.pop(next(iter(truth.malformed)))
    results.dead_letters[b"fine"] += 1
    told = complaint(truth, results)
    assert "1 malformed records are missing" in told
    assert "1 records were not malformed" in told


def captured(truth: Truth, first: int = 0) -> Results:
    """What a perfect capture writes if its snapshot has the first changes already."""
    results = Results()
    for rows in truth.drivers.values():
        for _, row in rows[min(first, len(rows) - 1) :]:
            results.see(topics.DRIVERS, json.dumps({"after": row}).encode())
    return results


def test_rows_that_are_captured_in_order_pass_also_if_the_snapshot_came_late(truth):
    assert list(uncaptured(truth, captured(truth))) == []
    assert list(uncaptured(truth, captured(truth, first=1))) == []


def test_missing_repeated_and_swapped_rows_are_reported(truth):
    changed = next(driver for driver, rows in truth.drivers.items() if len(rows) > 1)
    for spoil in (lambda rows: rows.pop(), lambda rows: rows.append(rows[-1]), lambda rows: rows.reverse()):
        results = captured(truth)
        spoil(results.rows[changed])
        assert [text.split(":")[0] for text in uncaptured(truth, results)] == [topics.DRIVERS]
