"""The driver's side of a streaming read, called as Spark calls it, on a real broker. No JVM needed."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from odradek.client.admin import Admin
from odradek.spark import reachability, topics_view
from odradek.spark.errors import ClusterUnavailable, DataLoss, RefusedOption, TopicMissing
from odradek.spark.options import stream_options
from odradek.spark.source import OdradekDataSource
from odradek.spark.stream_reader import OdradekStreamReader
from odradek.testing import Embedded
from support.topics import Records

ALL = ReadAllAvailable()


def stream(cluster: Admin, **options: str) -> OdradekStreamReader:
    quick = {"fetchOffset.retryIntervalMs": "1", "startingOffsets": "earliest"}
    given = {"kafka.bootstrap.servers": cluster.bootstrap, **quick, **options}
    return OdradekStreamReader(stream_options(given))


def planned(reader: OdradekStreamReader, start: dict, end: dict) -> list[str]:
    return [str(part.value) for part in reader.partitions(start, end)]


def test_query_reads_new_records_of_its_topics(cluster: Admin, records: Records):
    cluster.create_topic("followed", 2)
    records.put("followed", ["v"] * 3, partition=1)
    reader = stream(cluster, subscribe="followed")

    start = reader.initialOffset()
    first = reader.latestOffset(start, ALL)
    assert (start, first) == ({"followed": {"0": 0, "1": 0}}, {"followed": {"0": 0, "1": 3}})
    assert planned(reader, start, first) == ["followed-1 [0, 3)"]
    (part,) = reader.partitions(start, first)
    assert sum(batch.num_rows for batch in reader.read(part)) == 3

    assert json.dumps(reader.latestOffset(first, ALL)) == json.dumps(first)
    records.put("followed", ["v"] * 2, partition=0)
    second = reader.latestOffset(first, ALL)
    assert planned(reader, first, second) == ["followed-0 [0, 2)"]
    assert reader.reportLatestOffset() == second


def test_latest_start_is_looked_up_once_and_kept_by_an_empty_batch(cluster: Admin, records: Records):
    cluster.create_topic("pinned", 1)
    records.put("pinned", ["old"] * 3)
    reader = stream(cluster, subscribe="pinned", startingOffsets="latest")

    start = reader.initialOffset()
    records.put("pinned", ["new"] * 2)
    assert reader.initialOffset() == start == {"pinned": {"0": 3}}
    assert reader.latestOffset(start, ALL) == start
    assert planned(reader, start, start) == []
    assert planned(reader, start, reader.latestOffset(start, ALL)) == ["pinned-0 [3, 5)"]

    # A driver that died after it wrote the offsets of the first batch replays it, with a later start.
    again = stream(cluster, subscribe="pinned", startingOffsets="latest")
    moved_on = again.initialOffset()
    assert moved_on == {"pinned": {"0": 5}}
    assert planned(again, moved_on, start) == []
    assert planned(again, start, again.latestOffset(start, ALL)) == ["pinned-0 [3, 5)"]


def test_fixed_start_needs_no_empty_batch(cluster: Admin, records: Records):
    cluster.create_topic("earliest", 1)
    records.put("earliest", ["v"] * 3)
    reader = stream(cluster, subscribe="earliest")

    assert reader.latestOffset(reader.initialOffset(), ALL) == {"earliest": {"0": 3}}


def test_offsets_may_be_given_one_by_one(cluster: Admin, records: Records):
    cluster.create_topic("exact", 3)
    for partition in range(3):
        records.put("exact", ["v"] * 9, partition=partition)
    records.delete_before("exact", 2, partition=1)

    given = {"subscribe": "exact", "startingOffsets": '{"exact":{"0":4,"1":-2,"2":-1}}'}
    assert stream(cluster, **given).initialOffset() == {"exact": {"0": 4, "1": 2, "2": 9}}
    with pytest.raises(RefusedOption, match=r"not so for exact-1, exact-2"):
        stream(cluster, subscribe="exact", startingOffsets='{"exact":{"0":4}}').initialOffset()


def test_a_query_may_start_at_a_time(cluster: Admin, records: Records):
    cluster.create_topic("timed", 2)
    for number in range(5):
        records.put("timed", ["v"], partition=0, timestamp_ms=1000 + number)
    records.put("timed", ["v"], partition=1, timestamp_ms=500)

    with pytest.raises(
        RefusedOption, match=r"timed-1: no record has the starting timestamp .*ByTimestampStrategy=latest"
    ):
        stream(cluster, subscribe="timed", startingTimestamp="1003").initialOffset()
    lenient = {"subscribe": "timed", "startingOffsetsByTimestampStrategy": "latest"}
    assert stream(cluster, **lenient, startingTimestamp="1003").initialOffset() == {"timed": {"0": 3, "1": 1}}
    by_partition = '{"timed":{"0":1004,"1":400}}'
    assert stream(cluster, subscribe="timed", startingOffsetsByTimestamp=by_partition).initialOffset() == {
        "timed": {"0": 4, "1": 0}
    }
    with pytest.raises(RefusedOption, match="timed-1"):
        stream(cluster, subscribe="timed", startingOffsetsByTimestamp='{"timed":{"0":1}}').initialOffset()


def test_partitions_may_be_assigned(cluster: Admin, records: Records):
    cluster.create_topic("assigned", 3)
    records.put("assigned", ["v"], partition=2)
    reader = stream(cluster, assign='{"assigned":[0,2]}')

    assert reader.latestOffset(reader.initialOffset(), ALL) == {"assigned": {"0": 0, "2": 1}}
    with pytest.raises(TopicMissing, match="assigned-7"):
        stream(cluster, assign='{"assigned":[0,7]}').initialOffset()


def test_pattern_reads_topics_created_later_from_the_beginning(cluster: Admin, records: Records):
    reader = stream(cluster, subscribePattern="^shop-.*", startingOffsets="latest")
    start = reader.initialOffset()
    assert start == {}
    assert reader.latestOffset(start, ALL) == {}

    cluster.create_topic("shop-north", 1)
    cluster.create_topic("workshop-south", 1)
    records.put("shop-north", ["v"] * 2)

    end = reader.latestOffset(start, ALL)
    assert end == {"shop-north": {"0": 2}}
    assert planned(reader, start, end) == ["shop-north-0 [0, 2)"]


def test_pattern_leaves_out_internal_topics(broker: Embedded, cluster: Admin):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "group.id": "makes-it-exist"})
    cluster.create_topic("not-internal", 1)
    consumer.commit(offsets=[KafkaPartition("not-internal", 0, 0)], asynchronous=False)
    consumer.close()
    assert "__consumer_offsets" in cluster.topics(include_internal=True)

    found = stream(cluster, subscribePattern=".*").initialOffset()
    assert "not-internal" in found
    assert "__consumer_offsets" not in found


def test_new_partitions_are_read_from_the_beginning(broker: Embedded, cluster: Admin, records: Records):
    cluster.create_topic("widened", 1)
    reader = stream(cluster, subscribe="widened", startingOffsets="latest", maxOffsetsPerTrigger="2")
    start = reader.initialOffset()
    reader.latestOffset(start, ALL)

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    admin.create_partitions([NewPartitions("widened", 2)])["widened"].result()
    records.put("widened", ["v"] * 3, partition=1)

    end = reader.latestOffset(start, ALL)
    assert planned(reader, start, end) == ["widened-1 [0, 3)"]
    assert reader.latestOffset(start, ReadMaxRows(2)) == {"widened": {"0": 0, "1": 2}}


def test_a_limit_starts_where_a_new_partition_starts(cluster: Admin, records: Records):
    cluster.create_topic("late-north", 1)
    reader = stream(cluster, subscribePattern="^late-", maxOffsetsPerTrigger="2", failOnDataLoss="false")
    start = reader.initialOffset()
    cluster.create_topic("late-south", 1)
    records.put("late-south", ["v"] * 9)
    records.delete_before("late-south", 5)

    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == {"late-north": {"0": 0}, "late-south": {"0": 7}}


def test_read_limits_end_the_batch(cluster: Admin, records: Records):
    cluster.create_topic("limited", 2)
    records.put("limited", ["v"] * 30, partition=0)
    records.put("limited", ["v"] * 10, partition=1)
    start = {"limited": {"0": 0, "1": 0}}

    most = stream(cluster, subscribe="limited", maxOffsetsPerTrigger="8")
    assert most.getDefaultReadLimit() == ReadMaxRows(8)
    assert most.latestOffset(start, ReadMaxRows(8)) == {"limited": {"0": 6, "1": 2}}
    # The limit of the engine wins: Trigger.Once asks for everything, whatever the options are.
    assert most.latestOffset(start, ALL) == {"limited": {"0": 30, "1": 10}}
    assert stream(cluster, subscribe="limited").getDefaultReadLimit() == ALL


def test_batch_waits_for_min_offsets_or_the_trigger_delay(cluster: Admin, records: Records):
    cluster.create_topic("awaited", 1)
    limits = {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "6"}
    reader = stream(cluster, subscribe="awaited", **limits, maxTriggerDelay="1h")
    assert reader.getDefaultReadLimit() == ReadMinRows(5)
    start = reader.initialOffset()
    records.put("awaited", ["v"] * 4)

    # As in Spark, the first batch does not wait.
    first = reader.latestOffset(start, ReadMinRows(5))
    assert first == {"awaited": {"0": 4}}
    records.put("awaited", ["v"] * 4)
    assert reader.latestOffset(first, ReadMinRows(5)) == first
    records.put("awaited", ["v"] * 4)
    assert reader.latestOffset(first, ReadMinRows(5)) == {"awaited": {"0": 10}}

    impatient = stream(cluster, subscribe="awaited", **limits, maxTriggerDelay="0ms")
    assert impatient.latestOffset({"awaited": {"0": 10}}, ReadMinRows(5)) == {"awaited": {"0": 12}}
    assert impatient.latestOffset({"awaited": {"0": 11}}, ReadMinRows(5)) == {"awaited": {"0": 12}}


def test_available_now_reads_to_a_fixed_end(cluster: Admin, records: Records):
    cluster.create_topic("now", 1)
    records.put("now", ["v"] * 5)
    reader = stream(cluster, subscribe="now", minOffsetsPerTrigger="3", maxOffsetsPerTrigger="3", maxTriggerDelay="1h")
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()

    offset, seen = reader.initialOffset(), []
    while (next_offset := reader.latestOffset(offset, limit)) != offset:
        records.put("now", ["later"])
        seen.append(next_offset["now"]["0"])
        offset = next_offset
    assert seen == [3, 5]


def test_min_partitions_splits_by_offsets_only(cluster: Admin):
    reader = stream(cluster, subscribe="any", minPartitions="4")
    start, end = {"any": {"0": 10}}, {"any": {"0": 50}}

    assert planned(reader, start, end) == ["any-0 [10, 20)", "any-0 [20, 30)", "any-0 [30, 40)", "any-0 [40, 50)"]
    assert planned(stream(cluster, subscribe="any", minPartitions="4"), start, end) == planned(reader, start, end)


def test_a_small_batch_is_read_by_one_task(cluster: Admin, records: Records):
    cluster.create_topic("packed", 3)
    for partition in range(3):
        records.put("packed", [f"{partition}-{number}" for number in range(4)], partition=partition)
    reader = stream(cluster, subscribe="packed", packRecords="8")
    start = reader.initialOffset()

    first, second = reader.partitions(start, reader.latestOffset(start, ALL))

    assert (str(first.value), str(second.value)) == ("packed-0 [0, 4), packed-1 [0, 4)", "packed-2 [0, 4)")
    first = pickle.loads(pickle.dumps(first))
    values = [value.decode() for batch in reader.read(first) for value in batch["value"].to_pylist()]
    assert values == ["0-0", "0-1", "0-2", "0-3", "1-0", "1-1", "1-2", "1-3"]


def test_a_topic_that_does_not_exist_is_named(cluster: Admin):
    with pytest.raises(TopicMissing, match=r"nowhere: no such topic .* at 127\.0\.0\.1:\d+; create it"):
        stream(cluster, subscribe="nowhere").initialOffset()
    assert "nowhere" not in cluster.topics()


def test_topic_deleted_while_it_is_read_ends_the_query_unless_fail_on_data_loss_is_false(
    cluster: Admin, records: Records, caplog: pytest.LogCaptureFixture
):
    cluster.create_topic("doomed", 1)
    cluster.create_topic("spared", 1)
    records.put("doomed", ["v"] * 3)
    strict, lenient = (stream(cluster, subscribe="doomed,spared", failOnDataLoss=fails) for fails in ("true", "false"))
    start = strict.initialOffset()
    cluster.delete_topics(["doomed"])

    with pytest.raises(DataLoss, match=r"doomed-0 no longer exist.*failOnDataLoss"):
        strict.latestOffset(start, ALL)
    with pytest.raises(DataLoss, match="doomed-0 no longer exist"):
        strict.partitions({"doomed": {"0": 1}}, {})
    end = lenient.latestOffset(start, ALL)
    assert end == {"spared": {"0": 0}}
    assert planned(lenient, start, end) == []
    assert "doomed-0 no longer exist" in caplog.text


def test_a_topic_created_again_is_noticed(cluster: Admin, records: Records):
    cluster.create_topic("reborn", 1)
    records.put("reborn", ["v"] * 9)
    strict, lenient = (stream(cluster, subscribe="reborn", failOnDataLoss=fails) for fails in ("true", "false"))
    start = {"reborn": {"0": 9}}
    cluster.delete_topics(["reborn"])
    cluster.create_topic("reborn", 1)
    records.put("reborn", ["v"] * 2)

    with pytest.raises(DataLoss, match="reborn-0 now ends at offset 2, but this query has reached offset 9"):
        strict.latestOffset(start, ALL)
    assert lenient.latestOffset(start, ALL) == {"reborn": {"0": 2}}
    assert planned(lenient, start, {"reborn": {"0": 2}}) == []


def test_end_offset_before_the_known_offset_is_requested_again(cluster: Admin, records: Records):
    """A new leader may not know its high watermark yet. That is not a data loss."""
    cluster.create_topic("behind", 1)
    records.put("behind", ["v"] * 2)
    patient = {"fetchOffset.retryIntervalMs": "20", "fetchOffset.numRetries": "1000"}
    reader = stream(cluster, subscribe="behind", **patient)
    reader.initialOffset()

    with ThreadPoolExecutor() as driver:
        asked = driver.submit(reader.latestOffset, {"behind": {"0": 3}}, ALL)
        Records(cluster.bootstrap).put("behind", ["v"])
        assert asked.result(30) == {"behind": {"0": 3}}


def test_progress_is_committed_to_the_group(cluster: Admin, records: Records):
    cluster.create_topic("progress", 1)
    records.put("progress", ["v"] * 5)
    reader = stream(cluster, subscribe="progress", **{"kafka.group.id": "watched"})
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert reader.latestOffset(end, ALL) == end  # Spark asks again when the batch is done, and then is idle

    reader._progress.flush(60)
    assert cluster.committed("watched") == {("progress", 0): 5}
    reader.stop()


def test_default_group_is_the_application_name(cluster: Admin, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ODRADEK_SPARK_APPLICATION", raising=False)
    assert stream(cluster, subscribe="any")._progress is None
    monkeypatch.setenv("ODRADEK_SPARK_APPLICATION", "shop")
    assert stream(cluster, subscribe="any")._progress._group == "shop"


def test_failed_progress_commit_is_retried_and_does_not_fail_the_query(
    cluster: Admin, records: Records, monkeypatch: pytest.MonkeyPatch
):
    """The group has an active member, so its coordinator refuses offsets from the admin client."""
    from odradek.spark import group_progress

    monkeypatch.setattr(group_progress, "RETRY_S", 0.0)
    cluster.create_topic("disputed", 1)
    records.put("disputed", ["v"] * 5)
    member = Consumer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "group.id": "disputed"})
    member.subscribe(["disputed"])
    while not member.assignment():
        member.poll(0.1)
    reader = stream(cluster, subscribe="disputed", **{"kafka.group.id": "disputed"})
    end = {"disputed": {"0": 5}}
    assert reader.latestOffset(end, ALL) == end
    reader._progress.flush(0.2)
    assert cluster.committed("disputed") == {}

    member.close()
    while not cluster.committed("disputed"):
        assert reader.latestOffset(end, ALL) == end
        reader._progress.flush(60)
    assert cluster.committed("disputed") == {("disputed", 0): 5}


def test_query_waits_for_a_restarting_broker(tmp_path: Path):
    with Embedded(data=tmp_path) as broker:
        cluster, port = Admin(broker.bootstrap_servers), broker.port
        cluster.create_topic("survives", 1)
        reader = stream(cluster, subscribe="survives", **{"kafka.group.id": "survivors"})
        start = reader.initialOffset()
        reader.latestOffset(start, ALL)
    with Embedded(data=tmp_path, port=port) as broker:
        Records(broker.bootstrap_servers).put("survives", ["v"] * 3)
        assert reader.latestOffset(start, ALL) == {"survives": {"0": 3}}


def test_unreachable_cluster_at_the_start_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reachability, "PATIENCE_S", 0.1)
    told = r"no broker accepts a connection at 127\.0\.0\.1:1 \(Connection refused\)\. Start one"
    with pytest.raises(ClusterUnavailable, match=told):
        stream(Admin("127.0.0.1:1"), subscribe="any").initialOffset()


def test_one_bootstrap_server_that_accepts_is_enough(cluster: Admin):
    cluster.create_topic("reached", 1)
    assert stream(Admin(f"127.0.0.1:1,{cluster.bootstrap}"), subscribe="reached").initialOffset() == {
        "reached": {"0": 0}
    }


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT", "PLAINTEXT"])
def test_addresses_may_name_their_protocol(broker: Embedded, protocol: str):
    reachability.require_reachable(f"{protocol}://{broker.bootstrap_servers}")


def test_malformed_address_is_refused_with_the_option_name():
    with pytest.raises(RefusedOption, match=r"kafka\.bootstrap\.servers: 'nowhere:x': a port is a number"):
        stream(Admin("nowhere:x"), subscribe="any").initialOffset()


def test_cluster_that_becomes_unreachable_is_named_after_all_attempts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(topics_view, "REQUEST_TIMEOUT_S", 0.2)
    with Embedded() as broker:
        cluster = Admin(broker.bootstrap_servers)
        cluster.create_topic("leaves", 1)
        reader = stream(cluster, subscribe="leaves")
        start = reader.initialOffset()
    with pytest.raises(ClusterUnavailable, match=r"did not return offsets: .*(refused|brokers are down)"):
        reader.latestOffset(start, ALL)


def test_metadata_is_cached_for_its_ttl(cluster: Admin, records: Records):
    cluster.create_topic("cached-a", 1)
    reader = stream(cluster, subscribePattern="^cached-", **{"partition.metadata.cache.ttl.ms": "3600000"})
    start = reader.initialOffset()
    cluster.create_topic("cached-b", 1)

    assert reader.latestOffset(start, ALL) == start


def test_reader_can_be_pickled_for_executors(cluster: Admin):
    cluster.create_topic("pickled", 1)
    reader = stream(cluster, subscribe="pickled", **{"kafka.group.id": "pickled"})
    reader.latestOffset(reader.initialOffset(), ALL)

    assert pickle.loads(pickle.dumps(reader))._options == reader._options


def test_refused_stream_reader_raises_the_reason_when_used():
    """Spark replaces an exception of streamReader itself by an UnboundLocalError."""
    options = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "endingOffsets": "latest"}
    source = OdradekDataSource(options)
    refused = pickle.loads(pickle.dumps(source.streamReader(schema=source.schema())))

    for used in (refused.initialOffset, refused.getDefaultReadLimit, refused.prepareForTriggerAvailableNow):
        with pytest.raises(RefusedOption, match="endingOffsets"):
            used()
    with pytest.raises(RefusedOption, match="endingOffsets"):
        refused.latestOffset({}, ALL)
    refused.stop()


def test_the_schema_is_fixed():
    from pyspark.sql.types import StringType, StructType

    source = OdradekDataSource({"kafka.bootstrap.servers": "b:1", "subscribe": "t"})
    custom = StructType().add("value", StringType())

    with pytest.raises(RefusedOption, match=r"leave out \.schema"):
        source.reader(schema=custom)
    with pytest.raises(RefusedOption, match=r"leave out \.schema"):
        source.streamReader(schema=custom).initialOffset()


def test_impossible_client_config_is_refused_on_load():
    from odradek.client.java_names import RefusedConfig

    source = OdradekDataSource(
        {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "kafka.ssl.engine.factory.class": "X"}
    )

    with pytest.raises(RefusedConfig, match=r"ssl\.engine\.factory\.class"):
        source.schema()
