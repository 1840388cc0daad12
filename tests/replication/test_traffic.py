"""Counts by topic and in total; a refused batch is counted by its reason."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.log.appended import RecordsRefused
from odradek.monitor.catalogue import topics as catalogue
from odradek.monitor.registry import Registry
from odradek.protocol.batch import MAGIC_POSITION
from odradek.replication.traffic import Traffic
from support.data_broker import batch


@pytest.fixture
def registry():
    return Registry(lambda: 0)


def counts(registry, topic):
    return {
        each.metric: each.value.count
        for each in registry.snapshot()
        if each.labels in ((topic,), ()) and getattr(each.value, "count", 0)
    }


def appended(traffic, topic, records, size):
    traffic.of(topic).messages_in.count += records
    traffic.of(topic).bytes_in.count += size


def test_appends_count_for_their_topic_and_in_total(registry):
    traffic = Traffic(registry)
    appended(traffic, "a", 3, 100)
    appended(traffic, "b", 1, 10)
    appended(traffic, "a", 2, 50)
    assert counts(registry, "a") == {catalogue.MESSAGES_IN: 5, catalogue.BYTES_IN: 150}
    assert counts(registry, "") == {catalogue.MESSAGES_IN: 6, catalogue.BYTES_IN: 160}


def test_a_topic_that_comes_again_starts_at_zero_and_the_total_goes_on(registry):
    traffic = Traffic(registry)
    appended(traffic, "a", 3, 100)
    traffic.forget("a")
    assert counts(registry, "a") == {}
    appended(traffic, "a", 1, 10)
    assert counts(registry, "a")[catalogue.MESSAGES_IN] == 1
    assert counts(registry, "")[catalogue.MESSAGES_IN] == 4


OLD = bytearray(batch("x"))
OLD[MAGIC_POSITION] = 1


@pytest.mark.parametrize(
    ("content", "refusal", "counted"),
    [
        (batch("x"), KafkaError(ErrorCode.MESSAGE_TOO_LARGE), {catalogue.BYTES_REJECTED: len(batch("x"))}),
        (batch("x"), KafkaError(ErrorCode.CORRUPT_MESSAGE), {catalogue.INVALID_CHECKSUMS: 1}),
        (OLD, KafkaError(ErrorCode.INVALID_RECORD), {catalogue.INVALID_MAGIC: 1, catalogue.FAILED_PRODUCE: 1}),
        (
            batch("x"),
            KafkaError(ErrorCode.INVALID_RECORD),
            {catalogue.INVALID_OFFSETS: 1, catalogue.FAILED_PRODUCE: 1},
        ),
        (
            batch("x"),
            RecordsRefused(ErrorCode.INVALID_RECORD, "no key", ((0, "no key"), (3, "no key"))),
            {catalogue.KEYLESS: 2, catalogue.FAILED_PRODUCE: 1},
        ),
        (batch("x"), KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), {}),
        (batch("x"), KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), {catalogue.FAILED_PRODUCE: 1}),
    ],
)
def test_a_refused_batch_is_counted_by_its_reason(registry, content, refusal, counted):
    Traffic(registry).of("a").refused(content, refusal)
    assert counts(registry, "") == counted
