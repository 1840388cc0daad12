"""docs/metrics.md and docs/alerts.md are what tools/metrics.py writes."""

from __future__ import annotations

from docs.pages import ROOT, tool


def test_pages_are_current():
    writer = tool("metrics")
    assert (ROOT / "docs" / "metrics.md").read_text() == writer.page(), "run `python tools/metrics.py`"
    assert (ROOT / "docs" / "alerts.md").read_text() == writer.alerts_page(), "run `python tools/metrics.py`"
