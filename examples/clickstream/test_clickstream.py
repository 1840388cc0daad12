"""The clickstream, live and replayed, against the same results in plain Python."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

TOPICS = ("sessions", "session_orders", "campaigns")
APP = Path(__file__).with_name("app.py")


def in_order(rows):
    return sorted(rows, key=repr)


def timed(row):
    """A row of the pipeline, with times as datetime."""
    return row | {name: datetime.fromisoformat(row[name]) for name in ("began", "hour") if name in row}


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("live", [False, True], ids=["replayed", "live"])
def test_clickstream_output_equals_the_plain_python_result(live, written, beside):
    visits, plain = beside(__file__, "visits"), beside(__file__, "recounted")
    records = visits.records(seed=4, visits=40)
    records += visits.end_of_day(records)
    expected = plain.recounted(records)
    found = written(APP, records, TOPICS, live=live)
    for topic in TOPICS:
        assert in_order(map(timed, found[topic])) == in_order(expected[topic]), topic


def test_clickstream_input_covers_all_steps(beside):
    visits, plain = beside(__file__, "visits"), beside(__file__, "recounted")
    records = visits.records(seed=4, visits=40)
    found = plain.recounted([*records, *visits.end_of_day(records)])
    assert any(one["conversions"] for one in found["sessions"])
    assert any(one["pages"] > 6 for one in found["sessions"]), "two visits must form one session"
    assert len(found["session_orders"]) > 3
    assert len(found["campaigns"]) > 6
    assert records == visits.records(seed=4, visits=40)
