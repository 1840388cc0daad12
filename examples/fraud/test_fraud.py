"""The fraud detector, live and replayed, against the same results in plain Python."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

TOPICS = ("alerts", "card_sessions")
APP = Path(__file__).with_name("app.py")


def in_order(rows):
    return sorted(rows, key=repr)


def seconds(row):
    """A session of the pipeline, with its times in seconds."""
    times = {name: datetime.fromisoformat(row[name]).timestamp() for name in ("began", "ended")}
    return {**row, **times}


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("live", [False, True], ids=["replayed", "live"])
def test_fraud_output_equals_the_plain_python_result(live, written, beside):
    payments, plain = beside(__file__, "payments"), beside(__file__, "recomputed")
    records = payments.records(seed=5, count=150)
    records += payments.end_of_day(records)
    expected = plain.recomputed(records)
    found = written(APP, records, TOPICS, live=live)
    assert in_order(found["alerts"]) == in_order(expected["alerts"])
    assert in_order(map(seconds, found["card_sessions"])) == in_order(expected["card_sessions"])


def test_fraud_input_covers_all_rules(beside):
    payments, plain = beside(__file__, "payments"), beside(__file__, "recomputed")
    records = payments.records(seed=5, count=150)
    found = plain.recomputed([*records, *payments.end_of_day(records)])
    assert {alert["kind"] for alert in found["alerts"]} == {"card testing", "impossible travel"}
    assert any(alert["name"] is None for alert in found["alerts"])
    assert any("changed" in (alert["name"] or "") for alert in found["alerts"])
    assert len(found["card_sessions"]) > 6, "some cards have several sessions"
    assert records == payments.records(seed=5, count=150)
