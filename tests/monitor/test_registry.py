"""A registry finds instruments again, reads callbacks, and collects in slices of bounded work."""

from __future__ import annotations

import pytest

from odradek.base import limits
from odradek.base.invariants import InvariantBroken
from odradek.monitor import registry as registry_module
from odradek.monitor.metric import Kind, Metric
from odradek.monitor.registry import Reading, Registry


def metric(kind: Kind, *labels: str, **more) -> Metric:
    return Metric(name=f"a_{kind.value}", mbean="a:type=B", kind=kind, unit="x", help="Help.", labels=labels, **more)


METER = metric(Kind.METER, "topic")
HISTOGRAM = metric(Kind.HISTOGRAM, scale=1e-3)
TIMER = metric(Kind.TIMER)
GAUGE = metric(Kind.GAUGE, "topic")


class Time:
    ns = 0

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def registry(time):
    return Registry(time)


def read(registry, metric, *labels):
    (found,) = [each.value for each in registry.snapshot() if each.metric is metric and each.labels == labels]
    return found


def test_an_instrument_is_made_once_for_its_labels(registry):
    registry.counter(METER, "orders").count += 2
    registry.counter(METER, "orders").count += 3
    registry.counter(METER).count += 7
    assert read(registry, METER, "orders").count == 5
    assert read(registry, METER, "").count == 7


def test_ticks_make_rates(registry, time):
    counter = registry.counter(METER)
    timer = registry.timer(TIMER)
    counter.count += 50
    timer.observe(4)
    time.ns = 5_000_000_000
    assert not list(registry.tick())
    assert read(registry, METER, "").one_minute_rate == 10.0
    assert read(registry, TIMER).meter.one_minute_rate == 0.2
    assert read(registry, TIMER).distribution.max == 4


def test_observations_are_read_in_the_unit_of_the_metric(registry):
    registry.distribution(HISTOGRAM).observe(5_000)
    assert read(registry, HISTOGRAM).max == 5.0


def test_gauges_are_read_when_a_snapshot_is_collected(registry):
    sizes = {"a": 1}
    registry.gauge(GAUGE, lambda: len(sizes), "all")
    registry.gauges(GAUGE, lambda: (((name,), size) for name, size in sizes.items()))
    sizes["b"] = 2
    values = {each.labels: each.value for each in registry.snapshot() if each.metric is GAUGE}
    assert values == {("all",): 2, ("a",): 1, ("b",): 2}


def test_a_forgotten_series_is_gone_and_makes_room(registry, monkeypatch):
    monkeypatch.setattr(registry_module, "metric_series_max", 3)  # two are the registry's own
    registry.counter(METER, "one").count += 1
    registry.counter(METER, "two").count += 1
    assert [each.labels for each in registry.snapshot() if each.metric is METER] == [("one",)]
    assert read(registry, registry_module.SERIES_DROPPED) == 1
    registry.forget(METER, "one")
    registry.counter(METER, "two").count += 1
    assert [each.labels for each in registry.snapshot() if each.metric is METER] == [("two",)]


def test_a_slice_does_bounded_work(registry):
    for number in range(1_000):
        registry.counter(METER, str(number))
    registry.source(lambda: (None for _ in range(5_000)))
    registry.gauges(GAUGE, lambda: (((str(number),), number) for number in range(1_000)))
    slices = list(registry.collect())
    assert len(slices) == 7_002 // limits.metric_readings_per_slice_max
    assert set(slices) == {limits.metric_readings_per_slice_max}


def test_a_tick_does_bounded_work_per_slice(registry, time):
    for number in range(1_000):
        registry.counter(METER, str(number))
    time.ns = 1
    assert list(registry.tick()) == [limits.metric_readings_per_slice_max] * 4


def test_instruments_may_appear_while_a_snapshot_is_collected(registry):
    for number in range(1_000):
        registry.counter(METER, str(number))
    collected = 0
    for number, _ in enumerate(registry.collect()):
        registry.counter(METER, f"new {number}")
        collected += 1
    assert collected


def test_a_callback_that_fails_hides_only_itself_and_is_counted(registry, caplog):
    registry.gauge(GAUGE, lambda: 1 // 0, "broken")
    registry.gauge(GAUGE, lambda: 1, "fine")
    for _ in range(2):
        assert [each.labels for each in registry.snapshot() if each.metric is GAUGE] == [("fine",)]
    assert len(caplog.records) == 1
    assert read(registry, registry_module.READINGS_FAILED) == 2


def test_a_count_that_fails_hides_only_itself_and_is_counted(registry, time, caplog):
    divisor = [1]
    registry.counted(METER, lambda: 1 // divisor[0], "broken")
    divisor[0] = 0
    registry.counted(METER, lambda: 7, "fine")
    registry.counter(METER, "counted here").count += 1
    time.ns = 5_000_000_000
    list(registry.tick())
    found = {each.labels: each.value.count for each in registry.snapshot() if each.metric is METER}
    assert found == {("fine",): 7, ("counted here",): 1}
    assert len(caplog.records) == 1


def test_an_instrument_must_fit_its_metric(registry):
    with pytest.raises(InvariantBroken):
        registry.counter(GAUGE, "a")
    with pytest.raises(InvariantBroken):
        registry.distribution(TIMER)
    with pytest.raises(InvariantBroken):
        registry.counter(METER, "a", "b")


def test_a_source_yields_readings_of_several_metrics(registry):
    registry.source(lambda: [Reading(GAUGE, ("a",), 1), None, Reading(METER, ("b",), 2)])
    assert read(registry, GAUGE, "a") == 1
    assert read(registry, METER, "b") == 2
