"""Options of a read: the names, defaults and refusals of Spark's Kafka connector."""

from __future__ import annotations

import pytest

from odradek.spark.errors import RefusedOption
from odradek.spark.offsets import Edge, TopicPartition
from odradek.spark.options import (
    Assigned,
    AtTimestamp,
    AtTimestamps,
    Exactly,
    Pattern,
    Topics,
    batch_options,
    read_options,
    stream_options,
)

BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
READ = {**BROKERS, "subscribe": "orders"}
ORDERS_0 = TopicPartition("orders", 0)


def test_defaults_are_those_of_the_kafka_connector():
    stream, batch = stream_options(READ), batch_options(READ)

    assert (stream.start, batch.start, batch.end) == (Edge.LATEST, Edge.EARLIEST, Edge.LATEST)
    assert stream.selection == Topics(("orders",))
    assert (stream.fail_on_data_loss, stream.include_headers, stream.read_committed) == (True, False, True)
    assert (stream.fetch_attempts, stream.fetch_interval_s, stream.poll_timeout_s) == (3, 1.0, 120.0)
    assert (stream.rows_max, stream.rows_min, stream.trigger_delay_s_max) == (None, None, 900.0)
    assert (stream.tasks_min, stream.task_records_max, stream.metadata_ttl_s) == (None, None, 0.0)
    assert (stream.group_id_prefix, stream.group_id) == ("spark-kafka-source", None)


def test_option_names_are_case_insensitive():
    options = stream_options(
        {
            "KAFKA.bootstrap.servers": "b:1",
            "SubscribePattern": "a.*",
            "MAXOFFSETSPERTRIGGER": "10",
            "minOffsetsPerTrigger": "5",
            "maxTriggerDelay": "2m",
            "failondataloss": "FALSE",
            "includeHeaders": "True",
            "kafka.isolation.level": "read_uncommitted",
            "kafka.group.id": "g",
            "fetchOffset.numRetries": "7",
            "fetchOffset.retryIntervalMs": "250",
            "kafkaConsumer.pollTimeoutMs": "5000",
            "partition.metadata.cache.ttl.ms": "3000",
            "minPartitions": "4",
            "maxRecordsPerPartition": "100",
        }
    )

    assert options.selection == Pattern("a.*")
    assert (options.rows_max, options.rows_min, options.trigger_delay_s_max) == (10, 5, 120.0)
    assert (options.fail_on_data_loss, options.include_headers, options.read_committed) == (False, True, False)
    assert (options.fetch_attempts, options.fetch_interval_s, options.poll_timeout_s) == (7, 0.25, 5.0)
    assert (options.tasks_min, options.task_records_max, options.metadata_ttl_s) == (4, 100, 3.0)
    assert options.group_id == "g"
    assert options.kafka["bootstrap.servers"] == "b:1"


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ({"startingOffsets": "EARLIEST"}, Edge.EARLIEST),
        ({"startingOffsets": '{"orders":{"0":23}}'}, Exactly({ORDERS_0: 23})),
        ({"startingOffsets": '{"orders":{"0":-2}}'}, Exactly({ORDERS_0: -2})),
        ({"startingTimestamp": " 17 "}, AtTimestamp(17)),
        ({"startingOffsetsByTimestamp": '{"orders":{"0":17}}'}, AtTimestamps({ORDERS_0: 17})),
        # the most precise option wins
        ({"startingTimestamp": "17", "startingOffsets": "earliest"}, AtTimestamp(17)),
        (
            {"startingOffsetsByTimestamp": '{"orders":{"0":17}}', "startingOffsets": "latest"},
            AtTimestamps({ORDERS_0: 17}),
        ),
    ],
)
def test_starting_options_give_the_starting_position(given, start):
    assert stream_options(READ | given).start == start


def test_partitions_can_be_assigned():
    options = stream_options(BROKERS | {"assign": '{"a":[0,1],"b":[2]}'})

    assert options.selection == Assigned(
        frozenset({TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 2)})
    )


@pytest.mark.parametrize(
    ("given", "pinned"),
    [
        ({}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": '{"orders":{"0":5}}'}, False),
        ({"startingOffsets": '{"orders":{"0":5,"1":-1}}'}, True),
        ({"startingTimestamp": "17"}, False),
        ({"startingTimestamp": "17", "startingOffsetsByTimestampStrategy": "latest"}, True),
    ],
)
def test_starts_at_latest_is_true_when_a_second_lookup_may_differ(given, pinned):
    assert stream_options(READ | given).starts_at_latest is pinned


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kafka.auto.offset.reset": "earliest"}, "use the option startingOffsets"),
        ({"kafka.key.deserializer": "X"}, "keys are always bytes"),
        ({"kafka.value.deserializer": "X"}, "values are always bytes"),
        ({"kafka.enable.auto.commit": "true"}, "commits what a query has finished"),
        ({"kafka.interceptor.classes": "X"}, "interceptors can change records"),
        ({"kafka.isolation.level": "serializable"}, "read_committed or read_uncommitted"),
        ({"kafka.bootstrap.servers": " "}, "where the brokers are"),
        ({"subscribe": " , "}, "names no topic"),
        ({"assign": '{"a":[0]}'}, "exactly one of subscribe, subscribePattern, assign"),
        ({"minPartitions": "0"}, "minPartitions: must be positive"),
        ({"maxRecordsPerPartition": "-3"}, "maxRecordsPerPartition: must be positive"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "9 is more than maxOffsetsPerTrigger"),
        ({"maxTriggerDelay": "15 parsecs"}, "such as 15m"),
        ({"failOnDataLoss": "perhaps"}, "true or false, not perhaps"),
        ({"fetchOffset.numRetries": "0"}, "at least 1"),
        ({"partition.metadata.cache.ttl.ms": "0"}, "or -1 for no caching"),
        ({"startingOffsets": "newest"}, "expected earliest, latest or offsets like"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "-3 is not an offset of orders-0"),
        ({"startingOffsets": '{"orders":{"0":"5"}}'}, "expected earliest, latest or offsets like"),
        ({"startingOffsetsByTimestamp": "[]"}, "expected timestamps in ms"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
        ({"subscrib": "orders"}, "did you mean subscribe?"),
        ({"failOnDataLos": "false"}, "did you mean failOnDataLoss?"),
        ({"path": "/somewhere"}, "path: no such option"),
        ({"topic": "orders"}, "use the option subscribe"),
    ],
)
def test_refusal_names_the_option_and_what_to_do(given, told):
    for parse in (stream_options, batch_options):
        with pytest.raises(RefusedOption) as refused:
            parse(READ | given)
        assert told in str(refused.value)


def test_invalid_regular_expression_is_refused():
    with pytest.raises(RefusedOption, match="not a Python regular expression"):
        stream_options(BROKERS | {"subscribePattern": "a("})


def test_read_without_a_selection_is_refused():
    with pytest.raises(RefusedOption, match="none is given"):
        batch_options(BROKERS)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_ending_option_is_refused_in_a_stream(name):
    with pytest.raises(RefusedOption, match=f"{name}: a streaming query has no end"):
        stream_options(READ | {name: "latest"})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"startingOffsets": "latest"}, "cannot start at the latest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "cannot start at the latest"),
        ({"endingOffsets": "earliest"}, "cannot end at the earliest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "cannot end at the earliest"),
        ({"startingOffsets": '{"orders":{"0":9}}', "endingOffsets": '{"orders":{"0":5}}'}, "9 is past the end 5"),
        ({"startingOffsets": '{"orders":{"0":1}}', "endingOffsets": '{"orders":{"1":5}}'}, "not the same"),
        ({"startingTimestamp": "9", "endingTimestamp": "5"}, "past endingTimestamp"),
    ],
)
def test_batch_with_impossible_start_or_end_is_refused(given, told):
    with pytest.raises(RefusedOption) as refused:
        batch_options(READ | given)
    assert told in str(refused.value)


def test_batch_may_end_at_the_latest_offset_of_a_partition():
    ends = {"startingOffsets": '{"orders":{"0":9}}', "endingOffsets": '{"orders":{"0":-1}}'}

    assert batch_options(READ | ends).end == Exactly({ORDERS_0: -1})


def test_trigger_limits_are_ignored_in_a_batch_with_a_warning(caplog):
    batch_options(READ | {"maxOffsetsPerTrigger": "5"})

    assert "maxOffsetsPerTrigger is for streaming queries" in caplog.text


def test_read_options_are_refused_only_if_neither_batch_nor_stream_accepts_them():
    assert read_options(READ | {"startingOffsets": "latest"}).start == Edge.LATEST
    assert read_options(READ | {"endingOffsets": "latest"}).end == Edge.LATEST
    with pytest.raises(RefusedOption, match="cannot start at the latest"):
        read_options(READ | {"startingOffsets": "latest", "endingOffsets": "latest"})


def test_include_position_and_position_rank_are_parsed():
    options = stream_options(READ | {"includePosition": "true", "positionRank": "65535"})
    assert (options.include_position, options.position_rank) == (True, 65535)
    assert not stream_options(READ).include_position
    for rank in ("-1", "65536"):
        with pytest.raises(RefusedOption, match="positionRank: must be from 0 to 65535"):
            stream_options(READ | {"positionRank": rank})


@pytest.mark.parametrize("name", ["minPartitions", "maxRecordsPerPartition"])
def test_include_position_refuses_options_that_split_partitions(name):
    with pytest.raises(RefusedOption, match=f"{name}: not with includePosition"):
        stream_options(READ | {"includePosition": "true", name: "2"})


def test_pack_records_with_min_partitions_is_refused():
    assert stream_options(READ | {"packRecords": "500"}).pack_records_max == 500
    with pytest.raises(RefusedOption, match="packRecords: not with minPartitions"):
        stream_options(READ | {"packRecords": "500", "minPartitions": "2"})


ALIGNED = READ | {"alignTopics": "b, a", "maxOffsetsPerTrigger": "10"}


def test_align_topics_is_refused_in_a_batch():
    assert stream_options(ALIGNED).align_topics == read_options(ALIGNED).align_topics == ("a", "b")
    with pytest.raises(RefusedOption, match="alignTopics: this option is for streaming queries"):
        batch_options(ALIGNED)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (READ | {"alignTopics": "a"}, "alignTopics: it needs maxOffsetsPerTrigger"),
        (ALIGNED | {"alignTopics": " , "}, "alignTopics: it names no topic"),
        (ALIGNED | {"minOffsetsPerTrigger": "1"}, "minOffsetsPerTrigger: not with alignTopics"),
        (ALIGNED | {"startingOffsets": '{"orders":{"0":1}}'}, "alignTopics: a start per partition"),
    ],
)
def test_impossible_alignment_is_refused(given, problem):
    with pytest.raises(RefusedOption, match=problem):
        stream_options(given)


def test_ticks_are_refused_in_a_batch():
    options = stream_options(READ | {"tickEvery": "500", "tickFile": "/tmp/now"})
    assert (options.tick_every_ms, options.tick_file) == (500, "/tmp/now")
    for name, value in (("tickEvery", "500"), ("tickFile", "/tmp/now")):
        with pytest.raises(RefusedOption, match=f"{name}: this option is for streaming queries"):
            batch_options(READ | {name: value})
