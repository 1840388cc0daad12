"""From pushed bytes to samples for Prometheus."""

from __future__ import annotations

import pytest

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.compression import Codec, compress
from odradek.telemetry.otlp import Kind
from odradek.telemetry.samples import Pushed, Sample, samples
from odradek.telemetry.subscriptions import Wanted
from support.pushed_metrics import DELTA, counter, gauge, payload, point

ALL = Wanted(("*",), 1000)
NAME = "org.apache.kafka.producer.record.send.rate"


def read(*metrics, wanted=ALL, **resource) -> Pushed:
    return samples(Codec.NONE, payload(*metrics, **resource), wanted)


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read(codec):
    data = payload(gauge(NAME, point(1.5, node_id="1")))
    packed = data if codec is Codec.NONE else compress(codec, data)
    (sample,) = samples(codec, packed, ALL).samples
    assert sample == Sample(NAME.replace(".", "_"), Kind.GAUGE, False, (("node_id", "1"),), 1.5)


def test_raw_snappy_as_librdkafka_sends_it_is_read():
    import cramjam

    data = payload(gauge(NAME, point(1.5)))
    assert len(samples(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data)), ALL).samples) == 1


def test_counters_end_with_total_once():
    found = read(
        counter("org.apache.kafka.producer.a", point(1)),
        counter("org.apache.kafka.producer.b.total", point(2), temporality=DELTA),
        counter("org.apache.kafka.producer.up.and.down", point(3), is_monotonic=False),
    )
    assert [(each.name, each.kind, each.is_delta) for each in found.samples] == [
        ("org_apache_kafka_producer_a_total", Kind.COUNTER, False),
        ("org_apache_kafka_producer_b_total", Kind.COUNTER, True),
        ("org_apache_kafka_producer_up_and_down", Kind.GAUGE, False),
    ]


def test_only_subscribed_metrics_are_accepted():
    wanted = Wanted(("org.apache.kafka.producer.",), 1000)
    found = read(gauge(NAME, point(1)), gauge("org.apache.kafka.consumer.x", point(1), point(2)), wanted=wanted)
    assert ([each.name for each in found.samples], found.refused) == ([NAME.replace(".", "_")], 2)


@pytest.mark.parametrize(
    "refused",
    [
        gauge("kafka_server_replicamanager_leadercount", point(1)),
        gauge("org.apache.kafka." + "x" * limits.telemetry_name_chars_max, point(1)),
        gauge(NAME, point(1, label="x" * (limits.telemetry_text_chars_max + 1))),
        gauge(NAME, point(1, **{"l" * (limits.telemetry_text_chars_max + 1): "x"})),
        gauge(NAME, point(1, **{"": "x"})),
        counter(NAME, point(-1)),
        counter(NAME, point(float("nan"))),
        counter(NAME, point(float("inf"))),
    ],
)
def test_a_point_that_is_not_accepted_is_counted(refused):
    assert read(refused, gauge("org.apache.kafka.ok", point(1))) == Pushed(
        [Sample("org_apache_kafka_ok", Kind.GAUGE, False, (), 1)], 1
    )


def test_labels_have_valid_names_and_cannot_replace_those_of_the_client():
    labels = {"client.rack": "r1", "1st": "a", "__name__": "b", "client_id": "someone else", "empty": "", "ü": "c"}
    (sample,) = read(gauge(NAME, point(1, **labels)), group_id="readers").samples
    assert sample.labels == (
        ("_", "c"),
        ("client_rack", "r1"),
        ("group_id", "readers"),
        ("key_1st", "a"),
        ("key_name__", "b"),
    )


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_refused_before_it_is_decompressed(codec):
    bomb = compress(codec, bytes(limits.telemetry_decompressed_bytes_max + 1))
    assert refusal(codec, bomb) == ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("codec", list(Codec))
def test_garbage_is_an_invalid_record(codec):
    assert refusal(codec, b"\xff" * 50) == ErrorCode.INVALID_RECORD


def test_too_many_points_are_too_large():
    many = payload(gauge(NAME, *[point(1)] * (limits.telemetry_points_max + 1)))
    assert refusal(Codec.NONE, many) == ErrorCode.TELEMETRY_TOO_LARGE


def refusal(codec, pushed) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        samples(codec, pushed, ALL)
    return refused.value.code
