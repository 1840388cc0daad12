"""`to_table`: rows in tables of files, each exactly once, in few files."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odradek.lake.opening import tables_of
from odradek.lake.table import TableUnavailable
from odradek.pipeline.layout import Layout
from odradek.streams import App, F, PipelineError, Stream, tumbling
from odradek.streams.run.describe import describe
from odradek.streams.run.gathered import Gathered
from odradek.streams.run.reset import carry_out, plan_reset
from odradek.streams.run.tables import TableFeed
from streams.run.test_exactly_once import forget_the_last_commit
from support.waiting import wait_until

try:
    import deltalake  # noqa: F401
    import pyiceberg  # noqa: F401
except ImportError:
    pytest.skip("tables need deltalake and pyiceberg: pip install 'odradek[lake]'", allow_module_level=True)

FORMATS = ("parquet", "delta", "iceberg")
ORDERS = "id int, item string, price decimal(9,2), tags array<string>"
# Two connections of one SQLite pool are closed by the collector, not by PyIceberg.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")


@pytest.fixture(autouse=True)
def own_topic(topics):
    if "orders" in topics.cluster.topics():
        topics.cluster.delete_topics(["orders"])


def order(number: int) -> dict[str, object]:
    return {"id": number, "item": f"item-{number % 3}", "price": number + 0.5, "tags": ["new"]}


def orders_of(app: App) -> Stream:
    return app.stream("orders", schema=ORDERS)


def application(topics, path: Path, *forms: str, **options) -> App:
    app = App("shop", topics.bootstrap)
    orders = orders_of(app).with_columns(day=F.lit("2026-11-18").cast("date"))
    for form in forms:
        orders.to_table(f"{path}/{form}/orders", format=form, partition_by=["day", "item"], name=form, **options)
    return app


def rows(path: Path, form: str, name: str = "orders", by: tuple[str, ...] = ()) -> pa.Table:
    return tables_of(f"{path}/{form}", form, by, {}).table(name).rows()


def ids(path: Path, form: str, by: tuple[str, ...] = ("day", "item")) -> list[int]:
    return sorted(rows(path, form, by=by)["id"].to_pylist())


def test_rows_are_in_tables_of_all_formats_once_after_runs_and_a_repeated_micro_batch(topics, process, tmp_path):
    topics.send("orders", *map(order, range(6)))
    process(application(topics, tmp_path, *FORMATS))
    topics.send("orders", *map(order, range(6, 12)))
    process(application(topics, tmp_path, *FORMATS))
    forget_the_last_commit(tmp_path / "state/shop/orders")
    topics.send("orders", order(12))
    process(application(topics, tmp_path, *FORMATS))
    for form in FORMATS:
        assert ids(tmp_path, form) == list(range(13)), form
        [found] = rows(tmp_path, form, by=("day", "item")).filter(pa.compute.field("id") == 4).to_pylist()
        assert {**found, "price": str(found["price"])} == {
            "id": 4, "item": "item-1", "price": "4.50", "tags": ["new"], "day": date(2026, 11, 18),
        }  # fmt: skip
    assert len(list(tmp_path.glob("parquet/orders/day=2026-11-18/item=item-1/*.parquet"))) == 2  # one for each append
    assert not list((tmp_path / "state/shop/orders/tables").rglob("*.arrow"))


def test_rows_of_many_micro_batches_are_gathered_into_one_file(topics, live, tmp_path):
    topics.create("orders")
    running = live(gathering(topics, tmp_path, "1 hour"))
    for number in range(3):
        topics.send("orders", order(number))
        running.queries[0].spark.processAllAvailable()
    pending = list((tmp_path / "state/shop/orders/tables").rglob("*.arrow"))
    assert len(pending) == 3
    assert not list(tmp_path.glob("parquet/orders/*.parquet"))
    running.stop()
    [file] = tmp_path.glob("parquet/orders/*.parquet")
    assert pq.read_table(file)["id"].to_pylist() == [0, 1, 2]


def gathering(topics, path: Path, gather: str) -> App:
    app = App("shop", topics.bootstrap)
    orders_of(app).to_table(f"{path}/parquet/orders", gather=gather, name="orders-table")
    return app


def test_rows_are_appended_when_they_have_waited_long_enough(topics, live, tmp_path):
    topics.send("orders", order(1))
    live(gathering(topics, tmp_path, "10 ms"))
    wait_until(lambda: list(tmp_path.glob("parquet/orders/*.parquet")), 60)
    assert ids(tmp_path, "parquet", ()) == [1]


def test_rows_wait_on_disk_while_the_table_is_not_available(topics, process, tmp_path, monkeypatch, caplog):
    def unavailable(*_: object) -> None:
        raise TableUnavailable("the storage does not answer")

    topics.send("orders", order(1))
    with monkeypatch.context() as patched:
        patched.setattr(TableFeed, "_append_rows", unavailable)
        with pytest.raises(PipelineError, match="the storage does not answer"):
            process(gathering(topics, tmp_path, "1 hour"))
    assert "the last rows wait on disk for the next start" in caplog.text
    topics.send("orders", order(2))
    process(gathering(topics, tmp_path, "1 hour"))
    assert ids(tmp_path, "parquet", ()) == [1, 2]


def test_crash_right_after_an_append_repeats_nothing(topics, process, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    topics.send("orders", *map(order, range(3)))
    with monkeypatch.context() as patched:
        patched.setattr(TableFeed, "end", lambda _: None)
        patched.setattr(Gathered, "forget", lambda _, end: die() if end else None)
        with pytest.raises(Killed):
            process(gathering(topics, tmp_path, "1 hour"))
    topics.send("orders", order(3))
    process(gathering(topics, tmp_path, "1 hour"))
    assert ids(tmp_path, "parquet", ()) == [0, 1, 2, 3]


def test_task_that_fails_leaves_no_rows_of_its_micro_batch(topics, process, tmp_path):
    topics.create("orders", partitions=2)
    topics.send("orders", *[{**order(number), "key": str(number)} for number in range(8)])

    def broken(row) -> None:
        if row.id == 5:
            raise ValueError("5")

    def app(function) -> App:
        made = App("shop", topics.bootstrap)
        orders = orders_of(made)
        orders.to_table(f"{tmp_path}/parquet/orders")
        orders.foreach(function)
        return made

    with pytest.raises(Exception, match="5"):
        process(app(broken))
    assert not (tmp_path / "parquet/orders").exists()
    process(app(lambda _: None))
    assert ids(tmp_path, "parquet", ()) == list(range(8))


def test_windows_and_steps_of_spark_reach_tables(topics, process, tmp_path):
    topics.send("orders", *map(order, range(6)))
    app = App("shop", topics.bootstrap)
    orders = orders_of(app)
    exploded = orders.select("id", "explode(tags) as tag")
    exploded.to_table(f"{tmp_path}/delta/tags", format="delta")
    counts = orders.group_by("item").window(tumbling("1 minute")).agg(n=F.count("*"))
    counts.to_table(f"{tmp_path}/delta/counts", format="delta", emit="updates")
    process(app)
    assert rows(tmp_path, "delta", "tags").select(["tag"]).to_pylist() == [{"tag": "new"}] * 6
    found = rows(tmp_path, "delta", "counts").to_pylist()
    assert {row["item"]: row["n"] for row in found} == {"item-0": 2, "item-1": 2, "item-2": 2}


def test_checkpoint_that_is_old_or_was_deleted_is_refused_and_a_reset_appends_all_rows_again(topics, process, tmp_path):
    topics.send("orders", order(1))
    process(gathering(topics, tmp_path, "1 hour"))
    shutil.copytree(tmp_path / "state", tmp_path / "old")
    topics.send("orders", order(2))
    process(gathering(topics, tmp_path, "1 hour"))
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "old", tmp_path / "state")
    with pytest.raises(PipelineError, match="they are of micro-batch 1, and the checkpoint ends at 0"):
        process(gathering(topics, tmp_path, "1 hour"))
    shutil.rmtree(tmp_path / "state/shop/orders")
    with pytest.raises(PipelineError, match=r"has written rows to .*checkpoint does not know") as refused:
        process(gathering(topics, tmp_path, "1 hour"))
    assert refused.value.origin.file == __file__
    layout = Layout(str(tmp_path / "state"), "shop")
    carry_out(plan_reset(layout, topics.cluster), topics.cluster)
    process(gathering(topics, tmp_path, "1 hour"))
    assert ids(tmp_path, "parquet", ()) == [1, 1, 2, 2]


def test_column_that_has_another_type_in_the_table_is_refused_at_the_start(topics, process, tmp_path):
    topics.send("orders", order(1))
    process(gathering(topics, tmp_path, "1 hour"))
    app = App("other", topics.bootstrap)
    orders_of(app).with_columns(price=F.lit("much")).to_table(f"{tmp_path}/parquet/orders")
    with pytest.raises(PipelineError, match=r"'price' is string, but decimal128\(9, 2\) in the table") as refused:
        process(app)
    assert refused.value.origin.code.startswith("orders_of(app).with_columns")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"format": "orc"}, "format='orc' means nothing"),
        ({"partition_by": "nobody"}, "there is no column nobody"),
        ({"options": {"s3.endpiont": "x"}}, "there is no option 's3.endpiont' of a table"),
        ({"options": {"delta.compact.every": 3}}, "delta.compact.every is 3, which is no text"),
        ({"path": "s3://bucket"}, "is no path of a table"),
        ({"emit": "updates"}, 'emit="updates" where every row is final'),
    ],
)
def test_mistakes_are_refused_on_the_line_of_the_user(wrong, why):
    app = App("shop")
    with pytest.raises(PipelineError, match=why) as refused:
        orders_of(app).to_table(**{"path": "lake/orders", **wrong})
    assert refused.value.origin.file == __file__


def test_columns_that_no_table_can_hold_are_refused_by_name(topics, process, tmp_path):
    app = App("shop", topics.bootstrap)
    topics.create("orders")
    orders_of(app).with_columns(gap=F.expr("interval 1 day")).to_table(f"{tmp_path}/parquet/orders")
    with pytest.raises(PipelineError, match="the column gap cannot be stored in a table of files"):
        process(app)


def test_table_of_the_application_is_refused_with_what_to_write():
    app = App("shop")
    with pytest.raises(PipelineError, match=r"\.to_stream\(\)\.to_table"):
        orders_of(app).group_by("item").count().to_table("lake/counts")


def test_state_that_only_spark_reaches_is_refused():
    app = App("shop", state_dir="s3a://bucket/state")
    orders_of(app).to_table("lake/orders")
    with pytest.raises(PipelineError, match="needs a state directory that is a path"):
        app.queries()


def test_description_names_table_and_guarantee_but_no_password():
    app = App("shop")
    orders_of(app).to_table(
        "s3://bucket/orders", partition_by="item", options={"s3.secret.access.key": "hidden"}, gather="5 minutes"
    )
    text = describe(app.application)
    assert "s3://bucket/orders (parquet) by item, gathered for 5 minutes" in text
    assert "exactly once: the number of the micro-batch is in the commit of its rows" in text
    assert "hidden" not in text + repr(app.graph.nodes)


def test_driver_of_tests_reads_tables_and_leaves_the_paths_of_the_code_alone(odradek_test_driver, tmp_path):
    app = App("shop")
    orders_of(app).select("id", "item").to_table(f"{tmp_path}/lake/orders", format="delta", partition_by="item")
    with odradek_test_driver(app) as t:
        t.input("orders").send(order(1), order(2))
        assert sorted(row["id"] for row in t.table(f"{tmp_path}/lake/orders")) == [1, 2]
    assert not (tmp_path / "lake").exists()
