"""The lake sink: rows of Parquet, Delta Lake and Iceberg tables, each record exactly once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from odradek.client import JSON, Producer
from odradek.client.admin import Admin
from odradek.connect.interface import BadRecord
from odradek.connect.records import INT16, STRING, TIMES, TIMESTAMPS, Record, TopicPlace, decimal, struct
from odradek.lake.table import Span, TableTakenOver
from odradek.testing import Embedded
from support.connect_service import Service, eventually
from support.lake_records import NOON_MS, lake_sink, row, rows, stored

try:
    import deltalake
    import pyiceberg.catalog
except ImportError:
    pytest.skip("the lake sink needs deltalake and pyiceberg: pip install 'odradek[lake]'", allow_module_level=True)

FORMATS = ("parquet", "delta", "iceberg")
each_format = pytest.mark.parametrize("form", FORMATS)
# Two connections of one SQLite pool are closed by the collector, not by PyIceberg.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")


def numbers(path: object, form: str, table: str = "t") -> list[object]:
    return [each["n"] for each in stored(path, form, table)]


@each_format
def test_rows_are_divided_by_field_and_time_and_new_fields_become_columns(tmp_path: Path, form: str) -> None:
    sink = lake_sink(tmp_path, form, committed=None, partition_fields=["parity"], partition_time="day")
    sink.write(rows(0, 4))
    sink.write([row(4, price=2, where={"city": "Prague"})])
    sink.write([row(5, price=2.5)])  # a whole number before: the column is not stored yet, so it becomes a double
    assert sink.flush(now=True)
    sink.group_offsets = {("t", 0): 6}
    sink.write([row(6, later="x")])
    assert sink.flush(now=True)
    found = stored(tmp_path, form)
    assert [each["n"] for each in found] == list(range(7))
    assert found[4] == {
        "n": 4, "parity": "even", "day": "2026-11-18", "price": 2.0, "where": '{"city":"Prague"}', "later": None,
    }  # fmt: skip
    assert (found[0]["price"], found[5]["price"], found[6]["later"]) == (None, 2.5, "x")
    data = tmp_path / ("lake/t/data" if form == "iceberg" else "t")
    assert len(list(data.glob("parity=even/day=2026-11-18/*.parquet"))) == 2
    assert len(list(data.glob("parity=odd/day=2026-11-18/*.parquet"))) == 1


def test_a_timestamp_that_is_no_time_is_stored_as_null(tmp_path: Path) -> None:
    sink = lake_sink(tmp_path, "parquet", committed=None, kafka_columns=True)
    sink.write([replace(row(0), timestamp_ms=NOON_MS * 1000), row(1)])
    assert sink.flush(now=True)
    assert [each["kafka_timestamp"] is None for each in stored(tmp_path, "parquet")] == [True, False]


@each_format
def test_values_with_schemas_keep_their_types_after_a_restart(tmp_path: Path, form: str) -> None:
    nested = struct({"street": STRING.or_null(), "number": INT16})
    schema = struct({"n": INT16, "at": TIMESTAMPS, "opens": TIMES, "price": decimal(2), "address": nested})
    moment = pa.scalar(NOON_MS, pa.timestamp("ms", tz="UTC")).as_py()
    value = {
        "at": moment,
        "opens": time(9, 30),
        "price": Decimal("1.50"),
        "address": {"number": 3},
    }

    def record(n: int) -> Record:
        return Record(topic="t", value={"n": n, **value}, value_schema=schema, place=TopicPlace("t", 0, n))

    for n in (0, 1):
        sink = lake_sink(tmp_path, form, committed=n or None)
        sink.write([record(n)])
        sink.flush(now=True)
    expected = {**value, "n": 1, "opens": "09:30:00", "address": {"street": None, "number": 3}}
    assert stored(tmp_path, form)[1] == expected


@each_format
@pytest.mark.parametrize("point", ["files", "commit"])
def test_kill_before_and_after_the_commit_loses_and_repeats_nothing(
    tmp_path: Path, form: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "support.killed_lake_writer", str(tmp_path), form, point]
    killed = subprocess.run(command, cwd=Path(__file__).parents[1], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr.decode()
    # The group has not committed the second flush. The next one has other limits.
    for committed, ends in ((10, 25), (25, 30)):
        sink = lake_sink(tmp_path, form, committed=committed)
        sink.write(rows(committed, ends))
        sink.flush(now=True)
    assert numbers(tmp_path, form) == list(range(30))
    # Without the rule that compares the span with the group's offset, rows are repeated.
    monkeypatch.setattr(Span, "covers", lambda *_: False)
    sink = lake_sink(tmp_path, form, committed=25)
    sink.write(rows(25, 31))
    sink.flush(now=True)
    assert numbers(tmp_path, form) != list(range(31))


@pytest.mark.parametrize(("point", "files"), [("joined-files", 2), ("joined-commit", 1)])
def test_kill_before_and_after_the_commit_of_a_compaction_loses_and_repeats_nothing(
    tmp_path: Path, point: str, files: int
) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "support.killed_lake_writer", str(tmp_path), "iceberg", point]
    killed = subprocess.run(command, cwd=Path(__file__).parents[1], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr.decode()
    assert numbers(tmp_path, "iceberg") == list(range(20))
    assert files_of_iceberg(tmp_path) == files
    sink = lake_sink(tmp_path, "iceberg", committed=10, iceberg_compact_every=1)
    sink.write(rows(10, 25))
    sink.flush(now=True)
    assert numbers(tmp_path, "iceberg") == list(range(25))
    assert files_of_iceberg(tmp_path) == 1


def files_of_iceberg(path: Path) -> int:
    with pyiceberg.catalog.load_catalog("odradek", type="sql", uri=f"sqlite:///{path}/catalog.db") as catalog:
        return len(list(catalog.load_table("lake.t").scan().plan_files()))


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_task_that_was_replaced_cannot_append(tmp_path: Path, form: str) -> None:
    old, new = (lake_sink(tmp_path, form, committed=None) for _ in range(2))
    old.write(rows(0, 5))
    new.write(rows(0, 7))
    new.flush(now=True)
    with pytest.raises(TableTakenOver, match="another process has appended rows of lake/t/0"):
        old.flush(now=True)
    assert numbers(tmp_path, form) == list(range(7))


def test_a_value_that_does_not_fit_its_column_is_a_bad_record_and_leaves_nothing_behind(tmp_path: Path) -> None:
    sink = lake_sink(tmp_path, "delta", committed=None)
    sink.write(rows(0, 3))
    sink.flush(now=True)
    for wrong, why in (({"n": "x"}, "'n' does not fit"), ({"n": 1.5}, "'n' has a value with a fraction")):
        bad = Record(topic="t", value=wrong, place=TopicPlace("t", 0, 4))
        with pytest.raises(BadRecord, match=why) as refused:
            sink.write([row(3), bad, row(5)])
        assert refused.value.record is bad
    with pytest.raises(BadRecord, match=r"a tombstone, but behavior.on.null.values is fail"):
        sink.write([Record(topic="t", value=None, place=TopicPlace("t", 0, 4))])
    sink.flush(now=True)
    assert numbers(tmp_path, "delta") == [0, 1, 2]


def test_files_are_written_when_a_limit_is_reached(tmp_path: Path) -> None:
    assert not _flushed(tmp_path / "none")
    assert _flushed(tmp_path / "rows", flush_size=10)
    assert _flushed(tmp_path / "bytes", flush_bytes=100)
    assert _flushed(tmp_path / "time", rotate_interval_ms=0)


def _flushed(path: Path, **limits: int) -> bool:
    sink = lake_sink(path, "parquet", committed=None, **limits)
    sink.write(rows(0, 10))
    return sink.flush(now=False) and len(list(path.glob("t/*.parquet"))) == 1


def test_compaction_joins_the_files_of_each_partition_of_an_iceberg_table(tmp_path: Path) -> None:
    sink = lake_sink(tmp_path, "iceberg", committed=None, iceberg_compact_every=4, partition_fields=["parity"])
    for n in range(4):
        sink.write([row(n, **{"late": n} if n == 3 else {})])  # the last one has a new column
        sink.flush(now=True)
        sink.group_offsets = {("t", 0): n + 1}
    assert files_of_iceberg(tmp_path) == 2
    assert [(each["n"], each["late"]) for each in stored(tmp_path, "iceberg")] == [
        (0, None),
        (1, None),
        (2, None),
        (3, 3),
    ]


@each_format
def test_storage_that_is_not_supported_is_refused(form: str) -> None:
    with pytest.raises(ValueError, match="a directory or at s3://; hdfs:// and others are not supported"):
        lake_sink("hdfs://namenode:8020/lake", form, committed=None)


def test_compaction_joins_the_files_of_a_delta_table(tmp_path: Path) -> None:
    sink = lake_sink(tmp_path, "delta", committed=None, delta_compact_every=3)
    for n in range(3):
        sink.write([row(n)])
        sink.flush(now=True)
        sink.group_offsets = {("t", 0): n + 1}
    assert len(deltalake.DeltaTable(f"{tmp_path}/t").file_uris()) == 1
    assert numbers(tmp_path, "delta") == [0, 1, 2]


@each_format
def test_two_tasks_write_one_table_with_few_files(
    broker: Embedded, service: Service, tmp_path: Path, form: str
) -> None:
    topic = f"numbers-{form}"
    Admin(broker.bootstrap_servers).create_topic(topic, 2)
    with Producer(bootstrap=broker.bootstrap_servers, value=JSON) as producer:
        for n in range(3000):
            producer.send(topic, {"n": n}, partition=n % 2)
    service.create(
        form, connector_class="lake", topics=topic, path=tmp_path, format=form, tasks_max=2,
        rotate_interval_ms=600, table_name_format="t", kafka_columns="true",
    )  # fmt: skip
    eventually(
        lambda: committed(broker, form) == 3000, lambda: service.http.get(f"/connectors/{form}/status").text[-1500:]
    )
    assert numbers(tmp_path, form) == list(range(3000))
    assert len(list(tmp_path.rglob("*.parquet"))) <= 8
    found = stored(tmp_path, form)[2999]
    assert (found["kafka_topic"], found["kafka_partition"], found["kafka_offset"]) == (topic, 1, 1499)
    service.http.delete(f"/connectors/{form}")


def test_gathered_records_are_committed_only_after_the_flush_that_a_stop_causes(
    broker: Embedded, service: Service, tmp_path: Path
) -> None:
    with Producer(bootstrap=broker.bootstrap_servers, value=JSON) as producer:
        for n in range(10):
            producer.send("slow", {"n": n} if n != 5 else "no row")
    service.create(
        "slow", connector_class="lake", topics="slow", path=tmp_path, rotate_interval_ms=3_600_000,
        errors_tolerance="all",
    )  # fmt: skip
    eventually(lambda: service.steward.fleet.runs)
    eventually(lambda: metric(service, "sink_record_read") == 10)
    assert committed(broker, "slow") == 0
    service.http.put("/connectors/slow/stop")
    eventually(lambda: committed(broker, "slow") == 10)
    assert numbers(tmp_path, "parquet", "slow") == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    service.http.delete("/connectors/slow")


def metric(service: Service, name: str) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    return max((float(line.split()[-1]) for line in lines if name in line and "slow" in line), default=0)


def committed(broker: Embedded, connector: str) -> int:
    found = Admin(broker.bootstrap_servers).committed(f"connect-{connector}")
    return sum(found.values())


# --- S3


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    server_of = pytest.importorskip("moto.server", reason="moto is not installed (requirements/dev.in)")
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield {"endpoint": f"http://{host}:{port}", "region": "us-east-1", "access_key_id": "k", "secret": "s"}
    finally:
        server.stop()


@each_format
def test_tables_on_s3_survive_a_crash_between_flush_and_commit(s3: dict[str, str], tmp_path: Path, form: str) -> None:
    from odradek.connect.options import Secret

    files = pyarrow.fs.S3FileSystem(
        access_key="k", secret_key="s", endpoint_override=s3["endpoint"].removeprefix("http://"), scheme="http",
        region=s3["region"], allow_bucket_creation=True,
    )  # fmt: skip
    files.create_dir(f"lake-{form}")
    options = {
        "s3_endpoint": s3["endpoint"], "s3_region": s3["region"], "s3_access_key_id": "k",
        "s3_secret_access_key": Secret("s"), "partition_fields": ["parity"],
        "iceberg_catalog": {"uri": f"sqlite:///{tmp_path}/catalog.db"} if form == "iceberg" else {},
    }  # fmt: skip
    path = f"s3://lake-{form}/tables"
    for committed_offset, begin, end in ((None, 0, 10), (10, 10, 20), (10, 10, 24)):  # the second flush is repeated
        sink = lake_sink(path, form, committed=committed_offset, **options)
        sink.write(rows(begin, end))
        sink.flush(now=True)
    assert sorted(_on_s3(files, form, s3, tmp_path)) == list(range(24))


def _on_s3(files: pyarrow.fs.S3FileSystem, form: str, s3: dict[str, str], tmp_path: Path) -> list[int]:
    if form == "delta":
        options = {
            "AWS_ENDPOINT_URL": s3["endpoint"], "AWS_REGION": s3["region"], "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
        }  # fmt: skip
        return (
            deltalake.DeltaTable("s3://lake-delta/tables/t", storage_options=options)
            .to_pyarrow_table()["n"]
            .to_pylist()
        )
    if form == "iceberg":
        options = {
            "s3.endpoint": s3["endpoint"], "s3.region": s3["region"], "s3.access-key-id": "k",
            "s3.secret-access-key": "s",
        }  # fmt: skip
        catalog = pyiceberg.catalog.load_catalog(
            "odradek", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", **options
        )
        return catalog.load_table("lake.t").scan().to_arrow()["n"].to_pylist()
    found = files.get_file_info(pyarrow.fs.FileSelector("lake-parquet/tables/t", recursive=True))
    data = [info.path for info in found if info.path.endswith(".parquet") and "_odradek" not in info.path]
    return [n for path in data for n in pq.ParquetFile(files.open_input_file(path)).read(["n"])["n"].to_pylist()]
