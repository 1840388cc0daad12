"""Counters are exact, rates and percentiles mean what Kafka's mean."""

from __future__ import annotations

import math
import random
from dataclasses import astuple

import pytest

from odradek.monitor.instruments import PERCENTILES, Decay, Distribution, DistributionReading, Meter, TickFactors


def test_rates_approach_a_constant_rate_and_fall_as_kafkas_do():
    meter = Meter(now_s=0.0)
    five_seconds = TickFactors.of(5.0)
    for _ in range(12):
        meter.count += 50
        meter.tick(five_seconds)
    reading = meter.read(now_s=60.0)
    assert reading.count == 600
    assert reading.mean_rate == 10.0
    assert reading.one_minute_rate == pytest.approx(10.0)
    for _ in range(12):
        meter.tick(five_seconds)
    reading = meter.read(now_s=120.0)
    assert reading.mean_rate == 5.0
    assert reading.one_minute_rate == pytest.approx(10 * math.exp(-1))
    assert reading.five_minute_rate == pytest.approx(10 * math.exp(-1 / 5))
    assert reading.fifteen_minute_rate == pytest.approx(10 * math.exp(-1 / 15))


def test_rates_do_not_depend_on_how_often_ticks_come():
    often, seldom = Meter(0.0), Meter(0.0)
    for _ in range(10):
        for meter in (often, seldom):
            meter.count += 30
        often.tick(TickFactors.of(1.0))
    seldom.tick(TickFactors.of(10.0))
    assert astuple(often.read(10.0)) == pytest.approx(astuple(seldom.read(10.0)))


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_within_a_bucket_of_the_exact_ones(seed):
    rng = random.Random(seed)
    values = [int(rng.lognormvariate(10, 2)) for _ in range(5000)]
    distribution = Distribution(Decay(0.0))
    for value in values:
        distribution.observe(value)
    reading = distribution.read()
    values.sort()
    assert (reading.count, reading.min, reading.max) == (5000, values[0], values[-1])
    assert reading.sum == sum(values)
    assert reading.mean == pytest.approx(sum(values) / 5000)
    for quantile, percentile in zip(PERCENTILES, reading.percentiles, strict=True):
        assert percentile == pytest.approx(values[int(quantile * 5000) - 1], rel=0.13)


def test_small_integers_are_exact():
    distribution = Distribution(Decay(0.0))
    for value in (0, 0, 1, 2, 15):
        distribution.observe(value)
    assert distribution.read().percentiles == (1, 2, 15, 15, 15, 15)


def test_a_negative_duration_counts_as_none():
    distribution = Distribution(Decay(0.0))
    distribution.observe(-5)
    assert distribution.read() == DistributionReading(1, 0, 0, 0, 0, 0, (0.0,) * 6)


def test_percentiles_favour_recent_values():
    decay = Decay(0.0)
    distribution = Distribution(decay)
    for _ in range(1000):
        distribution.observe(10)
    decay.tick(600.0)
    for _ in range(10):
        distribution.observe(1_000)
    assert distribution.read().percentiles[0] == pytest.approx(1_000, rel=0.13)
    assert distribution.read().mean < 30


def test_percentiles_survive_the_rescaling_of_weights():
    decay = Decay(0.0)
    distribution = Distribution(decay)
    distribution.observe(10)
    for hours in range(1, 200):
        factor = decay.tick(hours * 3600.0)
        if factor != 1.0:
            distribution.rescale(factor)
        distribution.observe(20 + hours % 2)
    reading = distribution.read()
    assert reading.count == 200
    assert 20 <= reading.percentiles[0] <= 21


def test_a_sample_stands_for_the_values_it_was_taken_from():
    distribution = Distribution(Decay(0.0))
    distribution.observe(100, stands_for=9)
    distribution.observe(200)
    reading = distribution.read(scale=0.5)
    assert (reading.count, reading.sum, reading.mean, reading.min, reading.max) == (10, 550, 55, 50, 100)


def test_a_distribution_is_bounded():
    distribution = Distribution(Decay(0.0))
    for exponent in range(63):
        for more in range(32):
            distribution.observe((1 << exponent) + (more << max(0, exponent - 5)))
    assert len(distribution._buckets) <= 512
