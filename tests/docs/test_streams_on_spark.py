"""The Streams pages on a real Spark: their results, and the first terminal session as a reader would type it."""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
from pathlib import Path

import pytest
from pyarrow.fs import S3FileSystem

from docs.pages import DOCS, ROOT, STREAMS, Block, Terminal, application, blocks, import_path_restored
from odradek.pipeline.errors import StreamsError
from odradek.spark.java import NoJava, find_java
from odradek.streams import App
from odradek.streams.api.loading import load_app, pickle_by_value
from odradek.streams.compile.compiling import Compilation
from odradek.streams.compile.context import Place
from odradek.streams.compile.topology.assembling import Assembly
from odradek.streams.compile.topology.levels import topology
from odradek.streams.graph.sinks import LakeTable
from odradek.streams.run.delivering import check_sinks
from odradek.streams.run.tables import opened

pytest.importorskip("fastavro")
PAGE = {page.stem: page for page in STREAMS}


@pytest.fixture(autouse=True)
def nothing_stays_importable():
    with import_path_restored():
        yield


def loaded(page: Path, directory: Path, *more: Block, name: str | None = None) -> App:
    app = load_app(str(application(page, directory, *more, name=name)))
    pickle_by_value(app)
    return app


def compiled(app: App, spark) -> None:
    """Compiles the queries on Spark without reading any data."""
    for query in app.queries():
        if query.by_engine:
            plan = topology(query.sinks)
            places = {topic: Place(rank=rank, topics=(), records=1) for rank, topic in enumerate(plan.topics)}
            compilation = Compilation(
                spark, app.settings, "docs", query.trunk, records=query.calls_python, dry=True, places=places
            )
            Assembly(plan, compilation, folder="", shards=2).frame()
        else:
            compilation = Compilation(spark, app.settings, "docs", query.trunk, dry=True)
            compilation.frame(query.trunk)
            check_sinks(query, compilation)


@pytest.mark.parametrize("page", ["joins", "running", "state-and-timers", "stateless-steps", "windows-and-aggregates"])
def test_application_of_a_page_compiles_on_spark(page: str, spark, tmp_path: Path):
    """The tests below run the other pages."""
    compiled(loaded(PAGE[page], tmp_path), spark)


def test_error_found_by_spark_matches_the_page(spark, tmp_path: Path):
    page = blocks(PAGE["errors"])
    [wrong] = [block for block in page if block.kind == "python raises on spark"]
    with pytest.raises(StreamsError) as refused:
        compiled(loaded(PAGE["errors"], tmp_path, wrong, name="mistakes"), spark)
    assert str(refused.value).replace(f"{tmp_path}/", "") + "\n" == page[page.index(wrong) + 1].text


def test_error_for_a_wrong_record_matches_the_page(odradek_test_driver, tmp_path: Path):
    with odradek_test_driver(loaded(PAGE["errors"], tmp_path, name="mistakes")) as t:
        t.input("orders").send({"id": "7", "amount": "much"})
        with pytest.raises(StreamsError) as failed:
            t.settle()
    assert str(failed.value).replace(f"{tmp_path}/", "") + "\n" == blocks(PAGE["errors"])[-1].text


def test_dead_letters_have_the_headers_that_the_page_shows(odradek_test_driver, tmp_path: Path):
    page = PAGE["sources-and-formats"]
    with odradek_test_driver(loaded(page, tmp_path)) as t:
        t.input("positions").send({"driver": "ann", "speed": 80.5, "at": "2026-01-01T00:00:00Z"}, {"driver": "bob"})
        assert [row["driver"] for row in t.output("positions.good").read_values()] == ["ann"]
        with Terminal(tmp_path, t.bootstrap) as terminal:
            (shown,) = [terminal.run(block) for block in blocks(page, "sh")]
    for said in ("exception=MissingField", "message=required field speed", "topic=positions", "offset="):
        assert f"__streams.errors.{said}" in shown


def test_view_is_readable_from_python_and_over_http(spark, odradek, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = PAGE["tables-and-views"]
    bootstrap = odradek.bootstrap_servers
    with Terminal(tmp_path, bootstrap) as terminal:
        for amount in (10.0, 20.0):
            order = json.dumps({"id": "1", "customer": "ann", "amount": amount})
            terminal.run(Block("sh", f"echo '{order}' | odradek produce orders"))
        terminal.run(Block("sh", "odradek topic create products"))
        app = loaded(page, tmp_path, name="shop")
        here = app.settings.over(bootstrap=bootstrap, state_dir=str(tmp_path / ".odradek-streams"))
        app.application = dataclasses.replace(app.application, settings=here)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(App, "start", functools.partialmethod(App.start, session=spark))
        seen = {"app": app}
        for block in blocks(page, "python on spark"):
            exec(block.text, seen)  # code of the page
        assert seen["row"] == {"customer": "ann", "orders": 2, "spent": 30.0}
        assert seen["everybody"] == [seen["row"]]
        [commands] = blocks(page, "sh")
        [answer] = blocks(page, "text")
        assert terminal.run(commands).endswith(answer.text.strip())


def test_recipes_of_the_page_write_each_row_once(spark, odradek, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """All targets in one run: local Parquet, Delta Lake, Iceberg, S3."""
    moto = pytest.importorskip("moto.server", reason="moto is not installed (requirements/dev.in)")
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "http://{}:{}".format(*server.get_host_and_port())
        for name, value in {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}.items():
            monkeypatch.setenv(name, value)
        S3FileSystem(endpoint_override=address, allow_bucket_creation=True).create_dir("lake")
        page = tmp_path / "tables-in-files.md"
        page.write_text(PAGE["tables-in-files"].read_text().replace("http://127.0.0.1:9000", address))
        monkeypatch.chdir(tmp_path)
        with Terminal(tmp_path, odradek.bootstrap_servers) as terminal:
            for number in (1, 2):
                order = {"id": str(number), "customer": "ann", "amount": 1.5, "at": f"2026-11-1{number}T12:00:00Z"}
                terminal.run(Block("sh", f"echo '{json.dumps(order)}' | odradek produce orders"))
        app = loaded(page, tmp_path)
        for _ in range(2):
            app.start(session=spark, bootstrap=odradek.bootstrap_servers, trigger_available_now=True).stop()
        sinks = [sink for sink in app.graph.sinks if isinstance(sink, LakeTable)]
        for sink in sinks:
            assert sorted(opened(sink, app.settings).rows()["id"].to_pylist()) == ["1", "2"], sink.path
        assert len(sinks) == 4
        assert len(list(tmp_path.glob("lake/orders/day=2026-11-11/*.parquet"))) == 1
    finally:
        server.stop()


def test_example_test_of_the_testing_page_passes(odradek_test_driver, tmp_path: Path):
    page = PAGE["testing"]
    seen = {"app": loaded(page, tmp_path)}
    for block in blocks(page, "python on spark"):
        exec(block.text, seen)
    seen["test_three_violations_in_a_minute_are_an_alert"](odradek_test_driver)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_first_terminal_session_of_the_page_works(odradek, tmp_path: Path):
    """With a separate Spark, as at a terminal."""
    try:
        find_java()
    except NoJava as missing:
        pytest.skip(str(missing))
    page = PAGE["streams"]
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "streams_first.py", tmp_path / "examples")
    _up, start, look, describe, status, reset = blocks(page, "sh")
    results, described = blocks(page, "text")
    with Terminal(tmp_path, odradek.bootstrap_servers) as terminal:
        terminal.run(start)
        assert terminal.run(look).strip() == results.text.strip()
        assert described.text.replace("127.0.0.1:9092", odradek.bootstrap_servers) in terminal.run(describe)
        assert (tmp_path / "fleet.svg").read_text().startswith("<svg")
        assert "fleet.positions" in terminal.run(status)
        assert terminal.interrupt() == [130, 0], "`views` exits with 130 after Ctrl-C, `run` with 0"
        assert "fleet-drivers-changelog" in terminal.run(reset)


def test_commands_of_the_running_page_work(odradek, tmp_path: Path):
    """The commands that need no Spark."""
    page = PAGE["running"]
    application(page, tmp_path, name="clicks")
    with Terminal(tmp_path, odradek.bootstrap_servers) as terminal:
        for block in blocks(page, "sh"):
            terminal.run(block)


def test_every_page_with_commands_is_tested():
    run_above = {"streams", "sources-and-formats", "tables-and-views", "running"}
    assert {page.stem for page in STREAMS if blocks(page, "sh")} == run_above
    assert {page.stem for page in STREAMS if blocks(page, "python on spark")} == {"tables-and-views", "testing"}
    assert (DOCS / "spark.md").exists()
