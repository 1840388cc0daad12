"""Configs of client metrics subscriptions, with the codes and messages of Apache Kafka (`make interop`)."""

from __future__ import annotations

import time

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.configs.client_metrics import (
    ClientMetricsConfig,
    client_metrics_config,
    selectors,
    validate_client_metrics,
)

VALID = {
    "metrics": "org.apache.kafka.producer.,*",
    "interval.ms": "100",
    "match": "client_id=app-.*, client_source_port=1",
}


def test_valid_values_are_parsed():
    validate_client_metrics("slow", VALID)
    assert client_metrics_config(VALID) == ClientMetricsConfig(
        metrics=("org.apache.kafka.producer.", "*"),
        interval_ms=100,
        match=("client_id=app-.*", "client_source_port=1"),
    )


@pytest.mark.parametrize(
    ("values", "code", "message"),
    [
        ({"no.such": "1"}, ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: no.such"),
        (
            {"interval.ms": "99"},
            ErrorCode.INVALID_REQUEST,
            "Invalid value 99 for interval.ms, interval must be between",
        ),
        ({"interval.ms": "3600001"}, ErrorCode.INVALID_REQUEST, "Invalid value 3600001 for interval.ms"),
        ({"interval.ms": "soon"}, ErrorCode.INVALID_CONFIG, "Invalid value soon for configuration interval.ms"),
        ({"metrics": "a,,b"}, ErrorCode.INVALID_CONFIG, "Configuration 'metrics' values must not be empty."),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id"),
        ({"match": "client_id="}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id="),
        (
            {"match": "client_colour=red"},
            ErrorCode.INVALID_CONFIG,
            "Illegal client matching pattern: client_colour=red",
        ),
        ({"match": "client_id=("}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id=( (missing )"),
        ({"match": r"client_id=(a)\1"}, ErrorCode.INVALID_CONFIG, r"Illegal client matching pattern: client_id=(a)\1"),
    ],
)
def test_invalid_values_are_refused_with_kafkas_code(values, code, message):
    with pytest.raises(KafkaError) as refused:
        validate_client_metrics("slow", values)
    assert refused.value.code == code
    assert refused.value.message.startswith(message)


def test_repeated_words_are_accepted_and_count_once():
    repeated = {"metrics": "x,y,x", "match": "client_id=a,client_id=a"}
    validate_client_metrics("slow", repeated)
    assert client_metrics_config(repeated) == ClientMetricsConfig(metrics=("x", "y"), match=("client_id=a",))


def test_a_subscription_needs_a_name():
    with pytest.raises(KafkaError, match="Subscription name can't be empty"):
        validate_client_metrics("", VALID)


def test_a_pattern_must_match_the_whole_text_and_may_contain_an_equals_sign():
    (only,) = selectors(("client_id = a=b.*",))
    assert only.name == "client_id"
    assert only.pattern.fullmatch("a=bc")
    assert not only.pattern.fullmatch("xa=bc")


def test_a_pattern_that_would_take_for_ever_is_matched_at_once():
    """Python's `re` needs 2 to the power of 1,000 steps for this."""
    (only,) = selectors(("client_id=(a+)+b",))
    started = time.process_time()
    assert not only.pattern.fullmatch("a" * 1000)
    assert time.process_time() - started < 1


def test_values_of_a_kafka_directory_that_are_invalid_here_fall_back_to_the_defaults():
    assert client_metrics_config({"interval.ms": "soon", "metrics": "a", "unknown": "x"}) == ClientMetricsConfig(
        metrics=("a",)
    )
