"""Streams applications: what they tell the cluster, what the console shows of it, and what it concludes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from console.snapshots import healthy, with_group
from odradek.client import Producer
from odradek.client.admin import Admin
from odradek.console.applications import letters
from odradek.console.applications.health import events, findings
from odradek.console.applications.seen import Application, Applications, Letters, Query, applications_of
from odradek.console.finding import Level
from odradek.console.pages.streams import PAGE, drawn
from odradek.console.verdict import verdict
from odradek.monitor.lag.evaluation import Status
from odradek.pipeline.announcement import (
    STATUS,
    TOPIC,
    TOPIC_CONFIG,
    TOPOLOGY,
    About,
    Announced,
    BadAnnouncement,
    decoded,
    encoded,
)
from odradek.pipeline.announcement import key_of as key
from odradek.pipeline.layout import Layout
from odradek.pipeline.picture import Picture, Shape, svg
from odradek.pipeline.query_record import QueryRecord
from odradek.pipeline.recording import AppRecord
from odradek.streams import App, F, tumbling
from odradek.streams.run.announcing import announcing, forget
from odradek.streams.run.drawing import pictured
from odradek.testing import Embedded
from support.consoles import Running
from support.waiting import wait_until

HOSTILE = "<img src=x onerror=alert(1)>"
WORKING = QueryRecord(
    name="positions",
    state="working",
    batch=7,
    input_rows_per_s=120.0,
    processed_rows_per_s=400.0,
    batch_ms=900,
    planning_ms=100,
    execution_ms=700,
    state_rows=12,
    state_bytes=4096,
    late_rows=3,
)
STARTING = QueryRecord(name="positions", state="starting")
ABOUT = About(
    group="fleet.positions",
    reads=("positions",),
    writes=("speeding",),
    guarantees={"speeding": "exactly once for readers with read_committed", HOSTILE: "at least once: a reason"},
)
TOLD = Announced(
    application="fleet",
    host="worker-1",
    pid=17,
    started_s=1_000.0,
    at_s=2_000.0,
    is_over=False,
    starts=2,
    state_dir=".",
    queries=(WORKING,),
    about={"positions": ABOUT},
)


def app(record: QueryRecord = WORKING, *, silent_s: float = 1.0, is_over: bool = False, **of_query) -> Application:
    told = replace(TOLD, queries=(record,), is_over=is_over)
    return Application(
        announced=told, queries=(Query(record=record, about=ABOUT, **of_query),), silent_s=silent_s, letters=()
    )


def told(*known: Application) -> list[str]:
    return [each.what for each in findings(Applications(known=known))]


def fleet(folder: Path) -> App:
    fleet = App("fleet", bootstrap="127.0.0.1:1", state_dir=str(folder))
    positions = fleet.stream("positions", schema="driver string, speed double, html string")
    fast = positions[positions.speed > 80]
    fast.to("speeding", key="driver")
    fast.group_by("driver").window(tumbling("1 minute")).agg(n=F.count("*")).materialize("drivers")
    return fleet


# What is concluded


def test_an_application_that_keeps_up_is_no_problem():
    assert told(app(), app(is_over=True)) == []


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        (
            app(replace(WORKING, state="failed", error="Boom")),
            "Application fleet has failed: query positions",
        ),
        (app(silent_s=90), "Application fleet gives no sign of life"),
        (app(replace(WORKING, warning="too slow")), "Pipeline fleet.positions cannot keep up"),
        (app(rule=Status.WARN, lag=10), "Pipeline fleet.positions is falling behind"),
        (app(is_over=True, lag=10, seconds_behind=90.0), "Application fleet is stopped, and records wait"),
        (app(STARTING, lag=10, seconds_behind=90.0), "Application fleet is starting, and records wait"),
        (
            replace(app(), letters=(Letters(topic="bad", count=9, new=4),)),
            "Application fleet could not process some records",
        ),
    ],
)
def test_problems_of_applications(seen, what):
    assert told(seen) == [what]


def test_a_pipeline_that_cannot_keep_up_is_the_verdict_and_explains_its_group():
    slow = app(replace(WORKING, warning="its micro-batches take longer and longer"), lag=5000, seconds_behind=70.0)
    snapshot = with_group(healthy(), "fleet.positions", Status.STOP, state="Empty")
    assert "has no consumers" in verdict(snapshot).sentence
    now = verdict(replace(snapshot, findings=tuple(findings(Applications(known=(slow,))))))
    assert now.sentence == "Pipeline fleet.positions cannot keep up"
    assert now.level is Level.WARN
    assert now.first.why == "its micro-batches take longer and longer. 5,000 records wait, the oldest for 1 min 10 s"
    assert now.first.path == "/streams/fleet"


def test_a_group_is_not_without_consumers_while_its_application_starts():
    starting = app(STARTING, lag=5000, seconds_behind=70.0)
    snapshot = with_group(healthy(), "fleet.positions", Status.STOP, state="Empty")
    now = verdict(replace(snapshot, findings=tuple(findings(Applications(known=(starting,))))))
    assert now.sentence == "Application fleet is starting, and records wait"
    assert told(app(STARTING, lag=10, seconds_behind=20.0)) == []


def test_finding_with_one_record_uses_the_singular():
    [slow] = findings(Applications(known=(app(rule=Status.WARN, lag=1),)))
    assert slow.why.endswith(". 1 record waits")
    [failed] = findings(Applications(known=(replace(app(), letters=(Letters(topic="bad", count=1, new=1),)),)))
    assert failed.why == "About 1 record was written to bad in the last five minutes"


def test_many_problems_are_summed_up():
    known = tuple(replace(app(silent_s=90), announced=replace(TOLD, application=f"a{number}")) for number in range(9))
    found = list(findings(Applications(known=known)))
    assert len(found) == 6
    assert found[-1].what == "4 more problems of applications"
    assert found[-1].explains == {"fleet.positions"}


def test_changes_of_states_are_events():
    failed = app(replace(WORKING, state="failed", error="Boom"))
    now = Applications(known=(failed,))
    assert [each.text for each in events(Applications(known=(app(),)), now)] == ["Application fleet has failed: Boom"]
    assert list(events(now, now)) == []
    assert [each.text for each in events(Applications(), Applications(known=(app(),)))] == [
        "Application fleet: running"
    ]


def test_the_page_is_hidden_without_applications():
    assert not PAGE.is_there(healthy())
    assert PAGE.is_there(replace(healthy(), parts={"streams": Applications(known=(app(),))}))


# Announcements


def test_an_announcement_is_read_as_it_was_written(tmp_path):
    assert decoded(Announced, encoded(TOLD)) == TOLD
    picture = pictured(fleet(tmp_path).application)
    assert decoded(Picture, encoded(picture)) == picture
    assert svg(decoded(Picture, encoded(picture))) == svg(picture)


@pytest.mark.parametrize("value", [b"", b"{}", b"[" * 100_000, b'{"title": 1}', b"x" * 300_000])
def test_other_records_are_no_announcements(value):
    for kind in (Announced, Picture):
        with pytest.raises(BadAnnouncement):
            decoded(kind, value)


def test_texts_of_a_picture_are_escaped_and_it_has_no_styles():
    shape = Shape(key=HOSTILE, look="step", kind=HOSTILE, name=HOSTILE, lines=(HOSTILE,), hover=HOSTILE, queries=(0,))
    hostile = Picture(
        title=HOSTILE,
        subtitle=HOSTILE,
        shapes=(shape, replace(shape, key="b")),
        arrows=((HOSTILE, "b"), ("b", HOSTILE), ("missing", "b")),
        failed=(HOSTILE,),
        legend=((HOSTILE, HOSTILE),),
    )
    text = str(drawn(hostile))
    assert "<img" not in text
    assert "style" not in text


# A broker, and an application that tells about itself


def recording(app: App, folder: Path, *queries: QueryRecord) -> Callable[[], None]:
    """Writes the status as a run does."""

    def write() -> None:
        layout = Layout(str(folder), app.name)
        layout.folder.mkdir(parents=True, exist_ok=True)
        AppRecord(
            application=app.name,
            bootstrap="",
            internal_topics=(),
            pid=os.getpid(),
            started_s=time.time(),
            written_s=time.time(),
            queries=queries,
        ).write(layout.status)

    return write


@pytest.fixture
def known(console: Running) -> Callable[[], Application | None]:
    def fleet() -> Application | None:
        seen = applications_of(console.console.snapshot)
        return None if seen is None else seen.named("fleet")

    return fleet


def test_an_application_is_shown_while_it_runs_and_when_it_has_failed(
    broker: Embedded, console: Running, tmp_path: Path, known: Callable[[], Application | None]
):
    fleet_app = fleet(tmp_path)
    settings = replace(fleet_app.settings, bootstrap=broker.bootstrap_servers)
    write = recording(fleet_app, tmp_path, WORKING)
    with announcing(fleet_app.application, settings, "http://127.0.0.1:9464/metrics"):
        write()
        wait_until(lambda: known() and known().picture, "the console knows it")
        page = console.page("/streams/fleet")
        assert 'class="picture"' in page
        assert "speeding" in page
        assert "exactly once for readers with read_committed" in page
        assert "120" in console.page("/streams")
        assert known().state == "running"
        recording(fleet_app, tmp_path, replace(WORKING, state="failed", error=f"Boom: {HOSTILE}"))()
    wait_until(lambda: known().state == "failed", "the console knows why it ended")
    page = console.page("/streams/fleet")
    assert "Boom: &lt;img" in page
    wait_until(lambda: "Application fleet has failed: query positions" in console.page("/"), "the overview names it")
    assert console.get("/streams/missing", accept="text/html").status_code == 404
    the_others_of_the_topic_do_no_harm(broker, console)
    forget(Admin(broker.bootstrap_servers), "fleet")
    wait_until(lambda: known() is None, "the console forgets it")


def test_dead_letters_are_counted_without_markers_and_aborted_records(broker: Embedded, console: Running):
    servers = broker.bootstrap_servers
    admin = Admin(servers)
    admin.create_topic(TOPIC, 1, TOPIC_CONFIG)
    admin.create_topic("letters", 2)
    told = replace(TOLD, application="careful", dead_letters=("letters", "none-yet"), at_s=time.time())

    def seen() -> Application | None:
        known = applications_of(console.console.snapshot)
        return None if known is None else known.named("careful")

    def is_counted(number: int) -> bool:
        app = seen()
        return app is not None and (app.dead_letters, app.letters_are_counted) == (number, True)

    with Producer(bootstrap=servers, transactional_id="letters") as producer:
        for number in range(4):
            with producer.transaction() as tx:
                tx.send("letters", b"bad", partition=number % 2)
                tx.send("letters", b"bad", partition=number % 2)
        with suppress(InterruptedError), producer.transaction() as tx:
            tx.send("letters", b"never", partition=0).result()
            raise InterruptedError
        ends = [*admin.end_offsets("letters").values()]
        wait_until(lambda: [*console.console.snapshot.ends.get("letters", ())] == ends, "the console knows the topic")
        with Producer(bootstrap=servers) as teller:
            teller.send(TOPIC, encoded(told), key(STATUS, "careful")).result()
        wait_until(lambda: is_counted(8), seen)
        assert seen().letters[0].new == 0
        with producer.transaction() as tx:
            tx.send("letters", b"bad", partition=1)
    wait_until(lambda: is_counted(9), seen)
    assert seen().letters[0].new == 1
    assert "at most" not in console.page("/streams/careful")
    admin.delete_records({("letters", 1): 3})
    wait_until(lambda: is_counted(7), seen)
    assert seen().letters[0].new == 1
    forget(admin, "careful")


def test_of_a_large_topic_of_dead_letters_the_rest_is_an_upper_bound(
    broker: Embedded, console: Running, monkeypatch: pytest.MonkeyPatch
):
    servers = broker.bootstrap_servers
    Admin(servers).create_topic("large-letters", 1)
    monkeypatch.setattr(letters, "TOPIC_BYTES_MAX", 1)
    with Producer(bootstrap=servers) as producer:
        for _ in range(3):
            producer.send("large-letters", b"x" * 20_000, partition=0).result()
    wait_until(lambda: [*console.console.snapshot.ends.get("large-letters", ())] == [3], "the console knows the topic")
    counter = letters.LetterCounter(console.console.cluster, now_s=lambda: 0.0)
    snapshot = console.console.snapshot
    for _ in range(3):
        found = counter.turn({"large-letters"}, snapshot)["large-letters"]
        assert (found.count, found.is_exact, found.new) == (3, False, 0)
    more = replace(snapshot, ends={**snapshot.ends, "large-letters": [5]})
    found = counter.turn({"large-letters"}, more)["large-letters"]
    assert (found.count, found.is_exact, found.new) == (5, False, 2)
    page = replace(app(), letters=(found,))
    assert (page.dead_letters, page.letters_are_counted) == (5, False)


def the_others_of_the_topic_do_no_harm(broker: Embedded, console: Running) -> None:
    name = f"odd {HOSTILE}"
    odd = replace(TOLD, application=name, queries=(replace(WORKING, name=HOSTILE, error=HOSTILE),), at_s=time.time())
    records = [
        (b"nonsense", b"nonsense"),
        (key(STATUS, "liar"), encoded(TOLD)),
        (key(TOPOLOGY, "fleet"), b"{}"),
        (key(STATUS, "large"), b"x" * 300_000),
        (key(STATUS, name), encoded(odd)),
    ]
    with Producer(bootstrap=broker.bootstrap_servers) as producer:
        for name_of, value in records:
            producer.send(TOPIC, value, name_of).result()
    seen = wait_until(lambda: _with(console, name), "the console has read them")
    assert [each.name for each in seen.known] == ["fleet", name]
    assert seen.unreadable == 4
    for path in ("/streams", f"/streams/{name.replace('?', '%3F').replace('#', '%23')}"):
        assert "<img src=x" not in console.page(path)
    forget(Admin(broker.bootstrap_servers), name)


def _with(console: Running, name: str) -> Applications | None:
    seen = applications_of(console.console.snapshot)
    return seen if seen is not None and seen.named(name) else None
