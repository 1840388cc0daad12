"""`http-sink` against a real HTTP server: order by key, retries, bad records, TLS."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.client import Consumer
from odradek.client.admin import Admin
from odradek.connect.connectors.http_sink import HttpSink, HttpSinkConfig
from odradek.connect.interface import BadRecord, RetriableError
from odradek.connect.options import Secret, parse
from odradek.connect.records import Record, TopicPlace
from odradek.testing import Embedded
from support.connect_service import Service, eventually
from support.http_server import Answer, HttpServer, Request, http_server, self_signed
from support.topics import Records

_opened: list[HttpSink] = []


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with http_server() as server:
        yield server
        while _opened:
            _opened.pop().close()


def sink(url: str, **more: Any) -> HttpSink:
    made = HttpSink(HttpSinkConfig(http_url=url, **{"retry_backoff_ms": 1} | more))
    _opened.append(made)
    return made


def record(offset: int, value: object, key: object = None) -> Record:
    return Record(topic="orders", key=key, value=value, place=TopicPlace("orders", 0, offset))


def bodies(server: HttpServer) -> list[Any]:
    return [json.loads(request.body) for request in server.requests]


def test_each_record_is_a_request_with_headers(server: HttpServer) -> None:
    more = {"http_authorization_type": "static", "http_headers_authorization": Secret("Bearer t")}
    made = sink(f"{server.url}/hook?a=1", http_headers_additional=Secret("X-A: 1, X-B: x:y"), **more)
    made.write([record(0, {"n": 1}), record(1, None), record(2, {"n": 2})])
    assert bodies(server) == [{"n": 1}, {"n": 2}]
    (request, _) = server.requests
    assert (request.method, request.path) == ("POST", "/hook?a=1")
    wanted = {"Authorization": "Bearer t", "X-A": "1", "X-B": "x:y", "Content-Type": "application/json"}
    assert wanted.items() <= request.headers.items()
    assert [each.headers["Idempotency-Key"] for each in server.requests] == ["orders-0-0", "orders-0-2"]


def test_keys_are_sent_in_order_and_different_keys_at_the_same_time(server: HttpServer) -> None:
    both, lock, now, most = threading.Event(), threading.Lock(), [0], [0]

    def reply(request: Request) -> Answer:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if most[0] > 1:
                both.set()
        assert both.wait(60), "no second request while this one waits"
        with lock:
            now[0] -= 1
        return Answer()

    server.reply = reply
    sink(server.url).write([record(n, {"key": n % 10, "n": n}, key=n % 10) for n in range(200)])
    by_key: dict[int, list[int]] = defaultdict(list)
    for body in bodies(server):
        by_key[body["key"]].append(body["n"])
    assert len(by_key) == 10
    assert all(numbers == sorted(numbers) and len(numbers) == 20 for numbers in by_key.values())
    assert 2 <= most[0] <= 4


def test_a_busy_server_is_retried_and_its_retry_after_obeyed(server: HttpServer) -> None:
    answers = iter([Answer(503), Answer(429, headers={"Retry-After": "1"}), Answer(200)])
    arrived: list[float] = []

    def reply(_: Request) -> Answer:
        arrived.append(time.monotonic())
        return next(answers)

    server.reply = reply
    sink(server.url).write([record(0, 1)])
    assert len(arrived) == 3
    assert arrived[2] - arrived[1] > 0.99  # the sink must not be earlier; later is no failure


def test_an_outage_blames_no_record_and_delivered_records_are_not_repeated(server: HttpServer) -> None:
    is_down = threading.Event()
    is_down.set()
    server.reply = lambda request: Answer(500, b"no disk") if is_down.is_set() and request.body == b"3" else Answer()
    made = sink(server.url, max_in_flight=1, max_retries=1)
    batch = [record(n, n) for n in range(6)]
    with pytest.raises(RetriableError, match="answers 500: no disk"):
        made.write(batch)
    assert bodies(server) == [0, 1, 2, 3, 3]
    is_down.clear()
    made.write(batch)
    assert bodies(server) == [0, 1, 2, 3, 3, 3, 4, 5]
    made.write(batch)  # a later request for the same records, as after a reset of offsets, sends them
    assert bodies(server)[8:] == [0, 1, 2, 3, 4, 5]


def test_a_server_that_cannot_be_reached_is_an_outage() -> None:
    with http_server() as server:
        url = server.url
    made = sink(url, max_retries=1)
    with pytest.raises(RetriableError, match="does not answer"):
        made.write([record(0, 1)])
    made.close()


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_a_wrong_address_or_login_makes_no_dead_letters(server: HttpServer, status: int) -> None:
    server.reply = lambda _: Answer(status, headers={"Location": "/elsewhere"})
    with pytest.raises(RetriableError, match=r"Correct http\.url"):
        sink(server.url).write([record(0, 1)])
    assert len(server.requests) == 1


def test_batches_join_records_and_halves_find_the_one_to_blame(server: HttpServer) -> None:
    server.reply = lambda request: Answer(422, b"seven!") if 7 in json.loads(request.body) else Answer()
    joined = {"batch_prefix": "[", "batch_separator": ",", "batch_suffix": "]"}
    made = sink(server.url, batching_enabled=True, batch_max_size=4, max_in_flight=1, **joined)
    batch = [record(n, n) for n in range(10)]
    with pytest.raises(BadRecord, match="answers 422: seven!") as bad:
        made.write(batch)
    assert bad.value.record is batch[7]
    made.write(batch[:7])
    made.write(batch[8:])
    assert bodies(server) == [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [6, 7], [6], [7], [8, 9]]


def test_a_long_reply_is_not_read_to_its_end(server: HttpServer) -> None:
    server.reply = lambda _: Answer(200, b"x" * (8 << 20))
    sink(server.url).write([record(n, n) for n in range(3)])
    assert len(server.requests) == 3


def test_certificates_are_verified(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    certificate = self_signed(tmp_path)
    with http_server(certificate=certificate) as server:
        with pytest.raises(RetriableError, match="certificate"):
            sink(server.url, max_retries=0).write([record(0, 0)])
        sink(server.url, http_ssl_ca_location=str(certificate)).write([record(0, 1)])
        sink(server.url, http_ssl_trust_all_certs=True).write([record(0, 2)])
        assert bodies(server) == [1, 2]
        while _opened:
            _opened.pop().close()


def test_options_that_cannot_work_are_refused() -> None:
    given = {"http.url": "ftp://x", "http.headers.additional": "no header"}
    assert parse(HttpSinkConfig, given).errors == [
        "\"http.url\" is 'ftp://x', but it must be an http or https address",
        '"http.headers.additional" is ****, but it must be a list of headers such as X-Tenant: a, X-Region: b',
    ]
    with pytest.raises(ValueError, match=r"needs the option .http.headers.authorization"):
        HttpSink(HttpSinkConfig(http_url="http://x", http_authorization_type="static"))


def test_refused_records_become_dead_letters_and_all_others_arrive(
    service: Service, broker: Embedded, server: HttpServer, records: Records
) -> None:
    server.reply = lambda request: Answer(422, b"odd") if int(request.body) % 2 else Answer()
    records.put("hooked", [str(n) for n in range(20)])
    service.create(
        "hook",
        connector_class="http-sink",
        topics="hooked",
        http_url=server.url,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="hook-dead",
        errors_deadletterqueue_context_headers_enable="true",
    )
    admin = Admin(broker.bootstrap_servers)
    eventually(lambda: admin.committed("connect-hook") == {("hooked", 0): 20})
    assert sorted(n for n in bodies(server) if n % 2 == 0) == list(range(0, 20, 2))
    with Consumer("hook-dead", bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
        letters = list(consumer)
    assert [int(letter.value) for letter in letters] == list(range(1, 20, 2))
    assert b"answers 422: odd" in dict(letters[0].headers)["__connect.errors.exception.message"]
    service.http.delete("/connectors/hook")
