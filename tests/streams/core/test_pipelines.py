"""Applications over real topics on a real Spark, from what is sent to what comes out."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from odradek.streams import App, F, State, tumbling
from odradek.streams.explanations import QueryFailed


def minute(seconds: float) -> str:
    return f"2026-01-01T00:{int(seconds) // 60:02}:{seconds % 60:06.3f}Z"


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


def test_windows_give_final_results_and_updates_and_views(topics, live):
    app = App("windows")
    events = app.stream("windows-in", schema="driver string, at timestamp", time="at", late="5 seconds")
    counts = events.group_by("driver").window(tumbling("1 minute")).agg(n=F.count("*"))
    counts.select("driver", "n", start="date_format(window_start, 'HH:mm')").to("windows-final", key="driver")
    counts.where("n >= 2").materialize("busy", key="driver")
    totals = events.group_by("driver").count()
    totals.where("count < 4").to("windows-totals")
    topics.send("windows-in", *({"driver": "a", "at": minute(s)} for s in (1, 2, 70)), {"driver": "b", "at": minute(3)})

    running = live(app)
    running.await_all_processed()
    assert sorted(topics.keyed("windows-totals")) == [
        ("a", {"driver": "a", "count": 3}),
        ("b", {"driver": "b", "count": 1}),
    ]
    late_for_the_first_window = {"driver": "a", "at": minute(5)}
    topics.send("windows-in", late_for_the_first_window, {"driver": "a", "at": minute(200)})
    running.await_all_processed()

    assert sorted((row["start"], row["driver"], row["n"]) for row in topics.values("windows-final")) == [
        ("00:00", "a", 2),
        ("00:00", "b", 1),
        ("00:01", "a", 1),
    ]
    assert topics.keyed("windows-totals")[-1] == ("a", None), "a count that is no longer below 4 is taken back"
    view = running.view("busy")
    view.wait_caught_up()
    assert b'"n":2' in view.get("a")
    assert view.get("b") is None


def test_streams_meet_streams_and_tables(topics, live):
    app = App("joins")
    clicks = app.stream("joins-clicks", schema="user string, page string, at timestamp", time="at")
    buys = app.stream("joins-buys", schema="user string, item string, at timestamp", time="at")
    users = app.table("joins-users", key="id", schema="id string, name string, since timestamp", time="since").drop(
        "since"
    )
    both = clicks.join(buys, on="user", within=("0 seconds", "1 minute"), how="left").drop("at_right")
    both.join(users, on={"user": "id"}, how="left").to("joins-out", key="user")

    topics.send(
        "joins-users", {"key": "a", "name": "Anna", "since": minute(0)}, {"key": "b", "name": "Bo", "since": minute(0)}
    )
    topics.delete("joins-users", "b")
    topics.send(
        "joins-clicks", {"user": "a", "page": "/1", "at": minute(1)}, {"user": "b", "page": "/2", "at": minute(2)}
    )
    topics.send("joins-buys", {"user": "a", "item": "tea", "at": minute(30)})
    running = live(app)
    running.await_all_processed()
    topics.send("joins-users", {"key": "a", "name": "Anne", "since": minute(100)})
    topics.send("joins-clicks", {"user": "a", "page": "/3", "at": minute(200)})
    topics.send("joins-buys", {"user": "a", "item": "cup", "at": minute(201)})
    running.await_all_processed()

    out = sorted((row["page"], row.get("item"), row.get("name")) for row in topics.values("joins-out"))
    assert out == [("/1", "tea", "Anna"), ("/2", None, None), ("/3", "cup", "Anne")]


def test_a_record_that_nobody_takes_stops_the_application_and_is_named(topics, process):
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


def test_run_ends_with_a_signal_and_tells_what_it_did(topics, spark, tmp_path, capfd):
    app = App("signalled")
    app.stream("signalled-in", schema="n int").to("signalled-out")
    topics.send("signalled-in", {"n": 1})

    def stop_when_done() -> None:
        while "signalled-out" not in topics.cluster.topics() or not topics.cluster.end_offsets("signalled-out")[0]:
            threading.Event().wait(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    threading.Thread(target=stop_when_done, daemon=True).start()
    app.run(session=spark, bootstrap=topics.bootstrap, state_dir=str(tmp_path))
    assert topics.values("signalled-out") == [{"n": 1}]
    told = capfd.readouterr().err
    assert "signalled: " in told
    assert "signalled-in -> signalled-out" in told
    assert signal.getsignal(signal.SIGTERM) is before


def test_state_in_python_and_what_else_a_stream_can_meet(topics, live, spark):
    app = App("state")
    sales = app.stream("state-sales", schema="shop string, sum int", key="shop")
    sales.group_by("shop").reduce(lambda a, b: {"sum": a.sum + b.sum}, "sum int").to("state-sums")

    @sales.process(out="shop string, streak int")
    def streaks(shop, rows, length: State[int]):
        for row in rows:
            length.value = (length.value or 0) + 1 if row.sum > 10 else 0
            if length.value == 2:
                yield shop, length.value

    streaks.to("state-streaks")
    owners = app.table("state-owners", key="shop", schema="shop string, owner string")
    cities = app.table("state-cities", key="shop", schema="shop string, city string")
    owners.join(cities, how="outer").to("state-shops")
    names = spark.createDataFrame([("s1", "Tea & Co")], "id string, name string")
    named = sales.join(names, on={"shop": "id"}, how="left")
    large = app.sql("select shop, sum from `state_sales` where sum > 100")
    named.select("shop", "sum").merge(large).to("state-merged")
    named.to("state-named")

    topics.send("state-owners", {"shop": "s1", "owner": "Ada"}, {"shop": "s2", "owner": "Bob"})
    topics.send("state-cities", {"shop": "s1", "city": "Rome"})
    topics.send("state-sales", *({"shop": "s1", "sum": sum_} for sum_ in (5, 20)), {"shop": "s2", "sum": 3})
    running = live(app)
    running.await_all_processed()
    topics.send("state-sales", {"shop": "s1", "sum": 200})
    topics.delete("state-owners", "s1")
    running.await_all_processed()

    assert sorted(topics.keyed("state-sums"), key=str) == [
        ("s1", {"shop": "s1", "sum": 225}),
        ("s1", {"shop": "s1", "sum": 25}),
        ("s2", {"shop": "s2", "sum": 3}),
    ]
    assert topics.keyed("state-streaks") == [("s1", {"shop": "s1", "streak": 2})]
    shops = dict(topics.keyed("state-shops"))
    assert shops == {
        "s1": {"shop": "s1", "owner": None, "city": "Rome"},
        "s2": {"shop": "s2", "owner": "Bob", "city": None},
    }
    assert sorted(((row["sum"], row["name"]) for row in topics.values("state-named")), key=str) == [
        (20, "Tea & Co"),
        (200, "Tea & Co"),
        (3, None),
        (5, "Tea & Co"),
    ]
    assert sorted(row["sum"] for row in topics.values("state-merged")) == [3, 5, 20, 200, 200]
