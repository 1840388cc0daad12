"""Numbers as people read them, and charts as SVG."""

from __future__ import annotations

import math

import pytest

from odradek.console.charts import chart, meter, nice, sparkline, thinned
from odradek.console.collecting.history import GROWTH_MS_MIN, History, Point, growth
from odradek.console.rendering import count, duration, per_second, share, short, size

NAN = float("nan")


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (count(1_234_567), "1,234,567"),
        (count(None), "\N{EN DASH}"),
        (count(NAN), "\N{EN DASH}"),
        (short(999), "999"),
        (short(1_000), "1.00k"),
        (short(12_345), "12.3k"),
        (short(999_999), "1.00M"),
        (per_second(0), "0"),
        (per_second(0.44), "0.4"),
        (per_second(12.3), "12.3"),
        (size(0), "0 B"),
        (size(1023), "1,023 B"),
        (size(1024), "1.00 KiB"),
        (size(1536 * 1024), "1.50 MiB"),
        (size(5 * 2**40), "5.00 TiB"),
        (share(0.666), "67 %"),
        (duration(0), "0 s"),
        (duration(0.44), "0.4 s"),
        (duration(59.4), "59 s"),
        (duration(59.6), "1 min"),
        (duration(200), "3 min 20 s"),
        (duration(7_500), "2 h 5 min"),
        (duration(273_600), "3 d 4 h"),
    ],
)
def test_numbers_have_units(shown, text):
    assert shown == text


def test_names_in_charts_are_escaped():
    strange = '"><script>alert(1)</script>'
    for svg in (
        sparkline([1, 2], strange),
        meter(0.5, strange),
        chart([(strange, [Point(0, 1), Point(1, 2)])], strange),
    ):
        assert "<script" not in svg
        assert "&lt;script" in svg


def test_a_gap_interrupts_a_line():
    assert sparkline([1, 2, NAN, 2, 1], "").count('class="stroke"') == 2


def test_too_few_values_are_no_line():
    assert "stroke" not in sparkline([1, NAN], "")
    assert chart([("a", [Point(0, 1)])], "") == ""


def test_a_meter_stays_within_its_ends():
    assert 'width="100.0"' in meter(1.7, "")
    assert 'width="0.0"' in meter(-1, "")


def test_long_series_keep_their_last_value():
    assert (len(thinned(range(1_000), 10)), thinned(range(1_000), 10)[-1]) == (10, 999)


@pytest.mark.parametrize(("value", "expected"), [(1, 1), (1.2, 2), (2.3, 2.5), (99, 100), (0.03, 0.05)])
def test_axes_end_at_round_numbers(value, expected):
    assert math.isclose(nice(value), expected)


def test_history_is_bounded_and_forgets_what_is_gone():
    history = History(samples_max=3, series_max=2)
    for second in range(5):
        history.add(second, {"topic/a": float(second), "topic/b": None})
    assert history.values("topic/a") == [2.0, 3.0, 4.0]
    history.add(6, {"topic/c": 1.0})
    assert history.values("topic/a") == []
    history.forget_others("topic/", {"b": None})
    assert history.values("topic/c") == []


def test_growth_needs_a_minute_of_samples():
    rising = [Point(second * 1000, second * 5.0) for second in range(0, GROWTH_MS_MIN // 1000 + 1, 10)]
    assert growth(rising[:-1]) is None
    assert growth(rising) == 5.0
