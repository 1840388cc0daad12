"""Which metrics a client should push."""

from __future__ import annotations

import pytest

from odradek.base.ids import uuid_from_text, uuid_text
from odradek.telemetry.subscriptions import Client, Wanted, subscription_id, subscriptions, wanted_of

JAVA = Client("User:a", "orders-1", "apache-kafka-java", "4.3.1", "10.0.0.7", 51234)
ID = uuid_from_text("zzzzzzzzQAeAAAAAAAAAAA")


def wanted(client=JAVA, instance_id=ID, **configs):
    return wanted_of(client, instance_id, subscriptions(configs))


def test_without_a_subscription_a_client_pushes_nothing_and_asks_again_after_five_minutes():
    assert wanted() == Wanted((), 300_000)


def test_subscriptions_are_combined_with_the_shortest_interval():
    assert wanted(
        one={"metrics": "b.,a.", "interval.ms": "60000"},
        two={"metrics": "a.,c.", "interval.ms": "30000"},
        other={"metrics": "d.", "interval.ms": "100", "match": "client_id=nobody"},
    ) == Wanted(("a.", "b.", "c."), 30_000)


def test_all_metrics_replace_every_prefix():
    assert wanted(one={"metrics": "a."}, two={"metrics": "*"}) == Wanted(("*",), 300_000)


@pytest.mark.parametrize(
    ("match", "is_matched"),
    [
        ("client_id=orders-.*", True),
        ("client_id=orders", False),
        ("client_software_name=apache-kafka-java,client_software_version=4\\..*", True),
        ("client_software_name=apache-kafka-java,client_software_version=3\\..*", False),
        ("client_source_address=10\\.0\\.0\\.7", True),
        ("client_source_port=51234", True),
        (f"client_instance_id={uuid_text(ID)}", True),
        ("client_instance_id=x", False),
    ],
)
def test_every_selector_must_match(match, is_matched):
    assert bool(wanted(one={"metrics": "a.", "match": match}).metrics) is is_matched


def test_a_client_without_a_client_id_matches_no_pattern_for_it():
    nameless = JAVA._replace(client_id=None)
    assert wanted(nameless, one={"metrics": "a.", "match": "client_id=.*"}).metrics == ()


def test_a_subscription_of_a_kafka_directory_with_another_kind_of_pattern_is_ignored():
    assert wanted(one={"metrics": "a.", "match": "client_id=(?=x)"}, two={"metrics": "b."}).metrics == ("b.",)


def test_prefixes_cover_names():
    assert Wanted(("org.apache.kafka.producer.",), 1).covers("org.apache.kafka.producer.record.send.rate")
    assert not Wanted(("org.apache.kafka.producer.",), 1).covers("org.apache.kafka.consumer.x")
    assert Wanted(("*",), 1).covers("anything")
    assert not Wanted((), 1).covers("anything")


def test_the_subscription_id_is_the_same_on_every_broker_and_differs_between_subscriptions_and_clients():
    first = wanted(one={"metrics": "b.,a."}, two={"metrics": "c."})
    same = wanted(two={"metrics": "c.,b."}, one={"metrics": "a."})
    assert subscription_id(first, ID) == subscription_id(same, ID)
    others = [
        subscription_id(Wanted(("a.",), 300_000), ID),
        subscription_id(first._replace(interval_ms=1000), ID),
        subscription_id(first, bytes(range(16))),
    ]
    assert len({subscription_id(first, ID), *others}) == 4
    assert all(-(2**31) <= each < 2**31 for each in others)


@pytest.mark.parametrize(
    ("metrics", "interval_ms", "kafkas"),
    [((), 300_000, -1492588522), (("*",), 300_000, 1335540971), (("*",), 300, 155065700)],
)
def test_the_subscription_id_is_that_of_kafka(metrics, interval_ms, kafkas):
    """Kafka 4.3.1 returned these ids. With several metrics, Kafka's depend on the order in a hash set."""
    assert subscription_id(Wanted(metrics, interval_ms), ID) == kafkas
