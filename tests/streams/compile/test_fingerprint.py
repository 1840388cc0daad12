"""What the state of a query means, in text: the same for the same steps, another for others. No Spark."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass

import pytest

from odradek.pipeline.formats.declared import declared_columns
from odradek.streams import App, F, ListState, MapState, State, Timers, hopping, session, sliding, tumbling
from odradek.streams.compile.fingerprint import fingerprint

TWO_MINUTES = tumbling("2 minutes")
SUM = F.sum("a")
MEDIAN = F.median("a")  # Spark's alone
PROGRAM = """
from dataclasses import dataclass, field
from odradek.streams import App, F, State, tumbling
from odradek.streams.compile.fingerprint import fingerprint

class Spree:
    def on_rows(self, key, rows, seen: State[int]):
        return ()

app = App("t")
clicks = app.stream("clicks", schema="user string, page string, a int, b int, at date", time="at")
some = F.sum(F.when(clicks.page.isin({"home", "cart", "pay", "search"}), clicks.a))
clicks.group_by("user").window(tumbling("2 minutes")).agg(n=some).to("out")
clicks.process(key="user", out="user string")(Spree()).to("sprees")
@dataclass
class Words:
    words: set[str] = field(default_factory=lambda: set("some words"))

clicks.group_by("user").aggregate(Words(), lambda one, row: one, "words array<string>").to("words")
clicks.group_by("user").aggregate({"words": {"a", "b", "c", "d"}}, print, "words array<string>").to("more")
print([line.text for query in app.queries() for line in fingerprint(query)])
"""


def lines(build: Callable[[App], object]) -> list[str]:
    app = App("t")
    build(app)
    (query,) = app.queries()
    return [line.text for line in fingerprint(query)]


def clicks(app: App, **options):
    schema = f"{options.pop('schema', 'user string, page string, a int, b int')}, at timestamp, received timestamp"
    return app.stream("clicks", **{"schema": schema, "time": "at", **options})


def windowed(window=TWO_MINUTES, keys=("user",), value=SUM, emit="final", before=lambda rows: rows, **options):
    def build(app: App) -> None:
        rows = before(clicks(app, **options))
        rows.group_by(*keys).window(window).agg(n=value).to("out", emit=emit)

    return build


def joined(on="user", within="1 minute", how="inner", left=lambda rows: rows, orders="user string, total int"):
    def build(app: App) -> None:
        other = app.stream("orders", schema=f"{orders}, at timestamp", time="at")
        left(clicks(app)).join(other, on=on, within=within, how=how).to("out")

    return build


def looked_up(table="users", how="inner", schema="id string, name string", rows=lambda table: table):
    def build(app: App) -> None:
        users = rows(app.table(table, key="id", schema=schema))
        clicks(app).join(users, on={"user": "id"}, how=how).to("out")

    return build


def spree(key, rows, count: State[int]):
    return ()


def wider(key, rows, count: State[float]):
    return ()


def more(key, rows, count: State[int], seen: ListState[str]):
    return ()


def processed(function=spree, **options):
    def build(app: App) -> None:
        clicks(app).process(**{"key": "user", "out": "user string", **options})(function).to("out")

    return build


def test_it_reads_like_the_pipeline():
    assert lines(windowed(window=hopping("2 minutes", every="30 s", grace="10 s"), value=F.sum("a"))) == [
        "topic clicks",
        "topic clicks: time at",
        "topic clicks: user string",
        "topic clicks: a int",
        "aggregate: of topic clicks",
        "aggregate: by user",
        "aggregate: over hopping 2 minutes every 30 seconds",
        "aggregate: sum(a)",
        "aggregate: called aggregate-1, level 1",
        "aggregate: late rows 10 seconds",
    ]
    assert lines(looked_up()) == [
        "topic clicks",
        "topic clicks: time at",
        "topic clicks: user string",
        "topic users as a table by id",
        "topic users as a table by id: id string",
        "topic users as a table by id: name string",
        "table_lookup: of topic clicks with topic users as a table by id",
        "table_lookup: inner on user = id",
        "table_lookup: called table_lookup-1, level 1",
    ]


def test_equal_graphs_have_equal_fingerprints_in_every_process():
    told = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
    assert "process: with Spree" in told.pop()
    assert lines(windowed()) == lines(windowed())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (windowed(), windowed(window=tumbling("3 minutes"))),
        (windowed(), windowed(window=tumbling("2 minutes", grace="1 hour"))),
        (windowed(), windowed(window=session("2 minutes"))),
        (windowed(), windowed(window=hopping("2 minutes", every="1 minute"))),
        (windowed(), windowed(late="1 hour")),
        (windowed(), windowed(value=F.sum("b"))),
        (windowed(), windowed(value=F.max("a"))),
        (windowed(), windowed(value="sum(a) filter (where b > 1)")),
        (windowed(), windowed(keys=("user", "page"))),
        (windowed(), windowed(time="received")),
        (windowed(), windowed(schema="user int, page string, a int, b int")),
        (windowed(value=MEDIAN), windowed(value=MEDIAN, emit="updates")),  # Spark keeps something else for each
        (windowed(), windowed(before=lambda rows: rows.deduplicate("page", within="1 minute"))),
        (joined(), joined(on=["user", "at"])),
        (joined(), joined(on={"page": "user"})),
        (joined(), joined(within="2 minutes")),
        (joined(), joined(how="left")),
        (joined(), joined(orders="user string, total int, at string")),
        (joined(), joined(left=lambda rows: rows.drop("b"))),
        (joined(), joined(left=lambda rows: rows.select("user", "b", "a"))),
        (looked_up(), looked_up(table="people")),
        (looked_up(), looked_up(how="left")),
        (looked_up(schema="id string, a int, b int"), looked_up(schema="id string, b int, a int")),
        (looked_up(), looked_up(rows=lambda table: table.select("id", other="name"))),
        (processed(), processed(wider)),
        (processed(), processed(more)),
        (processed(), processed(key="page", out="page string")),
        (processed(), processed(ttl="1 minute")),
        (processed(ttl="1 minute"), processed(ttl="2 minutes")),
        (processed(ttl="1 minute"), processed(ttl="1 minute", timers="processing")),
        (lambda app: clicks(app, name="in").to("out"), lambda app: app.stream("other", name="in").to("out")),
        (
            lambda app: clicks(app).merge(clicks(app)).to("out"),
            lambda app: clicks(app).merge(clicks(app), clicks(app)).to("out"),
        ),
    ],
)
def test_what_changes_the_meaning_of_state_changes_the_fingerprint(one, other):
    assert lines(one) != lines(other)


def test_a_window_over_rows_that_are_kept_knows_their_columns():
    kept, chosen = (
        windowed(sliding("1 minute"), before=lambda rows, n=n: rows.select("user", *n)) for n in ("ab", "a")
    )
    assert lines(kept) != lines(chosen)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (windowed(), windowed(before=lambda rows: rows.where(rows.a > 3))),
        (windowed(), windowed(before=lambda rows: rows.with_columns(page=F.upper("page")))),
        (windowed(), windowed(before=lambda rows: rows.rekey("page"))),
        (windowed(), windowed(value="sum(a)")),
        (windowed(), windowed(emit="updates")),  # the engine keeps the same for both
        (
            windowed(),
            windowed(schema="user STRING NOT NULL, a: integer, added timestamp", start="latest"),
        ),
        (windowed(), windowed(schema="user string, a int", format="delimited")),
        (joined(), joined(left=lambda rows: rows.where("a > 1"))),
        (looked_up(), looked_up(rows=lambda table: table.where("name <> ''"))),
        (
            looked_up(rows=lambda table: table.with_columns(name=F.upper("name"))),
            looked_up(rows=lambda table: table.with_columns(name=F.lower("name"))),
        ),
        (processed(), processed(out="user string, n int", on_error="skip")),
        (
            lambda app: clicks(app).to("out"),
            lambda app: clicks(app, schema="user int", time=None).where("user > 1").to("elsewhere", format="avro"),
        ),
        (
            lambda app: clicks(app).group_by("user").agg(n=F.count("*")).to("out"),
            lambda app: clicks(app).group_by("user").agg(m=F.count("*")).where("m > 1").materialize("view"),
        ),
    ],
)
def test_steps_without_state_and_sinks_change_freely(one, other):
    assert lines(one) == lines(other)


def test_a_class_declares_the_states_of_both_its_halves():
    class Sprees:
        def on_rows(self, key, rows, count: State[int], timers: Timers):
            return ()

        def on_timer(self, key, time, seen: MapState[str, float]):
            return ()

    assert lines(processed(Sprees))[3:] == [
        "process: of topic clicks",
        "process: by user",
        "process: with Sprees",
        "process: count State[bigint]",
        "process: seen MapState[string, double]",
        "process: timers event",
        "process: called process-1, level 1",
        "process: late rows 10 seconds",
    ]


def test_an_aggregate_in_python_keeps_its_columns():
    def folded(schema="n int", initial=0, function=spree):
        return lambda app: clicks(app).group_by("user").aggregate(initial, function, schema).to("out")

    assert lines(folded()) == lines(folded("n: INTEGER"))
    assert lines(folded()) == lines(folded(function=functools.partial(spree)))
    assert lines(folded()) != lines(folded("n bigint"))
    assert lines(folded()) != lines(folded(function=wider))
    assert lines(folded()) != lines(folded(initial=1))


@dataclass
class Inner:
    a: int


@dataclass
class Click:
    user: str
    n: int
    inner: list[Inner]


def test_columns_are_the_same_however_they_are_declared():
    ddl = "user STRING NOT NULL, `n`: LONG COMMENT 'how many', inner array<struct< a: bigint >>"
    assert declared_columns(Click) == declared_columns(Click, "avro") == declared_columns(ddl)
    assert declared_columns("a decimal(10, 2), b dec") == (("a", "decimal(10,2)"), ("b", "decimal(10,0)"))
    assert declared_columns(make_dataclass("One", [("a", float)])) == (("a", "double"),)


def test_where_the_engine_keeps_the_state_of_a_step_counts():
    """It finds state by the step's name and the steps with state above it, its timers by how late rows may be."""
    assert lines(processed()) != lines(processed(name="sprees"))
    assert lines(windowed()) == lines(windowed(before=lambda rows: rows.map(lambda row: row, "user string, a int")))
    assert lines(windowed()) != lines(windowed(before=lambda rows: rows.deduplicate("a", within="1 hour")))

    def beside(grace):
        def build(app: App) -> None:
            rows = clicks(app)
            rows.group_by("user").window(tumbling("1 minute", grace="1 hour")).agg(n=SUM).to("slow")
            rows.group_by("user").window(tumbling("1 minute", grace=grace)).agg(n=SUM).to("quick")

        return build

    assert lines(beside("5 seconds")) != lines(beside("20 seconds"))
