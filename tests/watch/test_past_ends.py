"""Log ends at times in the past: how often leaders that do not answer are asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from odradek.monitor.lag.log_ends import Undated
from odradek.watch.cluster_client import ClusterClient, Place
from odradek.watch.past_ends import HALVINGS, dates, ends_at

ANSWERS, SILENT = ("orders", 0), ("orders", 1)
LEADERS = {ANSWERS: 1, SILENT: 2}


class Cluster(ClusterClient):
    """The leader of `SILENT` never answers."""

    def __init__(self) -> None:
        self.asked: Counter[Place] = Counter()

    def log_ends_at(self, leaders: Mapping[Place, int], at_ms: Mapping[Place, int]) -> dict[Place, int | None]:
        self.asked.update(list(leaders))
        return {place: at_ms[place] for place in leaders if place != SILENT}


def test_ends_at_asks_a_silent_leader_once():
    cluster = Cluster()
    found = ends_at(cluster, LEADERS, {ANSWERS: range(1, 21), SILENT: range(1, 21)})
    assert found == {ANSWERS: {at_ms: at_ms for at_ms in range(1, 21)}, SILENT: {}}
    assert cluster.asked == {ANSWERS: 20, SILENT: 1}


def test_dates_asks_a_silent_leader_once():
    cluster = Cluster()
    undated = [
        Undated(partition=partition, offset=offset, before_ms=0, after_ms=1_000)
        for partition in (0, 1)
        for offset in (100, 200, 300)
    ]
    found = [(place, offset) for place, offset, _ in dates(cluster, LEADERS, {"orders": undated})]
    assert found == [(ANSWERS, 100), (ANSWERS, 200), (ANSWERS, 300)]
    assert cluster.asked == {ANSWERS: 3 * HALVINGS, SILENT: 1}
