"""Log ends at times in the past, found by the timestamps of records: they date lag that is older than the monitor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.monitor.lag.log_ends import UNKNOWN_END
from odradek.watch.cluster_client import ClusterClient, Place

# From half a minute to eleven days.
AGES_S = tuple(30 << step for step in range(16))

# Times, oldest first, and for each the ends of the partitions of a topic.
History = tuple[list[int], list[list[int]]]


def past_ends(
    client: ClusterClient, leaders: Mapping[Place, int], now_ms: int, ages_s: Sequence[int] = AGES_S
) -> dict[str, History]:
    """The history of each topic. Partitions that are not in `leaders`, or whose leader is silent, stay unknown."""
    later: dict[Place, int] = client.log_ends(leaders)
    width = {topic: 0 for topic, _ in later}
    for topic, partition in later:
        width[topic] = max(width[topic], partition + 1)
    newest_first: list[tuple[int, dict[Place, int]]] = []
    for age_s in ages_s if later else ():
        found = client.log_ends_at({place: leaders[place] for place in later}, now_ms - age_s * 1000)
        # Timestamps need not ascend, but ends do.
        later = {place: min(later[place] if end is None else end, later[place]) for place, end in found.items()}
        newest_first.append((now_ms - age_s * 1000, later))
    history: dict[str, History] = {topic: ([], []) for topic in width}
    for at_ms, ends in reversed(newest_first):
        for topic, (times_ms, rows) in history.items():
            times_ms.append(at_ms)
            rows.append([ends.get((topic, partition), UNKNOWN_END) for partition in range(width[topic])])
    return history
