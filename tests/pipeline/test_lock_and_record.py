"""The lock of an application, and the status file that it writes."""

from __future__ import annotations

import fcntl
import json
import math
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from odradek.pipeline.layout import Layout, applications
from odradek.pipeline.lock import AlreadyRunning, AppLock, holder_of
from odradek.pipeline.query_record import QueryRecord
from odradek.pipeline.recording import AppRecord, StateFigures, Tenure, recorded, told

PROGRESS = {
    "batchId": 7,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "numInputRows": 100,
    "inputRowsPerSecond": 50.04,
    "processedRowsPerSecond": 99.96,
    "batchDuration": 1000,
    "durationMs": {"queryPlanning": 200, "addBatch": 700, "walCommit": 50},
    "eventTime": {"watermark": "2025-12-31T23:59:50.000Z"},
    "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 1000}, {"numRowsTotal": 4, "memoryUsedBytes": 500}],
}


@pytest.fixture
def layout(tmp_path):
    return Layout(str(tmp_path), "fleet")


HOLD = """
import sys
from odradek.pipeline.layout import Layout
from odradek.pipeline.lock import AppLock

lock = AppLock(Layout(sys.argv[1], "fleet"))
print("held", flush=True)
sys.stdin.read()
"""


def test_second_process_is_refused_until_the_first_dies(layout):
    assert holder_of(layout) is None
    command = [sys.executable, "-c", HOLD, layout.state_dir]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        assert holder_of(layout).pid == process.pid
        with pytest.raises(AlreadyRunning, match=rf"fleet is already running: process {process.pid} on "):
            AppLock(layout)
        process.kill()
        process.wait()
    assert holder_of(layout) is None
    AppLock(layout).release()


def test_start_succeeds_while_a_reset_deletes_the_directory(layout):
    done = threading.Event()

    def take_away() -> None:
        while not done.is_set():
            with suppress(OSError):
                layout.folder.rmdir()

    with ThreadPoolExecutor() as threads:
        resetting = threads.submit(take_away)
        try:
            for _ in range(500):
                lock = AppLock(layout)
                layout.lock.unlink()
                lock.release()
        finally:
            done.set()
        resetting.result()


def test_holder_query_does_not_prevent_a_start(layout, monkeypatch):
    monkeypatch.setattr("odradek.pipeline.lock.ATTEMPTS", 1000)
    AppLock(layout).release()
    with layout.lock.open("rb") as asking, ThreadPoolExecutor() as starting:
        fcntl.flock(asking, fcntl.LOCK_SH)
        started = starting.submit(AppLock, layout)
        with pytest.raises(TimeoutError):
            started.result(0.1)
        fcntl.flock(asking, fcntl.LOCK_UN)
        started.result(30).release()


def test_lock_on_a_file_deleted_by_a_reset_is_taken_again(layout, monkeypatch):
    """A process that opened the file before its deletion would hold a lock that stops no other process."""
    monkeypatch.setattr("odradek.pipeline.lock.ATTEMPTS", 1000)
    resetting = AppLock(layout)
    with ThreadPoolExecutor() as starting:
        started = starting.submit(AppLock, layout)
        with pytest.raises(TimeoutError):
            started.result(0.2)
        layout.lock.unlink()
        layout.folder.rmdir()
        resetting.release()
        lock = started.result(30)
    monkeypatch.undo()
    assert holder_of(layout) is not None
    with pytest.raises(AlreadyRunning):
        AppLock(layout)
    lock.release()


def test_same_process_cannot_take_the_lock_twice(layout):
    lock = AppLock(layout)
    with pytest.raises(AlreadyRunning):
        AppLock(layout)
    lock.release()
    lock.release()


def test_names_of_state_files_are_not_valid_step_names(layout):
    assert layout.checkpoint("views") == f"{layout.state_dir}/fleet/views"
    assert layout.view_store("alerts").name == "alerts.db"
    assert not layout.views.name[0].isalnum()
    remote = Layout("s3a://bucket/state/", "fleet")
    assert remote.checkpoint("q") == "s3a://bucket/state/fleet/q"
    assert not str(remote.folder).startswith("s3a")


def test_spark_progress_becomes_a_query_record():
    record = told("count", "working", PROGRESS, None)
    assert (record.batch, record.input_rows_per_s, record.processed_rows_per_s) == (7, 50.0, 100.0)
    assert (record.batch_ms, record.planning_ms, record.execution_ms) == (1000, 200, 700)
    assert (record.state_rows, record.state_bytes, record.late_rows) == (7, 1500, None)
    assert record.watermark == "2025-12-31T23:59:50.000Z"
    stateless = told(
        "copy", "working", {**PROGRESS, "inputRowsPerSecond": math.nan, "stateOperators": [], "eventTime": {}}, None
    )
    assert (stateless.input_rows_per_s, stateless.state_rows, stateless.watermark) == (None, None, None)


def test_the_input_rate_of_a_first_micro_batch_is_unknown():
    """Spark has nothing to compare it with, and reports 0."""
    first = told("count", "working", {**PROGRESS, "inputRowsPerSecond": 0.0}, None)
    idle = told("count", "waiting", {**PROGRESS, "inputRowsPerSecond": 0.0, "numInputRows": 0}, None)
    assert (first.input_rows_per_s, idle.input_rows_per_s) == (None, 0.0)


def test_figures_of_the_engine_replace_those_of_spark():
    record = recorded(Query(progress=PROGRESS, figures=StateFigures(rows=9, bytes=4096, late_rows=2)))
    assert (record.state_rows, record.state_bytes, record.late_rows) == (9, 4096, 2)


class Query:
    """A fake of a Spark query."""

    name = "count"

    def __init__(self, *, active=True, busy=False, progress=None, problem=None, figures=None):
        self.isActive, self.status, self.lastProgress = active, {"isTriggerActive": busy}, progress
        self._problem, self._figures = problem, figures

    @property
    def spark(self):
        return self

    def problem(self):
        return self._problem

    def figures(self):
        return self._figures


@pytest.mark.parametrize(
    ("query", "state"),
    [
        (Query(), "waiting"),
        (Query(busy=True), "starting"),
        (Query(busy=True, progress=PROGRESS), "working"),
        (Query(active=False, progress=PROGRESS), "stopped"),
        (Query(active=False, problem=ValueError("bad")), "failed"),
    ],
)
def test_query_state_follows_spark(query, state):
    assert recorded(query).state == state


def test_status_file_has_bounded_size(layout):
    tenure = Tenure(layout, "127.0.0.1:1", ["fleet-alerts-changelog"])
    tenure.watch([Query(active=False, progress=PROGRESS, problem=ValueError("x" * 100_000))])
    assert holder_of(layout) is not None
    tenure.end()
    assert holder_of(layout) is None
    record = AppRecord.read(layout.status)
    [query] = record.queries
    assert (query.state, query.batch, len(query.error)) == ("failed", 7, 4000)
    assert layout.status.stat().st_size < 10_000
    assert [found.app for found in applications(layout.state_dir)] == ["fleet"]


def states(layout) -> dict[str, str]:
    return {query.name: query.state for query in AppRecord.read(layout.status).queries}


def test_planned_queries_are_starting_until_they_are_started(layout):
    tenure = Tenure(layout, "127.0.0.1:1", [], ["count", "join"])
    assert states(layout) == {"count": "starting", "join": "starting"}
    tenure.watch([Query(active=False, progress=PROGRESS)])
    tenure.end()
    assert states(layout) == {"count": "stopped", "join": "stopped"}


def test_error_that_prevented_the_start_is_recorded(layout):
    Tenure(layout, "127.0.0.1:1", [], ["count"]).end(ValueError("no Java"))
    [query] = AppRecord.read(layout.status).queries
    assert (query.state, query.error) == ("failed", "no Java")


def test_status_is_written_again_after_a_temporary_write_failure(layout, monkeypatch, caplog):
    monkeypatch.setattr("odradek.pipeline.recording.EVERY_S", 0.01)
    tenure = Tenure(layout, "127.0.0.1:1", [])
    layout.status.unlink()
    layout.status.mkdir()
    tenure.watch([])
    while "cannot be written" not in caplog.text:
        pass
    layout.status.rmdir()
    while not layout.status.exists():
        pass
    tenure.end()
    assert AppRecord.read(layout.status).application == "fleet"
    assert caplog.text.count("cannot be written") == 1


def test_topics_of_earlier_versions_stay_in_the_record(layout):
    for topics in (["fleet-old-changelog"], ["fleet-new-changelog"]):
        tenure = Tenure(layout, "127.0.0.1:1", topics)
        tenure.watch([])
        tenure.end()
    assert AppRecord.read(layout.status).internal_topics == ("fleet-new-changelog", "fleet-old-changelog")


def test_record_is_read_as_it_was_written(tmp_path):
    record = AppRecord(
        application="fleet",
        bootstrap="b",
        internal_topics=("t",),
        pid=1,
        started_s=1.5,
        written_s=2.5,
        queries=(QueryRecord(name="q", state="waiting"),),
    )
    record.write(tmp_path / "status.json")
    assert AppRecord.read(tmp_path / "status.json") == record
    assert json.loads((tmp_path / "status.json").read_text())["queries"][0]["name"] == "q"
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]
    assert AppRecord.read(tmp_path / "none.json") is None
