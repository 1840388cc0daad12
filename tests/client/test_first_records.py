"""Timestamps of single records, in repeated calls."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Producer

from odradek.client.admin import Admin
from odradek.client.first_records import FirstRecords
from odradek.client.records import ClientError


@pytest.fixture
def written(odradek) -> str:
    """Five records in each of two partitions, a second apart."""
    Admin(odradek.bootstrap_servers).create_topic("in", 2)
    producer = Producer({"bootstrap.servers": odradek.bootstrap_servers})
    for partition in (0, 1):
        for number in range(5):
            producer.produce("in", value=b"x", partition=partition, timestamp=1_000_000 * (partition + 1) + number)
    assert producer.flush(60) == 0
    return odradek.bootstrap_servers


def test_repeated_calls_return_the_record_at_each_offset(written):
    with closing(FirstRecords(written, timeout_s=60)) as first:
        for number in range(5):
            places = {("in", 0): number, ("in", 1): 0}
            assert first.timestamps_ms(places) == {("in", 0): 1_000_000 + number, ("in", 1): 2_000_000}
        assert first.timestamps_ms({}) == {}


def test_a_partition_without_a_record_there_is_left_out(written):
    with closing(FirstRecords(written, timeout_s=60)) as first:
        assert first.timestamps_ms({("in", 0): 5, ("in", 1): 4}) == {("in", 1): 2_000_004}


def test_a_deleted_offset_returns_the_next_record(written):
    Admin(written).delete_records({("in", 0): 3})
    with closing(FirstRecords(written, timeout_s=60)) as first:
        assert first.timestamps_ms({("in", 0): 0}) == {("in", 0): 1_000_003}


def test_an_unreachable_broker_raises_a_client_error():
    with closing(FirstRecords("127.0.0.1:1", timeout_s=0.1)) as first, pytest.raises(ClientError, match="_TIMED_OUT"):
        first.timestamps_ms({("in", 0): 0})
