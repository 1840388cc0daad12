import sys
from dataclasses import replace

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.configs.broker import (
    BROKER_CONFIGS,
    BrokerConfig,
    refuse_read_only,
    validate_dynamic_broker_config,
)
from odradek.metadata.configs.definition import INT64_MAX, ConfigSource
from odradek.metadata.configs.effective import (
    BrokerLayers,
    broker_config,
    describe_broker,
    describe_cluster_defaults,
    describe_topic,
    topic_config,
)
from odradek.metadata.configs.in_force import not_honoured
from odradek.metadata.configs.topic import TOPIC_CONFIGS, check_together, validate_topic_config
from odradek.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterImage, ConfigResource


def layers(*, dynamic_broker=None, dynamic_default=None, static=None):
    return BrokerLayers(dynamic_broker or {}, dynamic_default or {}, static or {})


def refusal(name, value):
    with pytest.raises(KafkaError) as refused:
        validate_topic_config(name, value)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert name in refused.value.message
    return refused.value.message


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("cleanup.policy", ("delete",)),
        ("retention.ms", 604800000),
        ("retention.bytes", -1),
        ("segment.bytes", 1073741824),
        ("segment.ms", 604800000),
        ("segment.jitter.ms", 0),
        ("segment.index.bytes", 10485760),
        ("index.interval.bytes", 4096),
        ("max.message.bytes", 1048588),
        ("min.insync.replicas", 1),
        ("unclean.leader.election.enable", False),
        ("compression.type", "producer"),
        ("compression.gzip.level", -1),
        ("compression.lz4.level", 9),
        ("compression.zstd.level", 3),
        ("message.timestamp.type", "CreateTime"),
        ("message.timestamp.before.max.ms", INT64_MAX),
        ("message.timestamp.after.max.ms", 3600000),
        ("flush.messages", INT64_MAX),
        ("flush.ms", INT64_MAX),
        ("file.delete.delay.ms", 60000),
        ("preallocate", False),
        ("delete.retention.ms", 86400000),
        ("min.compaction.lag.ms", 0),
    ],
)
def test_topic_defaults_are_kafkas(name, default):
    assert TOPIC_CONFIGS[name].default == default


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("cleanup.policy", "compact,delete", ("compact", "delete")),
        ("cleanup.policy", " compact , delete ", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("retention.ms", "-1", -1),
        ("retention.ms", " 42 ", 42),
        ("preallocate", "TRUE", True),
        ("compression.type", "uncompressed", "uncompressed"),
        ("compression.gzip.level", "-1", -1),
        ("compression.zstd.level", "-7", -7),
        ("segment.bytes", "1048576", 1048576),
        ("internal.segment.bytes", "1", 1),
    ],
)
def test_values_are_parsed_as_kafka_does(name, written, value):
    assert validate_topic_config(name, written) == value


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("retention.ms", "-2"),
        ("retention.ms", "1_000"),
        ("retention.ms", "9223372036854775808"),
        ("retention.ms", "٣"),
        ("segment.bytes", "1048575"),
        ("segment.bytes", "2147483648"),
        ("segment.ms", "0"),
        ("segment.index.bytes", "3"),
        ("min.insync.replicas", "0"),
        ("flush.messages", "0"),
        ("preallocate", "yes"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", "delete,delete"),
        ("cleanup.policy", "delete,"),
        ("message.timestamp.type", "createtime"),
        ("compression.type", "ZSTD"),
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.gzip.level", "-2"),
        ("compression.lz4.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("compression.zstd.level", "-131073"),
        ("retention.ms", None),
    ],
)
def test_values_out_of_range_are_refused_by_name(name, written):
    refusal(name, written)


def test_an_unsupported_key_of_kafka_is_refused_with_the_reason():
    assert "tiered storage" in refusal("remote.storage.enable", "false")


def test_unsupported_configs_in_a_directory_of_kafka_are_reported():
    told = {"remote.storage.enable": "true", "compression.type": "gzip", "retention.ms": "soon"}
    image = ClusterImage(cluster_id="c")
    configs = {
        ConfigResource(TOPIC_RESOURCE, "orders"): told,
        ConfigResource(BROKER_RESOURCE, ""): {"leader.replication.throttled.rate": "7"},
    }
    image = replace(image, configs=image.configs.changed(configs))
    assert sorted(sentence.split(":")[0] for sentence in not_honoured(image)) == [
        "broker (all) ignores leader.replication.throttled.rate=7",
        "topic orders ignores remote.storage.enable=true",
        "topic orders ignores retention.ms=soon",
    ]


def test_an_unknown_key_is_refused_with_the_nearest_known_one():
    assert "did you mean retention.ms?" in refusal("retention.m", "1")


def test_precedence_topic_then_dynamic_broker_then_dynamic_default_then_static_then_default():
    key, synonym = "max.message.bytes", "message.max.bytes"
    everything = {"dynamic_broker": {synonym: "20"}, "dynamic_default": {synonym: "30"}, "static": {synonym: "40"}}
    assert topic_config({key: "10"}, layers(**everything)).max_message_bytes == 10
    assert topic_config({}, layers(**everything)).max_message_bytes == 20
    del everything["dynamic_broker"]
    assert topic_config({}, layers(**everything)).max_message_bytes == 30
    del everything["dynamic_default"]
    assert topic_config({}, layers(**everything)).max_message_bytes == 40
    assert topic_config({}, layers()).max_message_bytes == 1048588


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 604800000),
        ({"log.retention.hours": "2"}, 7200000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_of_a_broker_synonym_wins(static, retention_ms):
    assert topic_config({}, layers(static=static)).retention_ms == retention_ms


def test_t60_every_topic_key_is_described_with_source_and_synonyms():
    rows = {
        row.definition.name: row
        for row in describe_topic(
            {"retention.ms": "5"},
            layers(dynamic_default={"log.retention.ms": "6"}, static={"log.retention.hours": "7"}),
        )
    }
    assert set(rows) == set(TOPIC_CONFIGS) - {"internal.segment.bytes"}
    row = rows["retention.ms"]
    assert (row.written, row.source, row.read_only) == ("5", ConfigSource.TOPIC, False)
    assert [(s.name, s.source, s.written) for s in row.synonyms] == [
        ("retention.ms", ConfigSource.TOPIC, "5"),
        ("log.retention.ms", ConfigSource.DYNAMIC_DEFAULT_BROKER, "6"),
        ("log.retention.hours", ConfigSource.STATIC_BROKER, "7"),
        ("log.retention.hours", ConfigSource.DEFAULT, "168"),
    ]
    untouched = rows["preallocate"]
    assert (untouched.written, untouched.source) == ("false", ConfigSource.DEFAULT)


def test_t60_described_values_can_be_set_again():
    described = describe_topic({}, layers())
    assert described
    for row in described:
        validate_topic_config(row.definition.name, row.written)


def test_an_internal_key_is_described_once_it_is_set():
    assert "internal.segment.bytes" in [
        row.definition.name for row in describe_topic({"internal.segment.bytes": "1000"}, layers())
    ]


def test_every_broker_key_is_described():
    rows = {row.definition.name: row for row in describe_broker(layers(static={"num.partitions": "4"}))}
    assert set(rows) == set(BROKER_CONFIGS) - {"internal.metadata.log.segment.bytes"}
    assert (rows["num.partitions"].written, rows["num.partitions"].source) == ("4", ConfigSource.STATIC_BROKER)
    assert rows["num.partitions"].read_only
    assert not rows["log.retention.ms"].read_only
    assert rows["log.retention.ms"].written is None
    assert rows["log.retention.hours"].written == "168"


def synonyms(row):
    return [(setting.name, setting.source, setting.written) for setting in row.synonyms]


def test_a_key_is_described_from_the_first_source_that_sets_its_own_name():
    """As in Kafka: synonyms of log.retention.ms are described only once it is set itself."""
    settings = {"static": {"log.retention.hours": "7"}}
    rows = {row.definition.name: row for row in describe_broker(layers(**settings))}
    assert (rows["log.retention.ms"].source, synonyms(rows["log.retention.ms"])) == (ConfigSource.DEFAULT, [])
    (topic_row,) = [row for row in describe_topic({}, layers(**settings)) if row.definition.name == "retention.ms"]
    assert (topic_row.written, topic_row.source, synonyms(topic_row)) == ("25200000", ConfigSource.DEFAULT, [])
    settings |= {"dynamic_broker": {"log.retention.ms": "5"}, "dynamic_default": {"log.retention.ms": " 6 "}}
    rows = {row.definition.name: row for row in describe_broker(layers(**settings))}
    assert (rows["log.retention.ms"].written, rows["log.retention.ms"].source) == ("5", ConfigSource.DYNAMIC_BROKER)
    assert synonyms(rows["log.retention.ms"]) == [
        ("log.retention.ms", ConfigSource.DYNAMIC_BROKER, "5"),
        ("log.retention.ms", ConfigSource.DYNAMIC_DEFAULT_BROKER, " 6 "),
        ("log.retention.hours", ConfigSource.STATIC_BROKER, "7"),
        ("log.retention.hours", ConfigSource.DEFAULT, "168"),
    ]
    assert synonyms(rows["log.retention.hours"])[0] == ("log.retention.hours", ConfigSource.STATIC_BROKER, "7")


def test_a_broker_key_has_the_value_with_the_highest_precedence():
    key = "log.cleaner.backoff.ms"
    config = BrokerConfig.parse({key: "4"})
    everything = {"dynamic_broker": {key: "2"}, "dynamic_default": {key: "3"}, "static": {key: "4"}}
    assert broker_config(config, layers(**everything)).log_cleaner_backoff_ms == 2
    del everything["dynamic_broker"]
    config = broker_config(config, layers(**everything))
    assert config.log_cleaner_backoff_ms == 3
    del everything["dynamic_default"]
    assert broker_config(config, layers(**everything)).log_cleaner_backoff_ms == 4
    assert broker_config(config, layers()).log_cleaner_backoff_ms == 15_000


def test_values_of_kafka_that_this_broker_refuses_are_ignored():
    strange = layers(dynamic_broker={"log.cleaner.io.max.bytes.per.second": "-5", "num.partitions": "9"})
    config = broker_config(BrokerConfig(), strange)
    assert config.log_cleaner_io_max_bytes_per_second == sys.float_info.max
    assert config.num_partitions == 1


def test_the_dynamic_keys_are_those_of_kafka_except_listeners():
    """Except listeners and their protocols: a node has one listener, which cannot change. Metrics are ours."""
    assert [name for name, definition in BROKER_CONFIGS.items() if definition.dynamic] == [
        "metrics.partitions.enable",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "producer.id.expiration.ms",
        "transaction.partition.verification.enable",
        *(definition.synonyms[0].name for definition in TOPIC_CONFIGS.values() if definition.synonyms),
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1000000.0, "1000000.0"),
        (10000000.0, "1.0E7"),
        (1.25e-4, "1.25E-4"),
        (sys.float_info.max, "1.7976931348623157E308"),
    ],
)
def test_a_double_is_written_as_java_does(value, written):
    definition = BROKER_CONFIGS["log.cleaner.io.max.bytes.per.second"]
    assert definition.write(value) == written
    assert float(written) == value


def test_read_only_keys_are_refused_together_and_by_name():
    with pytest.raises(KafkaError, match=r"dynamically: \[num.partitions, log.cleaner.enable\]") as refused:
        refuse_read_only(["num.partitions", "log.retention.ms", "log.cleaner.enable"])
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_key_without_effect_is_refused_with_the_reason():
    with pytest.raises(KafkaError, match=r"num\.io\.threads .* has no effect here: one event loop"):
        validate_dynamic_broker_config("num.io.threads", "9")


def test_the_cluster_wide_resource_shows_only_values_that_were_set():
    (row,) = describe_cluster_defaults({"log.retention.ms": "9"})
    assert (row.definition.name, row.written, row.source) == (
        "log.retention.ms",
        "9",
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
    )


def test_an_unknown_cluster_wide_key_of_kafka_is_not_shown():
    assert describe_cluster_defaults({"log.cleaner.threads": "2"}) == []


def test_only_the_first_synonym_of_a_topic_key_is_dynamic():
    assert validate_dynamic_broker_config("log.retention.ms", "1000") == 1000
    for name, value in (
        ("log.retention.hours", "1"),
        ("num.partitions", "2"),
        ("nonsense", "1"),
        ("log.retention.ms", "0"),
    ):
        with pytest.raises(KafkaError) as refused:
            validate_dynamic_broker_config(name, value)
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        assert name in refused.value.message


def test_static_settings_remember_that_they_were_set():
    config = BrokerConfig.parse({"num.partitions": "3", "log.dir": "d", "log.roll.hours": "2"})
    assert config.static == {"num.partitions": "3", "log.dirs": "d", "log.roll.hours": "2"}
    assert config.log_dirs == ("d",)


def test_min_compaction_lag_must_not_exceed_max_compaction_lag():
    check_together({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(KafkaError, match=r"min.compaction.lag.ms \(6\) > max.compaction.lag.ms \(5\)"):
        check_together({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


@pytest.mark.parametrize(("written", "value"), [("0.5", 0.5), ("1", 1.0), (".25", 0.25), ("1e-3", 0.001), ("0", 0.0)])
def test_valid_ratios_are_accepted(written, value):
    assert validate_topic_config("min.cleanable.dirty.ratio", written) == value


@pytest.mark.parametrize("written", ["1.1", "-0.1", "half", "", "1_0", "NaN", "Infinity"])
def test_invalid_ratios_are_refused(written):
    refusal("min.cleanable.dirty.ratio", written)
