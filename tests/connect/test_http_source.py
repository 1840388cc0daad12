"""`http-source` against a real HTTP server: offsets, pages, unchanged replies, limits."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.client import Consumer
from odradek.connect.connectors.http_source import HttpSource, HttpSourceConfig
from odradek.connect.interface import RetriableError
from odradek.connect.records import Offset, Record
from odradek.testing import Embedded
from support.connect_service import Service, eventually
from support.http_server import Answer, HttpServer, Request, http_server

_opened: list[HttpSource] = []
FIELDS = {"http_response_record_offset_pointer": "id=/id", "http_offset_initial": "id=0"}


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with http_server() as server:
        yield server
        while _opened:
            _opened.pop().close()


def source(url: str, **more: Any) -> HttpSource:
    made = HttpSource(HttpSourceConfig(http_request_url=url, kafka_topic="events", **more))
    _opened.append(made)
    return made


def read(url: str, offset: Offset | None = None, **more: Any) -> tuple[list[Record], Offset | None]:
    """One poll, and the offset after it."""
    records = []
    for each in source(url, **more).read({}, offset):
        assert each is not None
        if isinstance(each, Record):
            records.append(each)
        offset = each.place.offset if isinstance(each, Record) else each.offset
    return records, offset


def rows(*ids: int) -> list[dict[str, int]]:
    return [{"id": n} for n in ids]


def query(request: Request) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request.path).query))


def events(request: Request) -> Answer:
    """Events 1 to 7, three on a page, after the id that the request names."""
    found = rows(*range(int(query(request)["after"]) + 1, 8))
    following = f"/events?after={found[2]['id']}" if len(found) > 3 else None
    return Answer(body=json.dumps({"data": {"items": found[:3]}, "next": following}).encode())


PAGED = {"http_response_list_pointer": "/data/items", "http_response_next_page_pointer": "/next", **FIELDS}


def test_polls_continue_after_the_last_record_page_by_page(server: HttpServer) -> None:
    server.reply = events
    records, offset = read(f"{server.url}/events", http_request_params="after=${offset.id}", **PAGED)
    assert [record.value for record in records] == rows(1, 2, 3, 4, 5, 6, 7)
    assert [query(request)["after"] for request in server.requests] == ["0", "3", "6"]
    assert offset == {"fields": {"id": 7}}
    again, offset = read(f"{server.url}/events?after=${{offset.id}}", records[4].place.offset, **PAGED)
    assert [record.value for record in again] == rows(6, 7)
    assert read(f"{server.url}/events?after=${{offset.id}}", offset, **PAGED)[0] == []


def test_records_up_to_the_last_one_are_skipped_if_the_server_sends_them_again(server: HttpServer) -> None:
    server.reply = lambda _: Answer(body=json.dumps(rows(3, 2, 1)).encode())
    newest_first = {"http_response_list_order_direction": "DESC", **FIELDS}
    records, offset = read(server.url, **newest_first)
    assert [record.value for record in records] == rows(1, 2, 3)
    server.reply = lambda _: Answer(body=json.dumps(rows(5, 4, 3, 2)).encode())
    records, _ = read(server.url, offset, **newest_first)
    assert [record.value for record in records] == rows(4, 5)


def test_an_unchanged_reply_is_not_read_again_and_a_changed_one_is(server: HttpServer) -> None:
    server.reply = lambda _: Answer(body=b'[{"id":1},{"id":2}]')
    records, offset = read(server.url)
    assert read(server.url, offset) == ([], offset)
    rest, _ = read(server.url, records[0].place.offset)
    assert [record.value for record in rest] == rows(2)
    server.reply = lambda _: Answer(body=b'[{"id":3}]')
    assert [record.value for record in read(server.url, offset)[0]] == rows(3)


@pytest.mark.parametrize("tracked", [{}, FIELDS])
def test_validators_make_the_next_request_conditional(server: HttpServer, tracked: dict[str, str]) -> None:
    def reply(request: Request) -> Answer:
        if request.headers.get("If-None-Match") == '"v1"':
            return Answer(304)
        return Answer(body=b'[{"id":1}]', headers={"ETag": '"v1"', "Last-Modified": "Wed, 18 Nov 2026 10:00:00 GMT"})

    server.reply = reply
    records, offset = read(server.url, **tracked)
    assert len(records) == 1
    assert read(server.url, offset, **tracked) == ([], offset)
    assert server.requests[1].headers["If-Modified-Since"] == "Wed, 18 Nov 2026 10:00:00 GMT"
    read(f"{server.url}/other", offset, **tracked)
    assert "If-None-Match" not in server.requests[2].headers


def test_the_next_page_may_be_in_a_link_header_but_not_on_another_server(server: HttpServer) -> None:
    links = {"/": '</two>; rel="next"', "/two": '<http://127.0.0.2:1/three>; rel="next"'}
    server.reply = lambda request: Answer(body=b"[1]", headers={"Link": links[request.path]})
    with pytest.raises(ValueError, match="on another server"):
        read(f"{server.url}/")
    assert [request.path for request in server.requests] == ["/", "/two"]


def test_key_time_value_and_login(server: HttpServer) -> None:
    server.reply = lambda _: Answer(body=b'{"k":"a","at":"2026-01-02T00:00:00Z","v":{"x":1}}')
    pointers = {"record_key_pointer": "/k", "record_timestamp_pointer": "/at", "record_pointer": "/v"}
    (record,), _ = read(
        server.url.replace("://", "://me:secret@"), **{f"http_response_{name}": at for name, at in pointers.items()}
    )
    assert (record.key, record.timestamp_ms, record.value) == ("a", 1767312000000, {"x": 1})
    assert server.requests[0].headers["Authorization"] == "Basic bWU6c2VjcmV0"


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (Answer(503), RetriableError, "answers 503"),
        (Answer(404, b"no such page"), ValueError, "answers 404: no such page"),
        (Answer(body=b"<html>"), ValueError, "does not answer with JSON"),
        (Answer(body=b"[" + b"1," * 5000 + b"1]"), ValueError, "more than 1000 bytes"),
        (Answer(body=b'{"rows":[]}'), ValueError, "finds no 'items' in the reply, which has: rows"),
    ],
)
def test_replies_that_cannot_be_used(server: HttpServer, answer: Answer, error: type, told: str) -> None:
    server.reply = lambda _: answer
    with pytest.raises(error, match=told):
        read(server.url, http_response_bytes_max=1000, http_response_list_pointer="/items")


def test_a_template_without_a_pointer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"uses \$\{offset.id\}: give id in http.response.record.offset.pointer"):
        HttpSource(HttpSourceConfig(http_request_url="http://x/?a=${offset.id}", kafka_topic="t"))


def test_polls_wait_for_their_interval(server: HttpServer) -> None:
    now = [0.0]
    server.reply = lambda _: Answer(body=b"[]")
    made = HttpSource(HttpSourceConfig(http_request_url=server.url, kafka_topic="t"), clock=lambda: now[0])
    _opened.append(made)
    assert not made.has_news({}, None)
    assert not made.has_news({}, None)
    assert len(server.requests) == 1
    now[0] = 60.0
    list(made.read({}, None))
    assert len(server.requests) == 2


def test_new_events_of_a_service_arrive_in_a_topic_once(service: Service, broker: Embedded, server: HttpServer) -> None:
    known = rows(1, 2, 3)
    server.reply = lambda request: Answer(
        body=json.dumps([row for row in known if row["id"] > int(query(request)["after"])]).encode()
    )
    service.create(
        "poll",
        connector_class="http-source",
        http_request_url=f"{server.url}/?after=${{offset.id}}",
        http_timer_interval_millis=20,
        http_timer_catchup_interval_millis=10,
        poll_interval_ms=20,
        kafka_topic="polled",
        **FIELDS,
    )
    offsets = lambda: [each["offset"] for each in service.http.get("/connectors/poll/offsets").json()["offsets"]]  # noqa: E731
    eventually(lambda: offsets() == [{"fields": {"id": 3}}])
    known += rows(4, 5)
    eventually(lambda: offsets() == [{"fields": {"id": 5}}])
    with Consumer("polled", bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
        assert [json.loads(record.value) for record in consumer] == rows(1, 2, 3, 4, 5)
    service.http.delete("/connectors/poll")
