"""A task reads exactly the records of its range, or raises a clear error. No Spark needed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer

from odradek.client.admin import Admin
from odradek.protocol.batch import CONTROL, CRC, CRC_POSITION, TRANSACTIONAL, checksum, encode_batch, iter_batches
from odradek.protocol.control_records import ControlType, encode_control_key
from odradek.protocol.records import Record
from odradek.spark import arrow_batches, clients, consumers, raw_fetching
from odradek.spark.arrow_schema import arrow_schema
from odradek.spark.errors import BadHeader, DataLoss, ReadTimeout
from odradek.spark.offsets import TopicPartition
from odradek.spark.options import batch_options
from odradek.spark.planning import OffsetRange
from odradek.spark.range_reading import POLL_S, ROWS_MAX, read_range
from odradek.testing import Embedded
from support.topics import Records

# Any other client option makes the task read with librdkafka, which supports all of them.
BY_LIBRDKAFKA = {"kafka.check.crcs": "true"}


def wanted(topic: str, start: int, end: int, **more: bool) -> OffsetRange:
    return OffsetRange(topic=topic, partition=0, start=start, end=end, **more)


def read(bootstrap: str, range_: OffsetRange, **options: str) -> list[dict]:
    """Read with raw fetching and with librdkafka; the results must be equal."""
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": range_.topic, **options}
    fast = list(read_range(batch_options(given), range_))
    slow = list(read_range(batch_options(given | BY_LIBRDKAFKA), range_))
    for batch in fast + slow:
        batch.validate(full=True)
    rows, same_rows = ([row for batch in batches for row in batch.to_pylist()] for batches in (fast, slow))
    assert rows == same_rows
    return rows


def offsets(rows: list[dict]) -> list[int]:
    return [row["offset"] for row in rows]


def test_row_has_all_fields_of_its_record(cluster: Admin, records: Records):
    cluster.create_topic("all", 1)
    records.put("all", [b"v1"], key="k", headers=[("a", b"1"), ("b", None)], timestamp_ms=1_700_000_000_123)
    records.put("all", [None, b""], timestamp_ms=1)

    first, second, third = read(cluster.bootstrap, wanted("all", 0, 3), includeHeaders="true")

    assert first.pop("timestamp").timestamp() == 1_700_000_000.123
    assert first == {
        "key": b"k",
        "value": b"v1",
        "topic": "all",
        "partition": 0,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, None)
    assert third["value"] == b""


def test_headers_are_the_same_with_raw_fetching_and_librdkafka(cluster: Admin, records: Records):
    cluster.create_topic("mixed", 1)
    some = [("größe", "µ".encode()), ("", b""), ("same", None), ("same", b"x" * 300)]
    many = [(f"n{number}", b"%d" % number) for number in range(200)]  # which raw fetching hands over to librdkafka
    for number in range(40):
        records.put("mixed", [b"v"], headers=some[: number % 5])
    records.put("mixed", [b"v"], headers=many)

    rows = read(cluster.bootstrap, wanted("mixed", 3, 41), includeHeaders="true")

    found = [[(header["key"], header["value"]) for header in row["headers"] or ()] for row in rows]
    assert found == [*(some[: number % 5] for number in range(3, 40)), many]
    assert [row["headers"] is None for row in rows[:5]] == [False, False, True, False, False]


def test_log_append_time_is_marked_in_timestamp_type(cluster: Admin, records: Records):
    cluster.create_topic("appended", 1, {"message.timestamp.type": "LogAppendTime"})
    records.put("appended", [b"v"], timestamp_ms=1)

    (row,) = read(cluster.bootstrap, wanted("appended", 0, 1))

    assert row["timestampType"] == 1
    assert row["timestamp"].timestamp() > 1_700_000_000


def test_range_is_read_exactly_from_start_to_end(cluster: Admin, records: Records):
    cluster.create_topic("middle", 1)
    records.put("middle", (str(number) for number in range(1000)))

    assert offsets(read(cluster.bootstrap, wanted("middle", 100, 130))) == list(range(100, 130))
    assert offsets(read(cluster.bootstrap, wanted("middle", 999, 1000))) == [999]
    assert read(cluster.bootstrap, wanted("middle", 5, 5)) == []


def test_task_looks_up_latest_again(cluster: Admin, records: Records):
    cluster.create_topic("growing", 1)
    planned = wanted("growing", 0, 0, to_latest=True)
    assert read(cluster.bootstrap, planned) == []

    records.put("growing", ["a", "b"])

    assert offsets(read(cluster.bootstrap, planned)) == [0, 1]


def test_large_ranges_come_in_bounded_batches(cluster: Admin, records: Records, monkeypatch: pytest.MonkeyPatch):
    cluster.create_topic("large", 1)
    records.put("large", (b"x" * 100 for _ in range(25_000)))
    given = batch_options({"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "large"})

    assert raw_fetching.suits(given)
    batches = list(read_range(given, wanted("large", 0, 25_000)))
    assert sum(batch.num_rows for batch in batches) == 25_000
    assert max(batch.nbytes for batch in batches) < 2 * raw_fetching.FETCH_BYTES_MAX

    given = batch_options({"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "large", **BY_LIBRDKAFKA})
    batches = list(read_range(given, wanted("large", 0, 25_000)))
    assert sum(batch.num_rows for batch in batches) == 25_000
    assert max(batch.num_rows for batch in batches) <= ROWS_MAX
    assert batches[0].schema.equals(arrow_schema(False))

    monkeypatch.setattr(arrow_batches, "BATCH_BYTES_MAX", 10_000)
    batches = list(read_range(given, wanted("large", 0, 2_000)))
    assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(2_000))
    assert max(batch.num_rows for batch in batches) <= 100


def test_small_range_does_not_wait_for_the_consume_timeout(cluster: Admin, records: Records):
    """`consume(10 000)` would wait for its whole timeout if only 100 records are left."""
    cluster.create_topic("small", 1)
    records.put("small", ["v"] * 100)
    read(cluster.bootstrap, wanted("small", 0, 1))

    took_s = []
    for _ in range(10):
        begun_s = time.perf_counter()
        assert len(read(cluster.bootstrap, wanted("small", 0, 100))) == 100
        took_s.append(time.perf_counter() - begun_s)
    assert min(took_s) < POLL_S


def test_consumers_are_reused_by_the_next_task(cluster: Admin, records: Records):
    cluster.create_topic("kept", 1)
    records.put("kept", ["v"] * 10)
    read(cluster.bootstrap, wanted("kept", 0, 10))
    idle = dict(consumers._idle)

    for start in range(9):
        assert offsets(read(cluster.bootstrap, wanted("kept", start, start + 1))) == [start]
    assert dict(consumers._idle) == idle

    for prefix in "abcdefgh":
        read(cluster.bootstrap, wanted("kept", 0, 1), groupIdPrefix=prefix)
    assert len(consumers._idle) == consumers.IDLE_MAX


def test_a_consumer_whose_brokers_are_gone_is_closed(cluster: Admin, records: Records):
    with Embedded() as gone:
        Admin(gone.bootstrap_servers).create_topic("theirs", 1)
        Records(gone.bootstrap_servers).put("theirs", ["v"])
        read(gone.bootstrap_servers, wanted("theirs", 0, 1))
        theirs = {key for key in consumers._idle if ("bootstrap.servers", gone.bootstrap_servers) in key}
        assert theirs
    cluster.create_topic("ours", 1)
    records.put("ours", ["v"])
    deadline = time.monotonic() + 20
    while theirs & consumers._idle.keys() and time.monotonic() < deadline:
        read(cluster.bootstrap, wanted("ours", 0, 1))
    assert not theirs & consumers._idle.keys()


def test_consumer_returns_to_the_pool_when_the_query_needs_no_more_rows(cluster: Admin, records: Records):
    cluster.create_topic("limited", 1)
    records.put("limited", ["v"] * 10)
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "limited", "groupIdPrefix": "limited"}
    given |= BY_LIBRDKAFKA
    reading = read_range(batch_options(given), wanted("limited", 0, 10))

    next(reading)
    reading.close()

    assert any(("group.id", "limited-executor") in key for key in consumers._idle)


def test_records_deleted_by_retention_are_a_data_loss(
    cluster: Admin, records: Records, caplog: pytest.LogCaptureFixture
):
    cluster.create_topic("aged", 1)
    records.put("aged", ["v"] * 10)
    records.delete_before("aged", 6)

    with pytest.raises(DataLoss, match=r"records 2 to 5 of aged-0 .* begins at offset 6: .* failOnDataLoss to false"):
        read(cluster.bootstrap, wanted("aged", 2, 10))

    assert offsets(read(cluster.bootstrap, wanted("aged", 2, 10), failOnDataLoss="false")) == [6, 7, 8, 9]
    assert "skipped, because failOnDataLoss is false" in caplog.text
    assert read(cluster.bootstrap, wanted("aged", 2, 5), failOnDataLoss="false") == []


def test_retention_is_not_a_data_loss_for_a_read_from_earliest(cluster: Admin, records: Records):
    cluster.create_topic("from-earliest", 1)
    records.put("from-earliest", ["v"] * 10)
    records.delete_before("from-earliest", 6)

    assert offsets(read(cluster.bootstrap, wanted("from-earliest", 0, 10, from_earliest=True))) == [6, 7, 8, 9]


def test_recreated_topic_is_a_data_loss(cluster: Admin, records: Records):
    cluster.create_topic("again", 1)
    records.put("again", ["v"] * 10)
    cluster.delete_topics(["again"])
    cluster.create_topic("again", 1)
    records.put("again", ["w"] * 3)

    with pytest.raises(DataLoss, match=r"records 7 to 9 of again-0 .* now ends at offset 3: it was deleted"):
        read(cluster.bootstrap, wanted("again", 7, 10))
    assert read(cluster.bootstrap, wanted("again", 7, 10), failOnDataLoss="false") == []


def test_deleted_topic_is_a_data_loss(cluster: Admin):
    quick = {"fetchOffset.retryIntervalMs": "1"}

    with pytest.raises(DataLoss, match="the partition no longer exists"):
        read(cluster.bootstrap, wanted("gone", 0, 3), **quick)
    assert read(cluster.bootstrap, wanted("gone", 0, 3), failOnDataLoss="false", **quick) == []


def test_topic_deleted_during_the_read_is_a_data_loss_after_several_attempts(
    cluster: Admin, records: Records, caplog: pytest.LogCaptureFixture
):
    cluster.create_topic("going", 1)
    records.put("going", ["v"] * 3)
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "going", **BY_LIBRDKAFKA}
    given |= {"failOnDataLoss": "false", "fetchOffset.retryIntervalMs": "1"}
    reading = read_range(batch_options(given), wanted("going", 0, 5))
    seen = next(reading).num_rows

    cluster.delete_topics(["going"])

    assert seen + sum(batch.num_rows for batch in reading) <= 3
    assert "to 4 of going-0 cannot be read: the partition no longer exists" in caplog.text


def test_read_fails_after_the_poll_timeout_when_records_do_not_arrive(cluster: Admin, records: Records):
    cluster.create_topic("short", 1)
    records.put("short", ["v"] * 3)

    with pytest.raises(ReadTimeout, match=r"short-0 \[0, 5\) from offset 3 for 0 s.*pollTimeoutMs"):
        read(cluster.bootstrap, wanted("short", 0, 5), **{"kafkaConsumer.pollTimeoutMs": "300"})


def test_read_timeout_names_the_unreachable_broker():
    with pytest.raises(ReadTimeout, match=r"refused"):
        read("127.0.0.1:1", wanted("any", 0, 5), **{"kafkaConsumer.pollTimeoutMs": "300"})


@pytest.mark.parametrize(
    "options",
    [{}, {"kafka.max.partition.fetch.bytes": "100000", "kafka.queued.max.messages.kbytes": "200"}],
    ids=["fast", "librdkafka"],
)
def test_read_continues_after_a_broker_restart_in_the_middle_of_a_range(tmp_path: Path, options: dict[str, str]):
    with Embedded(data=tmp_path) as broker:
        bootstrap, port = broker.bootstrap_servers, broker.port
        Admin(bootstrap).create_topic("restarted", 1)
        Records(bootstrap).put("restarted", (b"x" * 1000 for _ in range(20_000)))
        given = batch_options({"kafka.bootstrap.servers": bootstrap, "subscribe": "restarted", **options})
        reading = read_range(given, wanted("restarted", 0, 20_000))
        first = next(reading)
    with Embedded(data=tmp_path, port=port):
        assert pa.Table.from_batches([first, *reading])["offset"].to_pylist() == list(range(20_000))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read(cluster: Admin, codec: str):
    cluster.create_topic(codec, 1)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "compression.type": codec, "linger.ms": 5}
    )
    for number in range(2_000):
        producer.produce(codec, f"{number} is a number", str(number))
    producer.flush()

    rows = read(cluster.bootstrap, wanted(codec, 3, 1_900))
    assert [row["value"].decode() for row in rows] == [f"{number} is a number" for number in range(3, 1_900)]


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits longer for metadata, also on a busy machine. Without a known leader the task would use librdkafka."""
    monkeypatch.setattr("odradek.spark.range_reading.METADATA_S", 30.0)


@pytest.mark.usefixtures("unhurried")
def test_raw_fetching_finds_the_leader_again_after_it_moved(cluster: Admin, records: Records):
    cluster.create_topic("moved", 1)
    records.put("moved", ["v"] * 5)
    given = batch_options(
        {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "moved", "groupIdPrefix": "moved"}
    )
    assert len(list(read_range(given, wanted("moved", 0, 5)))) == 1
    (consumer,) = [idle for key, idle in consumers._idle.items() if ("group.id", "moved-executor") in key]
    leader = consumer.leaders[TopicPartition("moved", 0)]
    consumer.leaders[TopicPartition("moved", 0)] = ("127.0.0.1", 1)

    for _ in range(2):  # the first read continues with librdkafka, the second looks up the leader
        assert sum(batch.num_rows for batch in read_range(given, wanted("moved", 0, 5))) == 5
    assert consumer.leaders[TopicPartition("moved", 0)] == leader


@pytest.mark.usefixtures("unhurried")
def test_connection_is_kept_unless_a_request_is_in_flight(broker: Embedded, cluster: Admin, records: Records):
    leader = ("127.0.0.1", broker.port)
    cluster.create_topic("connected", 1)
    records.put("connected", (bytes(1000) for _ in range(10_000)))
    given = batch_options({"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "connected"})
    list(read_range(given, wanted("connected", 0, 10)))
    kept = raw_fetching._idle[leader]

    list(read_range(given, wanted("connected", 0, 10_000)))
    assert raw_fetching._idle[leader] is kept

    reading = read_range(given, wanted("connected", 0, 10_000))
    next(reading)
    reading.close()
    assert leader not in raw_fetching._idle


@pytest.mark.parametrize(
    ("options", "fast"),
    [
        ({}, True),
        ({"kafka.group.id": "g", "kafka.isolation.level": "read_committed"}, True),
        ({"kafka.security.protocol": "plaintext"}, True),
        ({"kafka.security.protocol": "SSL"}, False),
        ({"kafka.sasl.mechanism": "PLAIN"}, False),
        ({"kafka.fetch.max.bytes": "1000000"}, False),
        ({"includeHeaders": "true"}, True),
    ],
)
def test_raw_fetching_is_used_only_with_supported_options(options: dict[str, str], fast: bool):
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", **options}

    assert raw_fetching.suits(batch_options(given)) is fast


def test_read_skips_offsets_that_do_not_exist(tmp_path: Path):
    """Compaction and transaction markers leave gaps, also at the end of a range: a reader that counts would hang."""
    with Embedded(data=tmp_path) as broker:
        Admin(broker.bootstrap_servers).create_topic("gaps", 1, {"cleanup.policy": "compact"})
        Records(broker.bootstrap_servers).put("gaps", ["v"], key="k")
    marker = Record(key=encode_control_key(ControlType.COMMIT), value=b"\0\0\0\0\0\0", timestamp=1)
    producer = {"producer_id": 1, "producer_epoch": 0}
    batches = [
        encode_batch([Record(value=b"a", timestamp=1)] * 2, base_offset=0),
        encode_batch([Record(value=b"b", timestamp=1)] * 2, base_offset=5, attributes=TRANSACTIONAL, **producer),
        encode_batch([marker], base_offset=7, attributes=TRANSACTIONAL | CONTROL, **producer),
        encode_batch([Record(value=b"c", timestamp=1)], base_offset=20),
        encode_batch([marker], base_offset=21, attributes=TRANSACTIONAL | CONTROL, **producer),
    ]
    (log,) = tmp_path.glob("gaps-0/*.log")
    log.write_bytes(b"".join(batches))
    for file in (*tmp_path.glob("gaps-0/*index"), *tmp_path.glob("gaps-0/*snapshot"), *tmp_path.glob(".kafka_clean*")):
        file.unlink()

    with Embedded(data=tmp_path) as broker:
        (end,) = Admin(broker.bootstrap_servers).end_offsets("gaps").values()
        assert end == 22
        for isolation in ("read_committed", "read_uncommitted"):
            level = {"kafka.isolation.level": isolation}
            assert offsets(read(broker.bootstrap_servers, wanted("gaps", 0, 22), **level)) == [0, 1, 5, 6, 20]
            assert offsets(read(broker.bootstrap_servers, wanted("gaps", 0, 10), **level)) == [0, 1, 5, 6]
            assert offsets(read(broker.bootstrap_servers, wanted("gaps", 7, 20), **level)) == []
            assert offsets(read(broker.bootstrap_servers, wanted("gaps", 21, 22), **level)) == []


def test_corrupt_record_fails_the_read(tmp_path: Path):
    with Embedded(data=tmp_path) as broker:
        Admin(broker.bootstrap_servers).create_topic("rotten", 1)
        Records(broker.bootstrap_servers).put("rotten", ["a value"])
    (log,) = tmp_path.glob("rotten-0/*.log")
    log.write_bytes(log.read_bytes().replace(b"a value", b"a velue"))  # not checked after a clean stop

    with Embedded(data=tmp_path) as broker:
        for way in ({}, BY_LIBRDKAFKA):
            given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "rotten", **way}
            with pytest.raises(KafkaException, match="CRC"):
                list(read_range(batch_options(given), wanted("rotten", 0, 1)))


def test_header_name_that_is_not_utf8_is_read_as_in_java_or_refused_with_its_offset(tmp_path: Path):
    with Embedded(data=tmp_path) as broker:
        Admin(broker.bootstrap_servers).create_topic("odd", 1)
        Records(broker.bootstrap_servers).put("odd", ["v"] * 100, headers=[("good", b"1")])
        Records(broker.bootstrap_servers).put("odd", ["v"], headers=[("name", b"1")])
    (log,) = tmp_path.glob("odd-0/*.log")
    *good, last = (bytearray(batch.data) for batch in iter_batches(log.read_bytes().replace(b"name", b"n\xffme")))
    CRC.pack_into(last, CRC_POSITION, checksum(last))
    log.write_bytes(b"".join([*good, last]))

    with Embedded(data=tmp_path) as broker:
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "odd", "includeHeaders": "true"}
        *_, rows = read_range(batch_options(given), wanted("odd", 0, 101))
        assert rows["headers"].to_pylist()[-1] == [{"key": "n\ufffdme", "value": b"1"}]
        with pytest.raises(BadHeader, match=r"odd-0 has at offset 100 a header .* leave out the option includeHeaders"):
            list(read_range(batch_options(given | BY_LIBRDKAFKA), wanted("odd", 0, 101)))
        assert offsets(read(broker.bootstrap_servers, wanted("odd", 99, 101))) == [99, 100]


def test_default_isolation_level_is_read_committed():
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}

    assert clients.reading(batch_options(given), 1)["isolation.level"] == "read_committed"
    uncommitted = given | {"kafka.isolation.level": "read_uncommitted"}
    assert clients.reading(batch_options(uncommitted), 1)["isolation.level"] == "read_uncommitted"


def test_reading_does_not_import_pandas(cluster: Admin, records: Records):
    cluster.create_topic("light", 1)
    records.put("light", ["v"], key="k", headers=[("h", b"1")])
    script = f"""
import sys
from odradek.spark.options import batch_options
from odradek.spark.planning import OffsetRange
from odradek.spark.range_reading import read_range
given = {{"kafka.bootstrap.servers": {cluster.bootstrap!r}, "subscribe": "light", "includeHeaders": "true"}}
given["includePosition"] = "true"
(batch,) = read_range(batch_options(given), OffsetRange(topic="light", partition=0, start=0, end=1))
sys.exit("pandas was imported" if "pandas" in sys.modules else 0)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_arrow_schema_matches_the_spark_schema():
    from pyspark.sql.pandas.types import to_arrow_schema

    from odradek.spark.schema import spark_schema

    for include_headers in (False, True):
        assert arrow_schema(include_headers).equals(to_arrow_schema(spark_schema(include_headers), timezone="UTC"))


def test_arrow_columns_hold_the_given_values():
    values = [b"a", None, b"", b"bc"]

    assert arrow_batches.binary(values).to_pylist() == values
    assert arrow_batches.binary([None, None]).to_pylist() == [None, None]
    assert arrow_batches.binary([]).to_pylist() == []
    assert arrow_batches.same_text("täg", 3).to_pylist() == ["täg"] * 3
    headers = [[("k", b"v"), ("n", None)], None, [], [("k", b"")]]
    column = arrow_batches.headers(headers)
    column.validate(full=True)
    assert column.to_pylist() == [
        [{"key": "k", "value": b"v"}, {"key": "n", "value": None}],
        None,
        None,
        [{"key": "k", "value": b""}],
    ]


def test_timestamp_beyond_spark_maximum_is_an_error(cluster: Admin, records: Records):
    cluster.create_topic("far", 1, {"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    records.put("far", ["v"], timestamp_ms=(1 << 62))

    with pytest.raises(OverflowError, match="far-0"):
        read(cluster.bootstrap, wanted("far", 0, 1))


def test_partitions_are_named_as_in_kafka():
    assert str(TopicPartition("orders", 3)) == "orders-3"
