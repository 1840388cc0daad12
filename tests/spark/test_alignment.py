"""Micro-batches that end at one timestamp for all topics. Each source finds the timestamp by itself."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.spark.alignment import at_time, first_above, next_cut
from odradek.spark.offsets import TopicPartition

Logs = dict[TopicPartition, list[int]]


def first_at(stamps: list[int], time_ms: int) -> int:
    return next((offset for offset, stamp in enumerate(stamps) if stamp >= time_ms), -1)


def cuts(logs: Logs, rows_max: int, guess_ms: int = 1) -> list[dict[TopicPartition, int]]:
    """The ends of all micro-batches of a source that starts at the earliest offsets."""
    latest = {place: len(stamps) for place, stamps in logs.items()}

    def offsets_at(time_ms: int) -> dict[TopicPartition, int]:
        assert time_ms >= 0  # negative timestamps mean earliest and latest in the protocol
        return {place: first_at(stamps, time_ms) for place, stamps in logs.items()}

    found, after_ms, begins = [], None, dict.fromkeys(logs, 0)
    while cut := next_cut(
        begins, latest, rows_max, after_ms=after_ms, guess_ms=(after_ms or 0) + guess_ms, offsets_at=offsets_at
    ):
        assert after_ms is None or cut.time_ms > after_ms
        assert sum(cut.offsets.values()) > sum(begins.values())
        after_ms = cut.time_ms
        begins = at_time(after_ms, latest, offsets_at)
        found.append(cut.offsets)
    return [*found, latest]


def canonical(logs: Logs) -> list[tuple[int, str, int, int]]:
    return sorted(
        (newest, place.topic, place.partition, offset)
        for place, stamps in logs.items()
        for offset, newest in enumerate(accumulate(stamps, max))
    )


def read_in_batches(logs: Logs, ends: list[dict[TopicPartition, int]]) -> list[list[tuple[int, str, int, int]]]:
    """The records of each micro-batch, sorted by positions that are computed only from its own records."""
    batches, begins = [], dict.fromkeys(logs, 0)
    for end in ends:
        batches.append(
            sorted(
                (newest, place.topic, place.partition, begins[place] + number)
                for place, stamps in logs.items()
                for number, newest in enumerate(accumulate(stamps[begins[place] : end[place]], max))
            )
        )
        begins = end
    return batches


stamps = st.lists(st.integers(-1, 50) | st.integers(0, 5).map(lambda day: day * 86_400_000), max_size=40)
places = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 2))


@settings(deadline=None)
@given(st.dictionaries(places, stamps, min_size=1), st.integers(1, 20))
def test_aligned_batches_in_sequence_have_the_order_of_all_records(logs, rows_max):
    batches = read_in_batches(logs, cuts(logs, rows_max))

    assert [row for batch in batches for row in batch] == canonical(logs)


@settings(deadline=None)
@given(st.dictionaries(places, stamps, min_size=1), st.integers(1, 20), st.integers(1, 1 << 40))
def test_sources_with_different_guesses_find_the_same_cuts(logs, rows_max, guess_ms):
    assert cuts(logs, rows_max, guess_ms) == cuts(logs, rows_max)


def test_aligned_batch_has_about_rows_max_records():
    logs = {TopicPartition("a", 0): list(range(0, 1000, 2)), TopicPartition("b", 0): list(range(700, 1100))}

    sizes = [len(batch) for batch in read_in_batches(logs, cuts(logs, 100))]

    assert sum(sizes) == 900
    assert all(74 <= size <= 100 for size in sizes[:-1])


def test_records_with_one_timestamp_stay_together():
    logs = {TopicPartition("a", 0): [1, 5, 5, 5, 5, 6], TopicPartition("b", 0): [5, 5, 5]}

    assert [len(batch) for batch in read_in_batches(logs, cuts(logs, 2))] == [1, 7, 1]


def test_sources_that_stopped_a_few_records_apart_find_the_same_cut():
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    logs = {a: list(range(1000)), b: list(range(1000))}

    def cut(**begins: int) -> int:
        found = next_cut(
            {a: begins["a"], b: begins["b"]},
            {a: 1000, b: 1000},
            100,
            after_ms=None,
            guess_ms=1,
            offsets_at=lambda time_ms: {place: first_at(stamps, time_ms) for place, stamps in logs.items()},
        )
        return found.time_ms

    assert cut(a=105, b=105) == cut(a=108, b=104) == cut(a=105, b=115) == 150


def test_next_cut_makes_few_requests():
    asked = []

    def older(time_ms: int) -> int:
        asked.append(time_ms)
        return min(max(0, time_ms - 1_700_000_000_000) // 7, 10_000_000)

    now_ms = 1_700_000_000_000 + 90_000_000
    assert first_above(123_456, older, low_ms=-1, low_count=0, guess_ms=now_ms) == 1_700_000_000_000 + 123_457 * 7
    assert len(asked) <= 35
    asked.clear()
    low_ms = 1_700_000_864_199
    assert first_above(200_000, older, low_ms=low_ms, low_count=older(low_ms), guess_ms=low_ms + 400_000)
    assert len(asked) <= 12


def test_timestamp_beyond_spark_maximum_gives_no_cut():
    assert first_above(5, lambda _: 3, low_ms=0, low_count=3, guess_ms=1) is None
