"""Options of a write, checked before any task runs."""

from __future__ import annotations

import pytest

from odradek.spark.errors import RefusedOption
from odradek.spark.sink_options import Columns, RefusedColumns, check_columns, sink_options

pytest.importorskip("pyspark")
from pyspark.sql.types import StructType

BROKER = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def schema(ddl: str) -> StructType:
    """A schema from DDL without Spark, which needs a JVM to parse it."""
    from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType

    header = StructType().add("key", StringType()).add("value", BinaryType(), nullable=False)
    kinds = {
        "string": StringType(),
        "binary": BinaryType(),
        "int": IntegerType(),
        "long": LongType(),
        "headers": ArrayType(header, containsNull=False),
        "names": ArrayType(StringType()),
    }
    fields = StructType()
    for column in ddl.split(", "):
        name, kind = column.split()
        fields = fields.add(name, kinds[kind])
    return fields


def test_defaults_are_the_java_partitioner_and_acks_all() -> None:
    config = sink_options(BROKER).config
    assert config["partitioner"] == "murmur2_random"
    assert config["acks"] == "all"
    assert config["enable.idempotence"] == "true"
    assert config["bootstrap.servers"] == "127.0.0.1:9092"


def test_user_settings_win_in_java_and_librdkafka_names() -> None:
    given = {"kafka.delivery.timeout.ms": "1000", "KAFKA.buffer.memory": "1048576", "kafka.partitioner": "random"}
    config = sink_options(BROKER | given).config
    assert config["delivery.timeout.ms"] == "1000"
    assert config["partitioner"] == "random"
    assert config["queue.buffering.max.kbytes"] == "1024"


def test_options_that_spark_adds_to_a_write_are_accepted() -> None:
    """Spark passes `.queryName("copy")` as an option. Spark documents includeHeaders, but only the columns decide."""
    told = {"queryname": "copy", "checkpointlocation": "somewhere", "includeheaders": "true"}
    assert sink_options(BROKER | told).topic is None


def test_acks_all_keeps_idempotence_in_every_spelling() -> None:
    assert sink_options(BROKER | {"kafka.acks": "ALL"}).config["enable.idempotence"] == "true"


@pytest.mark.parametrize(
    "weaker",
    [
        {"kafka.acks": "1"},
        {"kafka.acks": "0"},
        {"kafka.retries": "0"},
        {"kafka.max.in.flight.requests.per.connection": "9"},
    ],
)
def test_weaker_settings_disable_idempotence_as_in_java(weaker: dict[str, str]) -> None:
    assert "enable.idempotence" not in sink_options(BROKER | weaker).config
    with_it = sink_options(BROKER | weaker | {"kafka.enable.idempotence": "true"}).config
    assert with_it["enable.idempotence"] == "true", "librdkafka refuses the combination"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, r"kafka\.bootstrap\.servers: missing"),
        (BROKER | {"topc": "t"}, r"topc: no such option of the sink odradek; did you mean topic\?"),
        (BROKER | {"subscribe": "t"}, r"subscribe: no such option"),
        (BROKER | {"path": "t"}, r"path: a topic is named by the option topic"),
        (BROKER | {"kafka.key.serializer": "org.x.Y"}, r"kafka\.key\.serializer: .*make the key column"),
        (BROKER | {"kafka.value.serializer": "org.x.Y"}, r"kafka\.value\.serializer: .*make the value column"),
        (BROKER | {"kafka.transactional.id": "t"}, r"kafka\.transactional\.id: not supported: .*exactly-once"),
        (BROKER | {"kafka.linger.msec": "t"}, r"kafka\.linger\.msec: .*instead: linger\.ms"),
        (
            BROKER | {"kafka.ssl.truststore.location": "/t.jks"},
            r"kafka\.ssl\.truststore\.location: .*ssl\.ca\.location",
        ),
    ],
)
def test_unsupported_option_is_refused_by_name(given: dict[str, str], told: str) -> None:
    with pytest.raises(RefusedOption, match=told):
        sink_options(given)


def test_checkpoint_location_is_accepted() -> None:
    assert sink_options(BROKER | {"checkpointLocation": "/somewhere", "topic": "t"}).topic == "t"


def test_check_columns_returns_the_record_columns() -> None:
    everything = schema("key string, value binary, topic string, partition int, headers headers, offset long")
    assert check_columns(everything, None) == Columns(key=True, topic=True, partition=True, headers=True)
    assert check_columns(schema("value string"), "t") == Columns(key=False, topic=False, partition=False, headers=False)


def test_the_option_topic_wins_over_a_column_of_any_type() -> None:
    assert not check_columns(schema("value string, topic long"), "t").topic


@pytest.mark.parametrize(
    ("columns", "topic", "told"),
    [
        ("key string", "t", "there is no column value; the columns are key"),
        ("value string", None, "neither an option topic nor a column topic"),
        ("value long", "t", "the column value is bigint, and must be string or binary"),
        ("value string, key int", "t", "the column key is int, and must be string or binary"),
        ("value string, topic int", None, "the column topic is int, and must be string"),
        ("value string, partition long", "t", "the column partition is bigint, and must be int"),
        (
            "value string, headers names",
            "t",
            r"headers is array<string>, and must be array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_wrong_columns_are_refused(columns: str, topic: str | None, told: str) -> None:
    with pytest.raises(RefusedColumns, match=told):
        check_columns(schema(columns), topic)


def test_streaming_sink_writes_exactly_once_unless_told_otherwise() -> None:
    by_default = sink_options(BROKER | {"topic": "t", "checkpointLocation": "/somewhere"}).guarantee
    assert by_default is not None
    assert not by_default.is_required
    # Named after its query: another host may have the same path, and writes to the same cluster.
    assert by_default.sink is None
    assert sink_options(BROKER | {"delivery.guarantee": "exactly-once"}).guarantee.is_required  # type: ignore[union-attr]
    assert sink_options(BROKER | {"delivery.guarantee": "at-least-once"}).guarantee is None


def test_exactly_once_needs_an_idempotent_producer() -> None:
    assert sink_options(BROKER | {"kafka.acks": "1"}).guarantee is None
    with pytest.raises(RefusedOption, match=r"delivery\.guarantee: exactly-once needs an idempotent producer"):
        sink_options(BROKER | {"kafka.acks": "1", "delivery.guarantee": "exactly-once"})
    with pytest.raises(RefusedOption, match="'twice' is neither exactly-once nor at-least-once"):
        sink_options(BROKER | {"delivery.guarantee": "twice"})
