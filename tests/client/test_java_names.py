"""Java's config names as librdkafka's: names that pass, translations, and refusals with their reasons."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from odradek.client.java_names import TRANSLATED, RefusedConfig, librdkafka_config
from odradek.client.java_tables import REFUSED, RENAMED, SAME

VALUES = {
    "acks": "all",
    "allow.auto.create.topics": "true",
    "check.crcs": "true",
    "client.dns.lookup": "use_all_dns_ips",
    "compression.type": "zstd",
    "enable.auto.commit": "false",
    "enable.idempotence": "true",
    "enable.metrics.push": "false",
    "group.protocol": "consumer",
    "isolation.level": "read_committed",
    "metadata.recovery.strategy": "none",
    "sasl.mechanism": "PLAIN",
}

TRANSLATIONS = [
    ({"request.timeout.ms": "5000"}, {"socket.timeout.ms": "5000"}),
    ({"metadata.max.age.ms": "1000"}, {"topic.metadata.refresh.interval.ms": "1000"}),
    ({"fetch.max.wait.ms": "50"}, {"fetch.wait.max.ms": "50"}),
    ({"max.request.size": "2000000"}, {"message.max.bytes": "2000000"}),
    ({"buffer.memory": "33554432"}, {"queue.buffering.max.kbytes": "32768"}),
    ({"buffer.memory": "100"}, {"queue.buffering.max.kbytes": "1"}),
    ({"fetch.max.bytes": "1000000"}, {"fetch.max.bytes": "1000000"}),
    ({"fetch.max.bytes": "200000000"}, {"fetch.max.bytes": "200000000", "receive.message.max.bytes": "200000512"}),
    ({"security.protocol": "SASL_SSL"}, {"security.protocol": "sasl_ssl"}),
    ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
    ({"ssl.endpoint.identification.algorithm": "https"}, {"ssl.endpoint.identification.algorithm": "https"}),
    ({"auto.offset.reset": "none"}, {"auto.offset.reset": "error"}),
    ({"send.buffer.bytes": "-1"}, {"socket.send.buffer.bytes": "0"}),
    ({"receive.buffer.bytes": "65536"}, {"socket.receive.buffer.bytes": "65536"}),
    ({"connections.max.idle.ms": "-1"}, {"connections.max.idle.ms": "0"}),
    ({"sasl.kerberos.kinit.cmd": "kinit -R me"}, {"sasl.kerberos.kinit.cmd": "kinit -R me"}),
    (
        {"sasl.oauthbearer.token.endpoint.url": "https://sso/token"},
        {"sasl.oauthbearer.token.endpoint.url": "https://sso/token", "sasl.oauthbearer.method": "oidc"},
    ),
    (
        {"sasl.oauthbearer.token.endpoint.url": "https://sso/token", "sasl.oauthbearer.method": "default"},
        {"sasl.oauthbearer.token.endpoint.url": "https://sso/token", "sasl.oauthbearer.method": "default"},
    ),
    (
        {"compression.type": "gzip", "compression.gzip.level": "9", "compression.zstd.level": "3"},
        {"compression.type": "gzip", "compression.level": "9"},
    ),
    # librdkafka's own names pass
    ({"queued.min.messages": "1000000"}, {"queued.min.messages": "1000000"}),
    ({"ssl.ca.location": "/etc/ca.pem"}, {"ssl.ca.location": "/etc/ca.pem"}),
    ({"partitioner": "random"}, {"partitioner": "random"}),
]


@pytest.mark.parametrize("name", sorted(SAME))
def test_a_name_that_both_have_passes(name: str) -> None:
    value = VALUES.get(name, "1000")
    assert librdkafka_config({name: value}) == {name: value}


@pytest.mark.parametrize(("java", "ours"), TRANSLATIONS, ids=" ".join)
def test_translated(java: dict[str, str], ours: dict[str, str]) -> None:
    assert librdkafka_config(java) == ours


def test_every_translation_is_in_the_table_above() -> None:
    shown = {name for java, _ in TRANSLATIONS for name in java}
    # ssl.cipher.suites is refused or passes; lz4 is as gzip
    assert (TRANSLATED.keys() | RENAMED.keys()) - shown == {"ssl.cipher.suites", "compression.lz4.level"}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_by_name_with_a_reason(name: str) -> None:
    with pytest.raises(RefusedConfig, match=name) as refused:
        librdkafka_config({name: "1"})
    assert refused.value.name == name
    assert refused.value.why in str(refused.value)
    assert refused.value.instead in str(refused.value)


@pytest.mark.parametrize("instead", sorted({instead for _, instead in REFUSED.values()}))
def test_a_substitute_that_is_a_config_exists(instead: str) -> None:
    name, _, value = instead.partition(",")[0].partition(" ")[0].partition("=")
    if "." in name:
        assert librdkafka_config({name: value or VALUES.get(name, "1000")})


def test_an_unknown_name_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(RefusedConfig, match=r"'linger\.msec' is refused: .*; instead: linger\.ms"):
        librdkafka_config({"linger.msec": "5"})
    with pytest.raises(RefusedConfig, match=r"'colour' is refused: Kafka's clients know no such config$"):
        librdkafka_config({"colour": "blue"})


def test_an_invalid_value_is_reported_under_the_given_name() -> None:
    with pytest.raises(RefusedConfig, match=r"'request\.timeout\.ms' is refused: .*900000 is outside allowed range"):
        librdkafka_config({"request.timeout.ms": "900000"})
    with pytest.raises(RefusedConfig, match=r"'acks' is refused: Invalid value"):
        librdkafka_config({"acks": "some"})
    with pytest.raises(RefusedConfig, match=r"'buffer\.memory' is refused: '32m' is not a number"):
        librdkafka_config({"buffer.memory": "32m"})


def test_a_callback_cannot_be_set_as_text() -> None:
    for name in ("error_cb", "on_delivery", "dr_cb", "default.topic.config"):
        with pytest.raises(RefusedConfig, match=name):
            librdkafka_config({name: "x"})


def test_a_kinit_path_without_arguments_is_refused() -> None:
    with pytest.raises(RefusedConfig, match=r"kinit\.cmd.*write the arguments too"):
        librdkafka_config({"sasl.kerberos.kinit.cmd": "/usr/bin/kinit"})


def test_java_cipher_names_are_refused_and_those_of_openssl_pass() -> None:
    with pytest.raises(RefusedConfig, match="OpenSSL's names"):
        librdkafka_config({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"})
    assert librdkafka_config({"ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384"})


def test_a_large_fetch_makes_a_consumer_that_librdkafka_accepts() -> None:
    config = librdkafka_config({"fetch.max.bytes": "200000000", "bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    Consumer({**config, "log_level": 0}).close()


def test_translated_configs_create_a_producer() -> None:
    everything = {"bootstrap.servers": "127.0.0.1:1", "buffer.memory": "1048576", "acks": "all", "linger.ms": "3"}
    Producer({**librdkafka_config(everything), "log_level": 0})
