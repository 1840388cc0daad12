"""The registry itself."""

from __future__ import annotations

from odradek.base.limits import metric_series_max
from odradek.monitor.declaring import counter

SERIES_DROPPED = counter(
    "odradek.monitor:type=Registry,name=SeriesDropped",
    "series",
    f"Series that were not created because the process already has its maximum of {metric_series_max:,}.",
)
READINGS_FAILED = counter(
    "odradek.monitor:type=Registry,name=ReadingsFailed",
    "readings",
    "Readings that failed because of a bug. Each kind of failure is logged once.",
)
