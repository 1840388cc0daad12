"""The readings of a snapshot by metric."""

from __future__ import annotations

from odradek.base.limits import metric_readings_per_slice_max
from odradek.base.steps import Steps
from odradek.monitor.metric import Metric
from odradek.monitor.registry import Reading, Snapshot

Families = dict[Metric, list[Reading]]
# To sort a reading takes this much less time than to collect it.
SORTED_PER_READING = 8


def by_family(snapshot: Snapshot) -> Steps[Families]:
    """In slices: a thread that sorts a large snapshot in one piece would keep the interpreter lock."""
    families: Families = {}
    size = metric_readings_per_slice_max * SORTED_PER_READING
    for start in range(0, len(snapshot), size):
        for reading in snapshot[start : start + size]:
            families.setdefault(reading.metric, []).append(reading)
        yield metric_readings_per_slice_max
    return families
