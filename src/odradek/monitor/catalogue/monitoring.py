"""The registry itself."""

from __future__ import annotations

from odradek.monitor.metric import Kind, Metric

SERIES_DROPPED = Metric(
    name="odradek_monitor_registry_seriesdropped_total",
    mbean="odradek.monitor:type=Registry,name=SeriesDropped",
    kind=Kind.COUNTER,
    unit="series",
    help="Series that were not created because the process already has its maximum of 20,000.",
)
READINGS_FAILED = Metric(
    name="odradek_monitor_registry_readingsfailed_total",
    mbean="odradek.monitor:type=Registry,name=ReadingsFailed",
    kind=Kind.COUNTER,
    unit="readings",
    help="Readings that failed because of a bug. The log has the first of each kind.",
)
