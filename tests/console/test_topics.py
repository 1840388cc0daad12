"""Topics and their messages over HTTP: searches, live tails, export, forms, and what is refused."""

from __future__ import annotations

import csv
import io
import itertools
import json
import struct
import subprocess
import sys
import threading
from contextlib import nullcontext
from dataclasses import replace
from html.parser import HTMLParser

import confluent_kafka
import httpx
import pytest

from odradek.base.errors import ErrorCode
from odradek.client import Admin, Consumer, Producer
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.layout import read_topic
from odradek.console.collecting.snapshot import NO_LEADER
from odradek.console.messages import exporting, streaming
from odradek.console.messages.copying import commands
from odradek.console.messages.exporting import harmless
from odradek.console.messages.query import MessageQuery, prepared
from odradek.console.messages.searching import Search
from odradek.console.messages.seen import Seen
from odradek.console.messages.source import Source
from odradek.console.pages.topic.layout import TopicPages
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.protocol.messages.p02_list_offsets import ListOffsetsRequest
from odradek.testing import Embedded
from support.consoles import HTML, Running, events_of
from support.schema_registry import schema_registry
from support.waiting import wait_until

SCRIPT = "<script>document.title='hacked'</script>"
NAMES = itertools.count()


def topic_with(
    broker: Embedded, *records: tuple[bytes | None, bytes | None], partitions: int = 1, **config: str
) -> str:
    name = f"messages-{next(NAMES)}"
    Admin(broker.bootstrap_servers).create_topic(name, partitions)
    with Producer(bootstrap=broker.bootstrap_servers) as producer:
        for key, value in records:
            producer.send(name, value, key, headers={"trace": key or b"none"}, partition=0)
    return name


@pytest.fixture(scope="module")
def orders(broker: Embedded) -> str:
    return topic_with(
        broker, *((f"{n}".encode(), json.dumps({"n": n, "late": n % 7 == 0}).encode()) for n in range(200))
    )


# --- searching


def test_search_returns_the_newest_records_first(console: Running, orders: str):
    rows = console.found(f"/topics/{orders}/search", limit="20")
    assert [row["key"]["text"] for row in rows] == [str(n) for n in range(199, 179, -1)]
    assert rows[0]["value"] == {"kind": "json", "text": '{"n":199,"late":false}'}


def test_search_begins_at_an_offset_a_time_or_the_oldest_record(console: Running, orders: str):
    path = f"/topics/{orders}/search"
    assert [row["o"] for row in console.found(path, limit="2", **{"from": "oldest"})] == [0, 1]
    assert [row["o"] for row in console.found(path, limit="2", **{"from": "offset", "at": "40"})] == [40, 41]
    assert [row["o"] for row in console.found(path, limit="2", **{"from": "offset", "at": "-3"})] == [197, 198]
    first = console.found(path, limit="1", **{"from": "oldest"})[0]
    at = str(first["t"] + 1)
    later = console.found(path, limit="1", **{"from": "time", "at": str(first["t"])})
    assert later[0]["t"] >= first["t"]
    assert console.found(path, **{"from": "time", "at": str(first["t"] + 3_600_000)}) == []
    assert at != str(first["t"])


def test_search_continues_where_it_stopped(console: Running, orders: str):
    path, seen, left = f"/topics/{orders}/search", [], ""
    while True:
        events = console.events(path, filter="value.late", limit="10", left=left)
        seen += [row["key"]["text"] for name, rows in events if name == "messages" for row in rows]
        [done] = [told for name, told in events if name == "done"]
        left = done["left"]
        if not left:
            break
    assert seen == [str(n) for n in range(196, -1, -7)]


def test_search_reports_its_progress_at_the_end(console: Running, orders: str):
    events = console.events(f"/topics/{orders}/search", filter='value contains "nowhere"')
    [last] = [told for name, told in events if name == "progress"][-1:]
    assert (last["share"], last["records"], last["found"]) == (1.0, 200, 0)
    assert events[-1] == ("done", {"left": "", "found": 0})


def test_columns_show_single_fields(console: Running, orders: str):
    [row] = console.found(f"/topics/{orders}/search", filter='key == "14"', columns='value.n, header["trace"], value.x')
    assert row["columns"] == ["14", "14", ""]


@pytest.mark.parametrize(
    ("params", "field", "told"),
    [
        ({"filter": "value.n = 3"}, "filter", "=="),
        ({"filter": "nothing > 1"}, "filter", "value.nothing"),
        ({"columns": "value.n >"}, "columns", "expected the end"),
        ({"from": "offset", "at": "x"}, "at", "expected an offset"),
        ({"from": "time", "at": "now"}, "at", "-15m"),
        ({"from": "middle"}, "from", "newest"),
        ({"partition": "9"}, "partition", "no partition 9"),
        ({"partition": "a"}, "partition", "numbers"),
        ({"limit": "100000"}, "limit", "1 to 500"),
        ({"value": "xml"}, "value", "auto"),
        ({"value": "avro", "value_schema": "{"}, "value_schema", "not an Avro schema"),
        ({"left": "0:x"}, "left", "ranges"),
    ],
)
def test_query_that_cannot_be_used_names_its_field(console: Running, orders: str, params, field: str, told: str):
    [(name, problem)] = console.events(f"/topics/{orders}/search", **params)
    assert (name, problem["field"]) == ("problem", field)
    assert told in problem["what"]
    if field not in ("partition", "left") or "numbers" in told:
        query = str(httpx.QueryParams(params))
        assert 'role="alert" data-problem>' in console.page(f"/topics/{orders}?{query}")


def test_search_stops_when_the_listener_leaves(console: Running, orders: str, monkeypatch: pytest.MonkeyPatch):
    """A search without an end: it reads the same window again and again."""
    monkeypatch.setattr(Search, "_continue", lambda self, window, shown: None)
    with httpx.stream(
        "GET", f"{console.url}/topics/{orders}/search", params={"filter": 'key == "none"'}, timeout=60
    ) as answer:
        events = events_of(answer)
        assert next(events)[0] == "progress"
        assert running_now() == 1
    wait_until(lambda: running_now() == 0, "the search stops")


def running_now() -> int:
    """How many searches and tails run."""
    names = [thread.name for thread in threading.enumerate()]
    return sum(name.startswith(("odradek-console-search", "odradek-console-live")) for name in names)


def test_search_says_which_partitions_it_leaves_out(
    console: Running, broker: Embedded, monkeypatch: pytest.MonkeyPatch
):
    name = topic_with(broker, (b"k", b"v"), partitions=3)
    topic = read_topic(console.console.cluster, name)
    led, *others = topic.partitions
    lost = replace(topic, partitions=(led, *(each._replace(leader=NO_LEADER) for each in others)))
    monkeypatch.setattr(TopicPages, "topic", lambda self, request: lost)
    events = console.events(f"/topics/{name}/search")
    assert ("note", {"what": "Partitions 1, 2 are not searched: they have no leader that answers."}) in events
    assert [row["key"]["text"] for kind, rows in events if kind == "messages" for row in rows] == ["k"]
    [(kind, told)] = console.events(f"/topics/{name}/search", partition="1")
    assert (kind, told["what"]) == ("problem", f"no partition of {name} has a leader that is known")


def test_other_sites_cannot_start_searches(console: Running, orders: str):
    for path in ("search", "live", "export.csv"):
        assert console.get(f"/topics/{orders}/{path}", **{"sec-fetch-site": "cross-site"}).status_code == 403


def test_only_some_searches_run_at_once(console: Running, orders: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streaming.Places, "one", lambda self: nullcontext(False))
    [(name, told)] = console.events(f"/topics/{orders}/search")
    assert name == "problem"
    assert "run already" in told["what"]


# --- live


def test_live_tail_shows_new_records_and_leaves_no_group(console: Running, broker: Embedded):
    name = topic_with(broker, (b"old", b"1"), partitions=2)
    with (
        httpx.stream(
            "GET", f"{console.url}/topics/{name}/live", params={"from": "live", "filter": 'key != "no"'}, timeout=60
        ) as answer,
        Producer(bootstrap=broker.bootstrap_servers) as producer,
    ):
        events = events_of(answer)
        next(told for told, _ in events if told == "ready")
        for key in ("a", "no", "b"):
            producer.send(name, b"2", key.encode(), partition=1).result()
        seen: list[str] = []
        while len(seen) < 2:
            kind, told = next(events)
            seen += [row["key"]["text"] for row in told] if kind == "messages" else []
    assert seen == ["a", "b"]
    wait_until(lambda: running_now() == 0, "the tail stops")
    assert not [group for group in Admin(broker.bootstrap_servers).groups() if "console" in group]


def test_live_tail_counts_what_it_leaves_out(console: Running, broker: Embedded, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streaming, "TAIL_ROWS_PER_S", 1)
    name = topic_with(broker, (None, b"1"))
    with (
        httpx.stream("GET", f"{console.url}/topics/{name}/live", timeout=60) as answer,
        Producer(bootstrap=broker.bootstrap_servers) as producer,
    ):
        events = events_of(answer)
        next(told for told, _ in events if told == "ready")
        for _ in range(50):
            producer.send(name, b"2")
        producer.flush()
        reports = (told for kind, told in events if kind == "progress")
        last = next(told for told in reports if told["records"] == 50)
    assert 1 <= last["found"] < 50
    assert last["found"] + last["left_out"] == 50


# --- one message


def test_message_is_a_page_and_json(console: Running, broker: Embedded):
    name = topic_with(broker, (SCRIPT.encode(), f'{{"html": "{SCRIPT}"}}'.encode()))
    page = console.page(f"/topics/{name}/messages/0/0")
    assert SCRIPT not in page
    assert "&lt;script&gt;" in page
    told = console.get(f"/topics/{name}/messages/0/0", accept="*/*").json()
    assert told["key"]["text"] == SCRIPT
    assert told["value"]["kind"] == "json"
    assert told["headers"] == [["trace", SCRIPT]]
    part = httpx.get(f"{console.url}/topics/{name}/messages/0/0", headers=HTML | {"x-part": "1"}).text
    assert "<html" not in part
    assert SCRIPT not in part


def test_commands_of_a_message_read_it_again(console: Running, broker: Embedded, tmp_path):
    name = topic_with(broker, (b"k", b"the value"), (b"other", b"x"))
    url = f"{console.url}/topics/{name}/messages/0/0"
    made = {each.name: each.text for each in commands(broker.bootstrap_servers, name, 0, 0, url)}
    page = console.page(f"/topics/{name}/messages/0/0")
    assert made["odradek"] in page
    odradek = made["odradek"].replace("odradek ", f"{sys.executable} -m odradek.cli ", 1)
    done = subprocess.run(odradek, shell=True, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["value"] == "the value"
    done = subprocess.run([sys.executable, "-c", made["Python"]], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("b'k' b'the value'")
    assert httpx.get(made["curl"].removeprefix("curl -s ").strip("'")).json()["value"]["text"] == "the value"


@pytest.mark.parametrize("place", ["0/99999", "7/0", f"0/{'9' * 5000}", "x/0"])
def test_message_that_does_not_exist_is_not_found(console: Running, orders: str, place: str):
    answer = console.get(f"/topics/{orders}/messages/{place}", accept="text/html")
    assert answer.status_code == 404
    told = ("offsets 0 to 199", "no partition 7", "is no partition and no offset")
    assert any(each in answer.text for each in told)


def test_avro_of_a_registry_is_decoded(broker: Embedded):
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    with schema_registry() as registry:
        number = registry._registered("x-value", {"schema": json.dumps(schema)})
        name = topic_with(broker, *((b"k", struct.pack(">bI", 0, number) + bytes([2 * n])) for n in range(5)))
        settings = ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0, schema_registry=registry.url)
        with running(settings) as (console, server):
            console.collector.wait_for_first(60)
            there = Running(console, server.url)
            [row] = there.found(f"/topics/{name}/search", filter="value.id == 3")
            assert row["value"] == {"kind": "avro", "text": '{"id":3}'}
            assert "Order (schema 1)" in there.page(f"/topics/{name}/messages/0/3")


# --- export


def test_exported_json_lines_can_be_produced_again(console: Running, broker: Embedded, tmp_path):
    name = topic_with(broker, (b"k\xff", b"\x00\xfe"), (None, None), (b"a", "ä".encode()))
    exported = console.get(f"/topics/{name}/export.jsonl", accept="*/*")
    assert exported.headers["content-disposition"] == f'attachment; filename="{name}.jsonl"'
    file, copy = tmp_path / "exported.jsonl", topic_with(broker)
    file.write_text(console.get(f"/topics/{name}/export.jsonl?from=oldest").text)
    command = [sys.executable, "-m", "odradek.cli", "produce", "-b", broker.bootstrap_servers, copy, str(file)]
    subprocess.run([*command, "--input", "jsonl"], check=True, capture_output=True)

    def records(topic: str) -> list[object]:
        with Consumer(topic, bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
            return [(record.key, record.value, record.headers) for record in consumer]

    assert records(copy) == records(name)


def test_export_takes_the_filter_and_more_than_a_page(console: Running, broker: Embedded):
    name = topic_with(broker, *((f"{n}".encode(), b"v") for n in range(1200)))
    lines = console.get(f"/topics/{name}/export.jsonl?from=oldest").text.splitlines()
    assert [json.loads(line)["offset"] for line in lines] == list(range(1200))
    lines = console.get(f"/topics/{name}/export.csv?filter=offset+%3C+3").text.splitlines()
    assert [row[1] for row in csv.reader(lines)] == ["offset", "2", "1", "0"]


def test_cells_of_csv_are_no_formulas(console: Running, broker: Embedded):
    name = topic_with(broker, (b"=1+1", b'@cmd|"x"'))
    [_, row] = csv.reader(io.StringIO(console.get(f"/topics/{name}/export.csv").text))
    assert row[3:5] == ["'=1+1", '\'@cmd|"x"']
    assert harmless("-5.5") == "-5.5"


def test_only_records_of_the_file_are_formatted(console: Running, orders: str, monkeypatch: pytest.MonkeyPatch):
    formatted, write = [], exporting._json_line

    def counted(topic: str, seen: Seen) -> str:
        formatted.append(seen.offset)
        return write(topic, seen)

    monkeypatch.setattr(exporting, "_json_line", counted)
    source = Source(console.console.cluster, console.console.snapshot, read_topic(console.console.cluster, orders))
    lines = "".join(exporting.exported(source, prepared(MessageQuery(), None), "jsonl", lambda: None, 5)).splitlines()
    assert [json.loads(line)["offset"] for line in lines] == formatted == [199, 198, 197, 196, 195]


def test_time_in_microseconds_is_shown_as_the_number(console: Running, broker: Embedded):
    name, micros = f"micros-{next(NAMES)}", 1_795_060_800_000_000
    Admin(broker.bootstrap_servers).create_topic(name, 1, {"message.timestamp.after.max.ms": str(2**62)})
    wait_until(lambda: name in console.console.snapshot.topics, "the console sees the topic")
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(name, b"v", timestamp=micros)
    producer.flush()
    assert str(micros) in console.page(f"/topics/{name}/messages/0/0")
    [_, row] = csv.reader(io.StringIO(console.get(f"/topics/{name}/export.csv").text))
    assert row[2] == str(micros)


def test_export_with_a_bad_filter_is_refused(console: Running, orders: str):
    answer = console.get(f"/topics/{orders}/export.csv?filter=x")
    assert (answer.status_code, answer.json()["what"]) == (400, "filter cannot be used")
    assert console.get(f"/topics/{orders}/export.xml").status_code == 404


# --- pages and forms


def test_list_of_topics_is_searched_sorted_and_cut_on_the_server(console: Running, broker: Embedded):
    admin = Admin(broker.bootstrap_servers)
    names = [f"listed-{n:02}" for n in range(60)]
    for name in names:
        admin.create_topic(name, 1, {"retention.ms": "3600000"})
    wait_until(lambda: names[-1] in console.console.snapshot.topics, "the console sees the topics")
    page = console.page("/topics?q=listed")
    assert "50 of 60 topics" in page
    assert "listed-49" in page
    assert "listed-50" not in page
    assert "1 h" in page
    assert "listed-59" in console.page("/topics?q=listed&sort=-topic")
    assert "__consumer_offsets" not in console.page("/topics?q=__consumer")
    deleted = console.post(
        "/delete-topics", form=f"/delete-topics?topic={names[0]}", topics=" ".join(names), confirm="x"
    )
    assert "Nothing is deleted" in deleted.text
    deleted = console.post(
        "/delete-topics", form=f"/delete-topics?topic={names[0]}", topics=" ".join(names), confirm="delete 60 topics"
    )
    assert "Deleted listed-00" in deleted.text
    assert not [name for name in admin.topics() if name.startswith("listed")]


def test_topic_is_created_with_a_preset(console: Running, broker: Embedded):
    name = f"created-{next(NAMES)}"
    page = console.page("/create-topic?preset=table")
    assert "cleanup.policy=compact" in page
    answer = console.post("/create-topic", name=name, partitions="3", replicas="1", configs="cleanup.policy=compact\n")
    assert f"Created the topic {name}." in answer.text
    assert len(Admin(broker.bootstrap_servers).partitions(name)) == 3
    for fields, told in [
        ({"name": name}, "already exists"),
        ({"name": "a b"}, "letters, digits"),
        ({"name": "x", "partitions": "0"}, "from 1 to"),
        ({"name": "x", "configs": "retention.ms"}, "name=value"),
        ({"name": "x", "configs": "no.such=1"}, "no.such"),
    ]:
        refused = console.post("/create-topic", **fields)
        assert refused.status_code == 400
        assert told in refused.text, refused.text


def test_config_is_changed_refused_and_reset(console: Running, orders: str, broker: Embedded):
    path, admin = f"/topics/{orders}/configuration", Admin(broker.bootstrap_servers)
    refused = console.post(path, form=path, name="retention.ms", value="soon", action="set")
    assert refused.status_code == 400
    assert 'value="soon"' in refused.text
    refused = console.post(path, form=path, name="retention.ms", value="9".rjust(30_001, "0"), action="set")
    assert (refused.status_code, "at most 30000" in refused.text) == (400, True)
    changed = console.post(path, form=path, name="retention.ms", value="7200000", action="set")
    assert "retention.ms is now 7200000." in changed.text
    assert admin.topic_config(orders)["retention.ms"] == "7200000"
    assert "2 h" in console.page(f"{path}?show=own")
    console.post(path, form=path, name="retention.ms", action="reset")
    assert admin.topic_config(orders)["retention.ms"] == "604800000"
    assert "No config matches." in console.page(f"{path}?show=own")


def test_record_is_produced_as_it_was_typed(console: Running, broker: Embedded):
    name = topic_with(broker, partitions=2)
    path = f"/topics/{name}/produce"
    sent = console.post(
        path, form=path, key="k", key_encoding="text", value="00 ff", value_encoding="hex", partition="1",
        headers="trace: a: b\r\nraw: 0x00ff\r\nnothing",
    )  # fmt: skip
    assert "Wrote partition 1, offset 0." in sent.text
    with Consumer(name, bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
        [record] = consumer
    assert (record.key, record.value, record.partition) == (b"k", b"\x00\xff", 1)
    assert record.headers == [("trace", b"a: b"), ("raw", b"\x00\xff"), ("nothing", None)]
    for fields, told in [
        ({"value": "{", "value_encoding": "json"}, "the value is not JSON"),
        ({"value": "0", "value_encoding": "hex"}, "the value is not Hex"),
        ({"value": "!", "value_encoding": "base64"}, "the value is not Base64"),
        ({"value": "x", "headers": ": y"}, "has no name"),
        ({"value": "x", "headers": '"a: y'}, "no JSON string"),
        ({"value": "x", "headers": '"a" b: y'}, "has no colon"),
        ({"value": "x", "partition": "2"}, "only 0 to 1"),
        ({"value": "x", "value_encoding": "xml"}, "no known encoding"),
    ]:
        refused = console.post(path, form=path, **fields)
        assert refused.status_code == 400
        assert told in refused.text


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"k", b"line\nline", [("a", b"b")]),
        (None, None, []),
        (b"", b"\xff\x00", [("bytes", b"\x00\n"), ("null", None), ("hex", b"0x01")]),
        (None, b"v", [("a:b", b"c"), (" outer ", b"c"), ("two\nlines", None), ('"quoted"', b""), ("", b"c")]),
        ("ä".encode(), b"carriage\r\nreturn", [("empty", b"")]),
    ],
)
def test_produce_again_writes_the_same_bytes(console: Running, broker: Embedded, key, value, headers):
    class Form(HTMLParser):
        """What a browser would send."""

        def __init__(self) -> None:
            super().__init__()
            self.fields: dict[str, str] = {}
            self._area = self._select = ""

        def handle_starttag(self, tag, attrs):
            given = dict(attrs)
            if tag == "textarea":
                self._area = given["name"]
                self.fields[self._area] = ""
            elif tag == "select":
                self._select = given.get("name", "")
            elif tag == "option" and "selected" in given:
                self.fields[self._select] = given["value"]

        def handle_data(self, data):
            if self._area:
                self.fields[self._area] += data

        def handle_endtag(self, tag):
            if tag == "textarea":
                self.fields[self._area] = self.fields[self._area].removeprefix("\n")
                self._area = ""

    name = topic_with(broker)
    with Producer(bootstrap=broker.bootstrap_servers) as producer:
        producer.send(name, value, key, headers=headers)
    form = Form()
    form.feed(console.page(f"/topics/{name}/produce?copy={name}:0:0"))
    kept = {field: form.fields[field] for field in ("key", "value", "key_encoding", "value_encoding", "headers")}
    console.post(f"/topics/{name}/produce", form=f"/topics/{name}/produce", **kept)
    with Consumer(name, bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
        first, second = consumer
    assert (second.key, second.value, second.headers) == (first.key, first.value, first.headers)


def test_dead_letter_is_offered_to_its_topic_without_its_error_headers(console: Running, broker: Embedded):
    origin, letters = topic_with(broker), topic_with(broker)
    headers = {"__connect.errors.topic": origin, "__connect.errors.exception.message": "bad", "trace": "a"}
    with Producer(bootstrap=broker.bootstrap_servers) as producer:
        producer.send(letters, b"v", b"k", headers=headers)
    wait_until(lambda: {origin, letters} <= console.console.snapshot.topics.keys(), "the console sees the topics")
    assert f"Redrive to {origin}" in console.page(f"/topics/{letters}/messages/0/0")
    page = console.page(f"/topics/{origin}/produce?copy={letters}:0:0")
    assert "trace: a" in page
    assert "__connect.errors" not in page


def test_partitions_are_added_and_records_deleted(console: Running, broker: Embedded):
    name = topic_with(broker, *((b"k", b"v") for _ in range(10)))
    manage, admin = f"/topics/{name}/manage", Admin(broker.bootstrap_servers)
    refused = console.post(f"/topics/{name}/delete-records", form=manage, before="end", partition="all", confirm="no")
    assert "No record is deleted" in refused.text
    assert admin.start_offsets(name) == {0: 0}
    console.post(f"/topics/{name}/delete-records", form=manage, before="offset", at="4", partition="0", confirm=name)
    assert admin.start_offsets(name) == {0: 4}
    console.post(f"/topics/{name}/delete-records", form=manage, before="time", at="-1h", partition="all", confirm=name)
    assert admin.start_offsets(name) == {0: 4}
    deleted = console.post(f"/topics/{name}/delete-records", form=manage, before="end", partition="all", confirm=name)
    assert "Deleted the records of 1 partition" in deleted.text
    assert admin.start_offsets(name) == {0: 10}
    moment = console.post(
        f"/topics/{name}/delete-records", form=manage, before="time", at="2020-01-01", partition="all", confirm=name
    )
    assert "Deleted" in moment.text
    for total, told in [("1", "expected a number from 2"), ("x", "expected a number"), ("3", "has 3 partitions")]:
        answer = console.post(f"/topics/{name}/add-partitions", form=manage, total=total)
        assert told in answer.text
    assert len(admin.partitions(name)) == 3
    refused = console.post(f"/topics/{name}/delete", form=manage, confirm=name + "x")
    assert "The topic is not deleted" in refused.text
    assert name in admin.topics()
    console.post(f"/topics/{name}/delete", form=manage, confirm=name)
    assert name not in admin.topics()


@pytest.mark.parametrize("at", ["1969-12-31T23:59:59.999", "1969-12-31T23:59:59.998", "1900-01-01", "-900000d"])
def test_no_record_is_deleted_before_a_time_that_kafka_has_not(console: Running, broker: Embedded, at: str):
    name = topic_with(broker, *((b"k", b"v") for _ in range(10)))
    manage = f"/topics/{name}/manage"
    refused = console.post(
        f"/topics/{name}/delete-records", form=manage, before="time", at=at, partition="all", confirm=name
    )
    assert "No record is deleted" in refused.text
    assert Admin(broker.bootstrap_servers).start_offsets(name) == {0: 0}
    [(kind, told)] = console.events(f"/topics/{name}/search", **{"from": "time", "at": at})
    assert (kind, told["field"]) == ("problem", "at")


def test_no_record_is_deleted_while_a_partition_does_not_say_which_are_old(
    console: Running, broker: Embedded, monkeypatch: pytest.MonkeyPatch
):
    name = topic_with(broker, *((b"k", b"v") for _ in range(10)), partitions=2)
    manage, ask = f"/topics/{name}/manage", Cluster.at

    def failing(self: Cluster, node: int, request: object, *args: object, **named: object) -> object:
        answer = ask(self, node, request, *args, **named)
        if isinstance(request, ListOffsetsRequest) and request.topics[0].partitions[0].timestamp >= 0:
            first = answer.topics[0].partitions[0]
            first.error_code, first.offset = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        return answer

    monkeypatch.setattr(Cluster, "at", failing)
    refused = console.post(
        f"/topics/{name}/delete-records", form=manage, before="time", at="-1h", partition="all", confirm=name
    )
    assert "No record is deleted" in refused.text
    assert "partition: 0" in refused.text
    assert Admin(broker.bootstrap_servers).start_offsets(name) == {0: 0, 1: 0}
    events = console.events(f"/topics/{name}/search", **{"from": "time", "at": "-1h"})
    assert ("note", {"what": "Partition 0 is not searched: it has no leader that answers."}) in events


def test_consumers_and_partitions_of_a_topic_are_shown(console: Running, broker: Embedded, orders: str):
    with Consumer(orders, group="readers", bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
        for number, _ in enumerate(consumer):
            if number == 150:
                break
    wait_until(
        lambda: (
            orders in getattr(console.console.snapshot.groups.get("readers"), "lag", None).lag_by_topic
            if getattr(console.console.snapshot.groups.get("readers"), "lag", None)
            else False
        ),
        "the console sees the commits",
    )
    assert 'href="/groups/readers"' in console.page(f"/topics/{orders}/consumers")
    page = console.page(f"/topics/{orders}/partitions")
    assert ">200<" in page
    assert "in sync" in page


def test_actions_need_the_token_and_a_console_that_may_write(console: Running, broker: Embedded, orders: str):
    paths = ["produce", "configuration", "add-partitions", "delete-records", "delete"]
    changes = [f"/topics/{orders}/{each}" for each in paths] + ["/create-topic", "/delete-topics"]
    for path in changes:
        assert httpx.post(console.url + path, data={"confirm": orders, "name": "x"}).status_code == 403
    settings = ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0, read_only=True)
    with running(settings) as (read_only, server):
        there = Running(read_only, server.url)
        read_only.collector.wait_for_first(60)
        for path in changes:
            refused = there.post(path, form=f"/topics/{orders}/manage", confirm=orders, name="x", topics=orders)
            assert refused.status_code == 403, path
            assert "read-only" in refused.text
        assert there.found(f"/topics/{orders}/search", limit="1")
        assert "Create a topic" not in there.page("/topics")
        assert "Produce again" not in there.page(f"/topics/{orders}/messages/0/0")
    assert orders in Admin(broker.bootstrap_servers).topics()


@pytest.mark.parametrize("path", ["/topics/nowhere", "/topics/nowhere/search", "/topics/%3Cscript%3E", "/topics/a%2Fb"])
def test_topic_that_does_not_exist_is_not_found(console: Running, path: str):
    answer = console.get(path, accept="text/html")
    assert answer.status_code == 404
    assert "<script>" not in answer.text.replace('<script type="module"', "")
