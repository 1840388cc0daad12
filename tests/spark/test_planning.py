"""How far a micro-batch goes and who reads what: functions of offsets alone, so that a replay gives the same tasks."""

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


def test_a_partition_that_went_back_does_not_count():
    assert admitted({A: 50, B: 0}, {A: 10, B: 100}, 10) == {A: 10, B: 10}


def test_what_waits_counts_new_partitions_from_their_beginning():
    assert waiting_records({A: 5}, {A: 10, B: 3}) == 8


def test_new_partitions_are_read_from_the_beginning():
    assert ranges({A: 5}, {A: 10, B: 3}) == [piece(5, 10), piece(0, 3, B)]


def test_nothing_to_read_is_no_range():
    assert ranges({A: 5, B: 9}, {A: 5, B: 3}) == []


def test_losses_are_partitions_that_are_gone_and_topics_that_went_back():
    assert losses({A: 5}, {A: 5, B: 7}) == []
    gone, back = losses({A: 5, B: 9, C: 1}, {B: 3, C: 1})
    assert "a-0 no longer exist" in gone
    assert "b-0 now ends at offset 3, before offset 9" in back


def test_one_task_per_partition_unless_asked_otherwise():
    whole = [piece(0, 1000), piece(0, 1, B)]

    assert tasks(whole, at_least=None, records_max=None) == whole
    assert tasks(whole, at_least=2, records_max=None) == whole


def test_large_partitions_are_divided_for_min_partitions():
    planned = tasks([piece(0, 1000), piece(0, 1, B)], at_least=5, records_max=None)

    assert planned == [piece(0, 250), piece(250, 500), piece(500, 750), piece(750, 1000), piece(0, 1, B)]


def test_tasks_have_a_size_at_most():
    assert tasks([piece(0, 10)], at_least=None, records_max=4) == [piece(0, 3), piece(3, 6), piece(6, 10)]


def test_both_at_once():
    planned = tasks([piece(0, 100)], at_least=8, records_max=50)

    assert len(planned) == 8
    assert max(each.size for each in planned) <= 50


def test_only_the_last_piece_goes_on_to_what_comes_later():
    planned = tasks([piece(0, 10, from_earliest=True, to_latest=True)], at_least=2, records_max=None)

    assert planned == [piece(0, 5, from_earliest=True), piece(5, 10, from_earliest=True, to_latest=True)]


def test_an_empty_range_that_may_grow_is_kept():
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
def test_a_limit_moves_on_and_never_past_the_end(starts_and_sizes, rows_max):
    begins = {TopicPartition("t", number): start for number, (start, _) in enumerate(starts_and_sizes)}
    latest = {TopicPartition("t", number): sum(pair) for number, pair in enumerate(starts_and_sizes)}

    end = admitted(begins, latest, rows_max)

    assert end.keys() == latest.keys()
    assert all(begins[place] < end[place] <= latest[place] for place in end)
    assert sum(end.values()) - sum(begins.values()) <= max(rows_max, 0) + len(end)


@pytest.mark.parametrize("at_least", [1, 3, 100])
def test_more_tasks_than_records_is_one_record_each_at_least(at_least):
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
