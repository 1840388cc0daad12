"""Applications over real topics on a real Spark, from what is sent to what comes out."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from pyspark import cloudpickle
from pyspark.sql import Row

from odradek.streams import App, F, State, tumbling
from odradek.streams.compile.explanations import QueryFailed
from odradek.streams.run.progress import Progress
from streams.feeding import NOON, seconds

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as what a user's script defines


def noon(seconds: float) -> str:
    return (NOON + timedelta(seconds=seconds)).isoformat()


def test_from_topic_to_topics_with_dead_letters_and_on_again_after_a_restart(topics, process):
    app = App("plain")
    events = app.stream("plain-in", schema="driver string, speed double", dlq="plain-dlq")
    fast, rest = events.branch(events.speed > 80)
    fast.select("driver", kmh=F.round(events.speed * 1.6)).to("plain-fast", key="driver", partitions=2)
    rest.map(lambda row: {"ratio": 100 / row.speed}, "ratio double", dlq="plain-dlq").to("plain-ratios")

    topics.send("plain-in", {"driver": "a", "speed": 100}, "{no json", {"driver": "b", "speed": 50}, key="k")
    process(app)
    topics.send("plain-in", {"driver": "c", "speed": 0}, {"driver": "d", "speed": 90})
    process(app)

    assert sorted(topics.keyed("plain-fast")) == [
        ("a", {"driver": "a", "kmh": 160.0}),
        ("d", {"driver": "d", "kmh": 144.0}),
    ]
    assert topics.cluster.partitions("plain-fast") == [0, 1]
    assert topics.keyed("plain-ratios") == [("k", {"ratio": 2.0})]
    broken, divided = topics.records("plain-dlq")
    assert broken.value() == b"{no json"
    told = {name.removeprefix("__streams.errors."): value.decode() for name, value in divided.headers()}
    assert (told["exception"], told["topic"], told["offset"]) == ("ZeroDivisionError", "plain-in", "3")
    assert topics.cluster.committed("plain.plain-in") == {("plain-in", 0): 5}


def test_windows_give_final_results_and_updates_and_views(topics, feed, kept, live):
    app = App("windows")
    source, events = feed(app, "events", "driver string", late="5 seconds")
    counts = events.group_by("driver").window(tumbling("1 minute")).agg(n=F.count("*"))
    final = kept(counts)
    counts.where("n < 3").materialize("quiet")
    events.group_by("driver").count().where("count < 4").to("windows-totals")
    source.put(*({"driver": "a", "at": at} for at in (1, 2, 70)), {"driver": "b", "at": 3}, {"at": 3})
    running = live(app)
    running.await_all_processed()
    late_for_the_first_window = {"driver": "a", "at": 5}
    source.put(late_for_the_first_window, *({"driver": "a", "at": at} for at in (71, 72, 200)))
    running.await_all_processed()

    assert sorted((seconds(row.window_start), str(row.driver), row.n) for row in final) == [
        (0.0, "None", 1),
        (0.0, "a", 2),
        (0.0, "b", 1),
        (60.0, "a", 3),
    ]
    assert sorted(topics.keyed("windows-totals"), key=str) == [
        ("a", None),
        ("a", {"driver": "a", "count": 3}),
        ("b", {"driver": "b", "count": 1}),
        (None, {"driver": None, "count": 1}),
    ], "a count that is no longer below 4 is taken back"
    view = running.view("quiet")
    view.wait_caught_up()
    rows = [json.loads(value) for _, value in view.scan()]
    assert sorted((row["window_start"][11:16], str(row["driver"]), row["n"]) for row in rows) == [
        ("12:00", "None", 1),
        ("12:00", "a", 2),
        ("12:00", "b", 1),
        ("12:03", "a", 1),
    ], "what a filter no longer accepts is gone: the second minute of a"


def test_streams_meet_streams_and_tables(topics, feed, kept, live):
    app = App("joins")
    clicks, seen = feed(app, "clicks", "user string, page string")
    buys, bought = feed(app, "buys", "user string, item string")
    users = app.table("joins-users", key="id", schema="id string, name string, since timestamp", time="since")
    both = seen.join(bought, on="user", within=("0 seconds", "1 minute"), how="left")
    out = kept(both.join(users.drop("since"), on={"user": "id"}, how="left"))

    topics.send("joins-users", *({"key": key, "name": name, "since": noon(0)} for key, name in (("a", "Anna"), "bB")))
    topics.delete("joins-users", "b")
    clicks.put({"user": "a", "page": "/1", "at": 1}, {"user": "b", "page": "/2", "at": 2})
    buys.put({"user": "a", "item": "tea", "at": 30})
    running = live(app)
    running.await_all_processed()
    topics.send("joins-users", {"key": "a", "name": "Anne", "since": noon(100)})
    clicks.put({"user": "a", "page": "/3", "at": 200})
    buys.put({"user": "a", "item": "cup", "at": 201})
    running.await_all_processed()

    assert sorted((row.page, row.item, row.name) for row in out) == [
        ("/1", "tea", "Anna"),
        ("/2", None, None),
        ("/3", "cup", "Anne"),
    ]


def test_refused_record_stops_the_application_and_is_named(topics, process):
    app = App("strict")
    app.stream("strict-in", schema="n int").to("strict-out")
    topics.send("strict-in", {"n": 1}, {"n": "many"})
    with pytest.raises(QueryFailed, match=r"strict-in cannot handle strict-in-0 at offset 1: "):
        process(app)


def test_a_running_application_follows_its_topics_until_it_is_stopped(topics, live):
    app = App("live")
    numbers = app.stream("live-in", schema="n int")
    numbers.where(numbers.n > 1).through("live-between").to("live-out")
    topics.send("live-in", {"n": 1}, {"n": 2})
    running = live(app)
    running.await_all_processed()
    assert topics.values("live-out") == [{"n": 2}]
    topics.send("live-in", {"n": 3})
    running.await_all_processed()
    assert topics.values("live-out") == [{"n": 2}, {"n": 3}]
    assert running.active
    running.stop()
    assert not running.active


def test_run_ends_with_a_signal_and_tells_what_it_did(topics, spark, tmp_path, capfd, monkeypatch):
    app = App("signalled")
    app.stream("signalled-in", schema="n int").to("signalled-out")
    topics.send("signalled-in", {"n": 1})

    def stop_when_done(*_: object) -> None:
        if topics.cluster.end_offsets("signalled-out")[0]:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Progress, "now_and_then", stop_when_done)
    before = signal.getsignal(signal.SIGTERM)
    app.run(session=spark, bootstrap=topics.bootstrap, state_dir=str(tmp_path))
    assert topics.values("signalled-out") == [{"n": 1}]
    told = capfd.readouterr().err
    assert "signalled-in -> signalled-out" in told
    assert "signalled: stopping" in told
    assert signal.getsignal(signal.SIGTERM) is before


def halves(shop: str, rows: Iterator[Row], seen: State[int]) -> Iterator[tuple[str, float | str]]:
    for row in rows:
        seen.value = (seen.value or 0) + 1
        yield shop, "many" if row.sum == 3 else seen.value / row.sum


def test_what_else_a_stream_can_meet(topics, feed, kept, live, spark):
    app = App("state")
    source, sales = feed(app, "sales", "shop string, sum int")
    shares = kept(sales.process(key="shop", out="shop string, share double", dlq="state-dlq")(halves))
    owners = app.table("state-owners", key="shop", schema="shop string, owner string")
    cities = app.table("state-cities", key="shop", schema="shop string, city string")
    owners.join(cities, how="outer").to("state-shops")
    names = spark.createDataFrame([("s1", "Tea & Co")], "id string, name string")
    named = sales.join(names, on={"shop": "id"}, how="left")
    large = app.sql("select shop, sum, 'large' as name from sales where sum > 100", sales=sales)
    merged = kept(named.merge(large))

    topics.send("state-owners", {"shop": "s1", "owner": "Ada"}, {"shop": "s2", "owner": "Bob"})
    topics.send("state-cities", {"shop": "s1", "city": "Rome"})
    source.put(*({"shop": "s1", "sum": sum_, "at": sum_} for sum_ in (0, 3, 5)), {"shop": "s2", "sum": 200, "at": 1})
    running = live(app)
    running.await_all_processed()
    topics.delete("state-owners", "s1")
    running.await_all_processed()

    assert sorted((row.shop, row.share) for row in shares) == [("s1", 0.2), ("s2", 0.005)]
    divided, many = topics.records("state-dlq")
    assert json.loads(divided.value()) == {"shop": "s1", "sum": 0}
    told = [dict(letter.headers()) for letter in (divided, many)]
    assert told[0]["__streams.errors.exception"] == b"ZeroDivisionError"
    assert told[1]["__streams.errors.message"] == b"column share: 'many' is no double"
    assert dict(topics.keyed("state-shops")) == {
        "s1": {"shop": "s1", "owner": None, "city": "Rome"},
        "s2": {"shop": "s2", "owner": "Bob", "city": None},
    }
    assert sorted((row.sum, row.name or "") for row in merged) == [
        (0, "Tea & Co"),
        (3, "Tea & Co"),
        (5, "Tea & Co"),
        (200, ""),
        (200, "large"),
    ]
