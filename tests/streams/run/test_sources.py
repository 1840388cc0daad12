"""What a source can read, on a real broker and a real Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from odradek.pipeline.formats.protobuf import encode
from odradek.streams import App, F, header, lit, tumbling
from odradek.streams.formats import Protobuf
from pipeline.formats.protobuf_messages import message


def test_several_topics_are_one_stream(odradek_test_driver):
    app = App("many-topics")
    both = app.stream(["web", "shop"], schema="user string, n int", key="user")
    both.group_by("user").window(tumbling("1 minute")).agg(n=F.sum("n"), all=F.collect_list("n")).to("sums")
    with odradek_test_driver(app) as t:
        for number in range(3):  # both topics have records of the same partition, offset and time
            t.input("web").send({"user": "a", "n": number}, at="2026-01-01T00:00:01Z")
            t.input("shop").send({"user": "a", "n": 10 * number}, at="2026-01-01T00:00:01Z")
        t.advance_time("2026-01-01T00:02:00Z")
        (sums,) = t.output("sums").read_values()
        assert sums["n"] == 33
        assert sums["all"] in ([0, 1, 2, 0, 10, 20], [0, 10, 20, 0, 1, 2]), "one topic after the other"


def test_a_pattern_reads_topics_that_come_later(odradek_test_driver):
    app = App("pattern")
    app.stream(pattern="region-.*", schema="n int", topic_as="region").to("regions")
    with odradek_test_driver(app) as t:
        t.settle()  # no topic matches yet
        t.input("region-north").send({"n": 1})
        assert t.output("regions").read_values() == [{"n": 1, "region": "region-north"}]
        t.input("region-south").send({"n": 2})
        assert t.output("regions").read_values() == [{"n": 2, "region": "region-south"}]
        with pytest.raises(KeyError, match="reads no topic 'my-region-north'"):
            t.input("my-region-north")


def test_headers_come_in_as_a_column_and_go_out_again(odradek_test_driver):
    app = App("headers")
    orders = app.stream("orders", schema="id int", headers=True, dlq="bad")
    orders.to("copies", headers=orders.headers)
    traced = orders.with_columns(trace=header("trace"))
    traced.drop("headers").filter("trace is not null").to(
        "traced", headers={"trace": "trace", "id": orders.id + 1, "by": lit("us"), "nothing": lit(None)}
    )
    traced.select("id").to("mapped", headers=F.create_map(lit("id"), "id"))
    sent = {"trace": b"t-1", "none": None, "bytes": b"\xff\x00"}
    with odradek_test_driver(app) as t:
        t.input("orders").send({"id": 1}, "no json", headers=sent)
        t.input("orders").send({"id": 2})
        first, second = t.output("copies").read()
        assert (first.value, first.headers) == ({"id": 1}, sent)
        assert (second.value, second.headers) == ({"id": 2}, {})
        (traced_one,) = t.output("traced").read()
        assert traced_one.value == {"id": 1, "trace": "t-1"}
        assert traced_one.headers == {"trace": b"t-1", "id": b"2", "by": b"us"}
        assert [record.headers for record in t.output("mapped").read()] == [{"id": b"1"}, {"id": b"2"}]
        (letter,) = t.output("bad").read()
        assert letter.headers.items() >= sent.items(), "a dead letter keeps the headers of its record"


def test_protobuf_in_and_out(odradek_test_driver):
    order = message("shop.Order")
    app = App("messages")
    orders = app.stream("orders", format=Protobuf(order), time="at", dlq="bad")
    sums = orders.group_by("state").window(tumbling("1 minute")).agg(id=F.count("*"), tags=F.collect_list("note"))
    sums.select("state", "id", "tags", at="window_end").to("sums", key="state", format=Protobuf(order))
    orders.to("copies", format=Protobuf(order))
    with odradek_test_driver(app) as t:
        t.input("orders").send(
            {"id": 1, "state": "DONE", "note": "a", "lines": [{"sku": "s", "count": 2}], "named": {"n": {"sku": "m"}}},
            {"id": 2, "state": "DONE"},
            b"\xff\xff",
            at="2026-01-01T00:00:01Z",
        )
        t.advance_time("2026-01-01T00:02:00Z")
        first, second = t.output("copies").read_values()
        assert (first["id"], first["note"], first["lines"]) == (1, "a", [{"sku": "s", "count": 2}])
        assert first["named"] == {"n": {"sku": "m", "count": 0}}
        assert first["at"] == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
        assert (second["note"], second["lines"], second["named"]) == (None, [], {})
        (total,) = t.output("sums").read()
        found = order.FromString(encode(total.value, Protobuf(order).described))
        assert (total.key, found.state, found.id, list(found.tags)) == ("DONE", 1, 2, ["a"])
        (letter,) = t.output("bad").read()
        assert letter.headers["__streams.errors.exception"] == b"NotProtobuf"
