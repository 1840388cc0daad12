"""`odradek streams` as a person uses it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from odradek.cli.main import main
from odradek.client.admin import Admin
from odradek.pipeline.layout import Layout
from odradek.pipeline.lock import AppLock
from odradek.pipeline.query_record import QueryRecord
from odradek.pipeline.recording import AppRecord, Tenure
from support.scraping import scrape_until

APP = """
from odradek.streams import App, F
app = App("fleet")
positions = app.stream("positions", schema="driver string, speed double")
positions.group_by("driver").agg(top=F.max("speed")).materialize("top")
"""
VIEW = "odradek_streams_view"


@pytest.fixture(autouse=True)
def no_default_cluster(monkeypatch):
    """An application names its cluster, and the variable would come before it."""
    monkeypatch.delenv("ODRADEK_BOOTSTRAP", raising=False)


@pytest.fixture
def app_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    path = tmp_path / "app.py"
    path.write_text(APP)
    return str(path)


def test_where_spark_is_not_installed(app_file):
    Path(app_file).write_text("raise ModuleNotFoundError(\"No module named 'pyspark'\", name='pyspark.sql')")
    told = streams("describe", app_file)
    assert told.exit_code == 1
    assert "pip install 'odradek[spark]'" in told.output


def streams(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["streams", *arguments])


def record(state: str, bootstrap: str) -> Layout:
    layout = Layout(state, "fleet")
    (layout.folder / "aggregate-1-updates").mkdir(parents=True)
    query = QueryRecord(
        name="aggregate-1-updates", state="failed", batch=3, batch_ms=120, error="it broke\n  at app.py:4"
    )
    AppRecord(
        application="fleet",
        bootstrap=bootstrap,
        internal_topics=("fleet-top-changelog",),
        pid=1,
        started_s=0,
        written_s=0,
        queries=(query,),
    ).write(layout.status)
    return layout


def test_describe_as_text_as_data_and_drawn(app_file, tmp_path):
    text = streams("describe", app_file)
    assert text.exit_code == 0
    assert "Query 0: positions" in text.stdout
    assert json.loads(streams("describe", app_file, "-o", "json").stdout)["application"] == "fleet"
    drawn = tmp_path / "graph.svg"
    assert streams("describe", app_file, "-o", "svg", str(drawn)).exit_code == 0
    assert drawn.read_text().startswith("<svg ")
    assert streams("describe", app_file, "-o", "svg").stdout == drawn.read_text()


def test_describe_shows_the_cluster_that_run_would_use(app_file, monkeypatch):
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "kafka:1")
    assert "topics on kafka:1, state in ./.odradek-streams/fleet" in streams("describe", app_file).stdout
    told = streams("describe", app_file, "-b", "kafka:2", "--state-dir", "/srv", "-o", "json").stdout
    data = json.loads(told)
    assert (data["bootstrap"], data["queries"][0]["checkpoint"]) == ("kafka:2", "/srv/fleet/positions")


def test_a_file_that_does_not_load_is_reported_without_a_traceback(tmp_path):
    (tmp_path / "bad.py").write_text("from odradek.streams import App\napp = App(1 / 0)\n")
    result = streams("describe", str(tmp_path / "bad.py"))
    assert result.exit_code == 1
    assert result.stderr.endswith("bad.py:2\n    app = App(1 / 0)\nZeroDivisionError: division by zero\n")
    assert "Traceback" not in result.output


def test_a_file_that_is_not_there(tmp_path):
    result = streams("describe", str(tmp_path / "nothing.py"))
    assert result.exit_code == 3
    assert "there is no file" in result.stderr


@pytest.mark.parametrize("command", ["run", "views"])
def test_an_application_without_steps_is_reported_with_its_source_line(command, odradek, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("PYTHONPATH", "ODRADEK_BOOTSTRAP", "ODRADEK_STREAMS_STATE_DIR"):
        monkeypatch.setenv(name, "")
    file = tmp_path / "idle.py"
    file.write_text('from odradek.streams import App\napp = App("idle")\n')
    place = ["-b", odradek.bootstrap_servers, "--state-dir", str(tmp_path / "state")]
    result = streams(command, str(file), *place)
    assert result.exit_code == 1
    assert f"  at     {file}:2\n" in result.stderr


def test_ls_and_status(odradek, tmp_path):
    state = str(tmp_path / "state")
    assert "no application has run" in streams("ls", "--state-dir", state).stderr
    layout = record(state, odradek.bootstrap_servers)
    lock = AppLock(layout)
    [row] = json.loads(streams("ls", "--state-dir", state, "-o", "json").stdout)
    lock.release()
    assert (row["application"], row["state"], row["queries"]) == ("fleet", "running", ["aggregate-1-updates"])
    table = streams("status", "--state-dir", state)
    assert "fleet.aggregate-1-updates  failed" in table.stdout
    assert "it broke\n  at app.py:4" in table.stderr
    [row] = json.loads(streams("status", "fleet", "--state-dir", state, "-o", "json").stdout)
    assert (row["batch_ms"], row["error"], row["lag"]) == (120, "it broke\n  at app.py:4", None)
    assert streams("status", "nobody", "--state-dir", state).exit_code == 3
    replace(AppRecord.read(layout.status), queries=()).write(layout.status)
    assert "fleet: no query was started" in streams("status", "fleet", "--state-dir", state).stderr


def test_status_as_data_has_names_that_jq_takes(odradek, tmp_path):
    state = str(tmp_path / "state")
    record(state, odradek.bootstrap_servers)
    [row] = json.loads(streams("status", "--state-dir", state, "-o", "json").stdout)
    assert {"input_rows_per_s", "planning_ms", "execution_ms", "late_rows", "event_time", "warning"} <= set(row)
    assert all(name.isidentifier() for name in row)


def test_status_says_since_when_an_application_is_starting(odradek, tmp_path):
    state = str(tmp_path / "state")
    tenure = Tenure(Layout(state, "fleet"), odradek.bootstrap_servers, [], ["positions"])
    said = streams("status", "fleet", "--state-dir", state)
    [row] = json.loads(streams("status", "fleet", "--state-dir", state, "-o", "json").stdout)
    tenure.end()
    assert "fleet.positions  starting" in said.stdout
    assert re.search(r"fleet has been starting for \d+ s, since 20\S+: process \d+ on ", said.stderr)
    assert row["state"] == "starting"
    assert "starting" not in streams("status", "fleet", "--state-dir", state).output


def test_status_warns_of_a_query_that_cannot_keep_up_while_it_runs(odradek, tmp_path):
    state = str(tmp_path / "state")
    layout = record(state, odradek.bootstrap_servers)
    slow = QueryRecord(name="positions", state="working", warning="micro-batches take 2.0 s, longer than every=1 s")
    replace(AppRecord.read(layout.status), queries=(slow,)).write(layout.status)
    lock = AppLock(layout)
    said = streams("status", "--state-dir", state)
    lock.release()
    assert "warning: fleet.positions cannot keep up: micro-batches take 2.0 s" in said.stderr
    assert "warning" not in streams("status", "--state-dir", state).output


def test_reset_shows_first_and_does_it_with_yes(odradek, app_file, tmp_path):
    state = str(tmp_path / "state")
    arguments = ["reset", app_file, "--state-dir", state, "-b", odradek.bootstrap_servers]
    assert "nothing to delete" in streams(*arguments).stderr
    layout = record(state, odradek.bootstrap_servers)
    cluster = Admin(odradek.bootstrap_servers)
    cluster.create_topic("fleet-top-changelog", 1, {"cleanup.policy": "compact"})
    shown = streams(*arguments)
    assert shown.stdout.splitlines() == [
        f"checkpoint  {layout.folder / 'aggregate-1-updates'}",
        "topic       fleet-top-changelog",
    ]
    assert shown.exit_code == 2
    assert "Use --yes to confirm" in shown.stderr
    dry = streams(*arguments, "--dry-run")
    assert (dry.exit_code, dry.stdout) == (0, shown.stdout)
    assert cluster.topics() == ["fleet-top-changelog"]
    lock = AppLock(layout)
    refused = streams(*arguments, "--yes")
    listed = streams(*arguments, "--dry-run")
    lock.release()
    assert refused.stdout == "", "it is refused before anything is listed"
    assert (listed.exit_code, listed.stdout) == (0, shown.stdout)
    assert refused.exit_code == 1
    assert "fleet is already running: process" in refused.stderr
    assert cluster.topics() == ["fleet-top-changelog"]
    assert streams(*arguments, "--yes").exit_code == 0
    assert cluster.topics() == []
    assert not layout.folder.exists()


def test_reset_of_an_application_that_never_ran(odradek, tmp_path):
    refused = streams("reset", "nosuch", "--state-dir", str(tmp_path), "-b", odradek.bootstrap_servers)
    assert refused.exit_code == 3
    assert f"nosuch has not run from {tmp_path}" in refused.stderr


def test_status_without_a_broker_shows_what_is_stored(tmp_path):
    state = str(tmp_path / "state")
    record(state, "127.0.0.1:1")
    told = streams("status", "fleet", "--state-dir", state)
    assert told.exit_code == 0
    assert "fleet.aggregate-1-updates  failed" in told.stdout
    assert "warning: no answer from 127.0.0.1:1" in told.stderr
    assert "BEHIND and LAG are not known" in told.stderr
    [row] = json.loads(streams("status", "fleet", "--state-dir", state, "-o", "json").stdout)
    assert (row["state"], row["lag"]) == ("failed", None)


def test_run_fails_at_once_without_a_broker(app_file, tmp_path, monkeypatch):
    for name in ("BOOTSTRAP", "STATE_DIR", "MASTER"):
        monkeypatch.setenv(f"ODRADEK_STREAMS_{name}", "")
    result = streams("run", app_file, "-b", "127.0.0.1:1", "--state-dir", str(tmp_path / "state"))
    assert result.exit_code == 4
    assert "no answer from 127.0.0.1:1" in result.stderr


def test_views_are_served_without_spark(odradek, app_file, tmp_path):
    cluster = Admin(odradek.bootstrap_servers)
    cluster.create_topic("fleet-top-changelog", 1, {"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": odradek.bootstrap_servers, "log_level": 0})
    producer.produce("fleet-top-changelog", key=b"ann", value=b'{"driver":"ann","top":91.5}')
    assert producer.flush(60) == 0
    command = [sys.executable, "-m", "odradek.cli", "streams", "views", app_file, "--port", "0"]
    command += ["-b", odradek.bootstrap_servers, "--state-dir", str(tmp_path / "state")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = process.stderr.readline().strip()
            get = partial(httpx.get, timeout=60)
            deadline = time.monotonic() + 60
            while get(f"{url}/top/ann").status_code == 404:
                assert time.monotonic() < deadline, "the row did not come"
            assert get(f"{url}/top/ann").json() == {"key": "ann", "value": {"driver": "ann", "top": 91.5}}
            assert get(url.replace("/views", "/graph.svg")).text.startswith("<svg ")
            assert get(url.replace("/views", "/status")).status_code == 404
            assert process.stderr.readline().strip() == f"metrics on {url.replace('/views', '/metrics')}"
            of_view = {"application": "fleet", "view": "top"}
            found = scrape_until(url.removesuffix("/views"), lambda found: found(f"{VIEW}_follows", **of_view) == 1)
            assert (found(f"{VIEW}_changes_total", **of_view), found(f"{VIEW}_storebytes", **of_view) > 0) == (1, True)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
