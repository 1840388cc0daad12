"""docs/metrics.md is what tools/metrics.py writes."""

from __future__ import annotations

from docs.pages import ROOT, tool


def test_page_is_current():
    assert (ROOT / "docs" / "metrics.md").read_text() == tool("metrics").page(), "run `python tools/metrics.py`"
