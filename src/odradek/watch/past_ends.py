"""Log ends at times in the past, found by the timestamps of records: they date lag that is older than the monitor.

A first look is coarse: each age is twice the one before. `dates` then halves the gap around each committed offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest

from odradek.monitor.lag.log_ends import UNKNOWN_END, Undated
from odradek.watch.cluster_client import ClusterClient, Place

# From half a minute to eleven days.
AGES_S = tuple(30 << step for step in range(16))
# A gap is at most half of an age: it shrinks to less than a hundredth.
HALVINGS = 6
# A request names a partition once: groups with different offsets there take turns. The others keep an estimate.
OFFSETS_PER_PARTITION_MAX = 10
# The same for times of commits: the last ten of ten groups.
TIMES_PER_PARTITION_MAX = 100

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
        at_ms = now_ms - age_s * 1000
        found = client.log_ends_at({place: leaders[place] for place in later}, dict.fromkeys(later, at_ms))
        # Timestamps need not ascend, but ends do.
        later = {place: min(later[place] if end is None else end, later[place]) for place, end in found.items()}
        newest_first.append((at_ms, later))
    history: dict[str, History] = {topic: ([], []) for topic in width}
    for at_ms, ends in reversed(newest_first):
        for topic, (times_ms, rows) in history.items():
            times_ms.append(at_ms)
            rows.append([ends.get((topic, partition), UNKNOWN_END) for partition in range(width[topic])])
    return history


def dates(
    client: ClusterClient, leaders: Mapping[Place, int], undated: Mapping[str, Sequence[Undated]]
) -> Iterator[tuple[Place, int, int]]:
    """For each partition and offset, the time at which the offset stopped being the end of the log."""
    offsets: dict[Place, list[Undated]] = {}
    for topic, each in undated.items():
        for one in each:
            if (topic, one.partition) in leaders:
                offsets.setdefault((topic, one.partition), []).append(one)
    turns = zip_longest(*(each[:OFFSETS_PER_PARTITION_MAX] for each in offsets.values()))
    silent: set[Place] = set()
    for turn in turns:
        wanted = {
            place: one for place, one in zip(offsets, turn, strict=True) if one is not None and place not in silent
        }
        for _ in range(HALVINGS):
            middles = {place: (one.before_ms + one.after_ms) // 2 for place, one in wanted.items()}
            ends = client.log_ends_at({place: leaders[place] for place in wanted}, middles)
            # A partition whose leader is silent keeps its estimate. Each question to such a leader waits for seconds.
            silent |= wanted.keys() - ends.keys()
            wanted = {
                place: wanted[place]._replace(before_ms=middles[place])
                if end is not None and end <= wanted[place].offset
                else wanted[place]._replace(after_ms=middles[place])
                for place, end in ends.items()
            }
        for place, one in wanted.items():
            yield place, one.offset, (one.before_ms + one.after_ms) // 2


def ends_at(
    client: ClusterClient, leaders: Mapping[Place, int], times_ms: Mapping[Place, Collection[int]]
) -> dict[Place, dict[int, int]]:
    """The log ends at given times. Times after the last record, and those of silent leaders, are missing."""
    newest_first = {place: sorted(times, reverse=True) for place, times in times_ms.items() if place in leaders}
    found: dict[Place, dict[int, int]] = {place: {} for place in newest_first}
    silent: set[Place] = set()
    for turn in zip_longest(*(times[:TIMES_PER_PARTITION_MAX] for times in newest_first.values())):
        asked = {
            place: at_ms
            for place, at_ms in zip(newest_first, turn, strict=True)
            if at_ms is not None and place not in silent
        }
        ends = client.log_ends_at({place: leaders[place] for place in asked}, asked)
        # Each question to a leader that does not answer waits for seconds.
        silent |= asked.keys() - ends.keys()
        for place, end in ends.items():
            if end is not None:
                found[place][asked[place]] = end
    return found
