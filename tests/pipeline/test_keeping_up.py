"""The warning that a query does not keep up, and its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.pipeline.keeping_up import MicroBatch, Pace, micro_batch

PROGRESS = {
    "batchId": 7,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "numInputRows": 100,
    "batchDuration": 1000,
    "durationMs": {"queryPlanning": 200, "addBatch": 700},
    "sources": [
        {"endOffset": '{"a": {"0": 5, "1": 7}}', "latestOffset": '{"a": {"0": 15, "1": 7, "2": 3}}'},
        {"endOffset": "3", "latestOffset": None},
    ],
}


def pace(took: list[float], *, every_s=None, planning=0.1, rows=100, left=0, later_s=0.0, idle=False) -> str | None:
    """The warning after micro-batches with these durations, one after the other or every `every_s` seconds.

    `later_s` after them, while another one runs, or after an idle time.
    """
    pace, now_s = Pace(every_s), 1000.0
    for number, took_s in enumerate(took):
        batch = MicroBatch(
            number=number,
            began_s=now_s,
            took_s=took_s,
            planning_s=took_s * planning,
            execution_s=took_s * (0.9 - planning),
            rows=rows,
            left=left * number,
        )
        pace.see(batch)
        pace.see(batch)
        now_s += max(took_s, every_s or 0)
    if idle:
        pace.see(replace(batch, number=len(took), began_s=now_s, rows=0))
    return pace.warning(now_s + later_s, is_working=later_s > 0)


def test_micro_batch_is_made_from_spark_progress():
    batch = micro_batch(PROGRESS)
    assert (batch.number, batch.took_s, batch.planning_s, batch.execution_s, batch.rows) == (7, 1.0, 0.2, 0.7, 100)
    assert batch.left == 10


def left(end: str | None, latest: str | None) -> int:
    return micro_batch({**PROGRESS, "sources": [{"endOffset": end, "latestOffset": latest}]}).left


def test_marks_beside_the_offsets_are_ignored():
    latest = '{"t":{"0":900000}}'
    assert left('{"@clock":1700000000000,"t":{"0":5}}', latest) == 899_995
    assert left('{"@cut":1700000000000,"t":{"0":5}}', latest) == 899_995
    assert left('{"@others":{"u":{"0":7}},"t":{"0":5}}', '{"@others":{"u":{"0":9}},"t":{"0":6}}') == 1


@pytest.mark.parametrize("foreign", [None, "", "3", "[]", '{"logOffset":3}', '{"shards":{"a":"b"}}', "no JSON"])
def test_offsets_of_other_sources_are_ignored(foreign):
    assert left(foreign, foreign) == 0


def test_steady_micro_batches_cause_no_warning():
    assert pace([0.9] * 20, every_s=1) is None
    assert pace([20.0] * 20) is None
    assert pace([0.1] * 10 + [0.9] * 10) is None


def test_micro_batches_that_get_longer_cause_a_warning():
    told = pace([1, 1, 2, 3, 4, 6, 8, 10, 12])
    assert told.startswith("it falls behind: records waited 1.0 s, now 10.0 s; the topics get ")


def test_growing_backlog_of_limited_micro_batches_causes_a_warning():
    told = pace([1.0] * 20, left=50)
    assert "the topics get 150 rows/s, and it processes 100 rows/s" in told


def test_warning_for_micro_batches_longer_than_every_names_the_slow_part():
    told = pace([2.0] * 10, every_s=1)
    assert told.startswith("micro-batches take 2.0 s, longer than every=1 s; execution takes 1.6 s of 2.0 s")
    assert "planning takes 1.2 s of 2.0 s" in pace([2.0] * 10, every_s=1, planning=0.6)


def test_one_long_micro_batch_after_a_pause_causes_no_warning():
    assert pace([0.5] * 12 + [90.0], every_s=1) is None
    assert pace([9.0] * 3, every_s=1) is None


def test_two_long_micro_batches_of_which_the_second_is_longer_cause_a_warning():
    """A query that is much too slow would need an hour for nine micro-batches."""
    assert pace([1.0, 80.0, 270.0]).startswith("it falls behind: records waited 80.0 s, now 270.0 s; the topics get ")
    assert pace([1.0, 5.0, 25.0, 125.0]) is not None
    assert pace([1.0, 300.0, 80.0]) is None, "it catches up after a stop"
    assert pace([1.0, 80.0, 90.0]) is None
    assert pace([1.0, 1.0, 90.0]) is None, "a burst"
    assert pace([1.0, 20.0, 90.0], every_s=600) is None, "it rested in between"


def test_a_backlog_after_a_slow_start_causes_no_warning():
    """The first micro-batch of a run also waits for Spark's start: its time says nothing about the next one's."""
    assert pace([11.0, 70.0]) is None
    assert pace([11.0, 70.0, 4.0]) is None
    assert pace([11.0, 70.0, 130.0]).startswith("it falls behind: records waited 70.0 s, now 130.0 s")


def test_the_first_micro_batch_after_idle_progress_of_the_same_number_is_the_first():
    """Spark reports an idle query with the number of its next micro-batch."""
    began = MicroBatch(number=7, began_s=0.0, took_s=0.0, planning_s=0, execution_s=0, rows=0, left=0)
    pace = Pace(None)
    pace.see(began)
    pace.see(replace(began, took_s=11.0, rows=1))
    pace.see(replace(began, number=8, began_s=11.0, took_s=70.0, rows=1))
    assert pace.warning(81.0) is None


def test_the_warning_stays_while_a_long_micro_batch_runs():
    assert pace([1.0, 80.0, 270.0], later_s=400.0) is not None
    assert pace([1, 1, 2, 3, 4, 6, 8, 10, 12], later_s=400.0) is not None
    assert pace([1.0, 80.0, 270.0], later_s=400.0, idle=True) is None


def test_idle_query_causes_no_warning():
    pace = Pace(1.0)
    for number in range(10):
        pace.see(MicroBatch(number=number, began_s=number, took_s=2, planning_s=0, execution_s=2, rows=1, left=0))
    assert pace.warning(20.0) is not None
    assert pace.warning(100.0) is None
