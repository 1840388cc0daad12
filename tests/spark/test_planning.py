"""The end of a micro-batch and the ranges of its tasks depend only on offsets, so a replay gives the same tasks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.spark.offsets import TopicPartition
from odradek.spark.planning import OffsetRange, admitted, losses, packed, ranges, tasks, waiting_records

A, B, C = (TopicPartition(topic, 0) for topic in "abc")


def piece(start: int, end: int, place: TopicPartition = A, **more: bool) -> OffsetRange:
    return OffsetRange(topic=place.topic, partition=place.partition, start=start, end=end, **more)


def test_a_limit_is_shared_in_proportion():
    assert admitted({A: 0, B: 100}, {A: 300, B: 200}, 100) == {A: 75, B: 125}


def test_a_small_partition_is_not_starved():
    assert admitted({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}


def test_below_the_limit_everything_is_taken():
    assert admitted({A: 5, B: 7}, {A: 10, B: 7}, 5) == {A: 10, B: 7}


def test_partition_that_ends_before_its_start_is_not_counted():
    assert admitted({A: 50, B: 0}, {A: 10, B: 100}, 10) == {A: 10, B: 10}


def test_waiting_records_count_new_partitions_from_offset_zero():
    assert waiting_records({A: 5}, {A: 10, B: 3}) == 8


def test_new_partitions_are_read_from_the_beginning():
    assert ranges({A: 5}, {A: 10, B: 3}) == [piece(5, 10), piece(0, 3, B)]


def test_partition_without_new_records_gives_no_range():
    assert ranges({A: 5, B: 9}, {A: 5, B: 3}) == []


def test_losses_are_missing_partitions_and_partitions_that_end_before_the_start():
    assert losses({A: 5}, {A: 5, B: 7}) == []
    gone, back = losses({A: 5, B: 9, C: 1}, {B: 3, C: 1})
    assert "a-0 no longer exist" in gone
    assert "b-0 now ends at offset 3, but this query has reached offset 9" in back


def test_default_is_one_task_per_partition():
    whole = [piece(0, 1000), piece(0, 1, B)]

    assert tasks(whole, at_least=None, records_max=None) == whole
    assert tasks(whole, at_least=2, records_max=None) == whole


def test_large_partitions_are_divided_for_min_partitions():
    planned = tasks([piece(0, 1000), piece(0, 1, B)], at_least=5, records_max=None)

    assert planned == [piece(0, 250), piece(250, 500), piece(500, 750), piece(750, 1000), piece(0, 1, B)]


def test_max_records_per_partition_limits_the_size_of_tasks():
    assert tasks([piece(0, 10)], at_least=None, records_max=4) == [piece(0, 3), piece(3, 6), piece(6, 10)]


def test_min_partitions_and_max_records_per_partition_work_together():
    planned = tasks([piece(0, 100)], at_least=8, records_max=50)

    assert len(planned) == 8
    assert max(each.size for each in planned) <= 50


def test_only_the_last_piece_of_a_range_reads_to_latest():
    planned = tasks([piece(0, 10, from_earliest=True, to_latest=True)], at_least=2, records_max=None)

    assert planned == [piece(0, 5, from_earliest=True), piece(5, 10, from_earliest=True, to_latest=True)]


def test_empty_range_to_latest_is_kept():
    empty = piece(7, 7, to_latest=True)

    assert tasks([empty], at_least=4, records_max=3) == [empty]


sizes = st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 2000)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=50)
@given(sizes, st.integers(1, 50) | st.none(), st.integers(20, 5000) | st.none())
def test_tasks_cover_every_offset_once_and_always_the_same_way(starts_and_sizes, at_least, records_max):
    whole = [
        piece(start, start + size, TopicPartition("t", number)) for number, (start, size) in enumerate(starts_and_sizes)
    ]

    planned = tasks(whole, at_least=at_least, records_max=records_max)

    assert planned == tasks(list(whole), at_least=at_least, records_max=records_max)
    assert planned == sorted(planned)
    for each in whole:
        mine = [part for part in planned if part.place == each.place]
        assert (mine[0].start, mine[-1].end) == (each.start, each.end)
        assert all(left.end == right.start for left, right in pairwise(mine))
    if records_max is not None:
        assert all(part.size <= records_max for part in planned)


@settings(deadline=None, max_examples=50)
@given(sizes, st.integers(1, 1000))
def test_limited_batch_advances_and_never_passes_the_end(starts_and_sizes, rows_max):
    begins = {TopicPartition("t", number): start for number, (start, _) in enumerate(starts_and_sizes)}
    latest = {TopicPartition("t", number): sum(pair) for number, pair in enumerate(starts_and_sizes)}

    end = admitted(begins, latest, rows_max)

    assert end.keys() == latest.keys()
    assert all(begins[place] < end[place] <= latest[place] for place in end)
    assert sum(end.values()) - sum(begins.values()) <= max(rows_max, 0) + len(end)


@pytest.mark.parametrize("at_least", [1, 3, 100])
def test_every_task_has_a_record_when_min_partitions_exceeds_the_records(at_least):
    planned = tasks([piece(0, 3)], at_least=at_least, records_max=None)

    assert all(each.size >= 1 for each in planned)
    assert planned[-1].end == 3


def test_small_ranges_share_a_task():
    small = [piece(0, 4), piece(0, 6, B), piece(0, 1, C)]

    assert [task.ranges for task in packed(small, 10)] == [(small[0], small[1]), (small[2],)]
    assert [task.ranges for task in packed(small, None)] == [(each,) for each in small]
    assert [task.ranges for task in packed(small, 1)] == [(each,) for each in small]
    assert packed([], 10) == []


@given(sizes, st.integers(1, 3000))
def test_packed_tasks_keep_the_order_and_stay_small(starts_and_sizes, records_max):
    whole = [
        piece(start, start + size, TopicPartition("t", number)) for number, (start, size) in enumerate(starts_and_sizes)
    ]

    found = [task.ranges for task in packed(whole, records_max)]

    assert [each for ranges in found for each in ranges] == whole
    assert all(len(ranges) == 1 or sum(each.size for each in ranges) <= records_max for ranges in found)
    assert all(
        sum(each.size for each in left) + right[0].size > records_max for left, right in pairwise(found)
    )  # no task ends early
