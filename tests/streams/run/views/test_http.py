"""Views over HTTP: one row, pages of rows, keys that are no text."""

from __future__ import annotations

import base64
from urllib.parse import quote

import httpx
import pytest
from confluent_kafka import Producer

from odradek.client.admin import Admin
from odradek.streams.run.views import View
from odradek.streams.run.views.http import _row, view_routes
from odradek.web.application import application
from odradek.web.server import HttpServer

ROWS = {
    b"driver-1": b'{"speed": 81}',
    b"driver-2": b"17",
    b"driver/with slash": b'"text"',
    "Zürich".encode(): b"null",
    b"raw": b"\x00\x01",
    b"\xff\xfe": b"{}",
    b'{"app":"web","level":"INFO"}': b'{"n": 3}',
}
NOT_QUITE_JSON = [b'{"a": NaN}', b"1e999", b'"\\ud800"', b"[" * 100_000 + b"]" * 100_000]


@pytest.fixture(scope="module")
def server(odradek_session, tmp_path_factory):
    bootstrap = odradek_session.bootstrap_servers
    Admin(bootstrap).create_topic("http-view", 2, {"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in ROWS.items():
        producer.produce("http-view", key=key, value=value)
    assert producer.flush(60) == 0
    with View(bootstrap, "http-view", tmp_path_factory.mktemp("views") / "v.db", name="speeds") as view:
        view.wait_caught_up()
        with HttpServer(application(view_routes([view]))) as running:
            yield running


@pytest.fixture
def get(server):
    with httpx.Client(base_url=server.url, timeout=60) as client:

        def ask(path: str, status: int = 200, **params: str | int):
            answer = client.get(path, params=params)
            assert answer.status_code == status, answer.text
            return answer.json()

        yield ask


def test_a_key_of_several_columns_in_any_order_and_with_spaces(get):
    for asked in ('{"app":"web","level":"INFO"}', '{"level": "INFO", "app": "web"}'):
        found = get(f"/views/speeds/{quote(asked)}")
        assert found == {"key": '{"app":"web","level":"INFO"}', "value": {"n": 3}}
    for missing in ('{"app": "web"}', "{no json"):
        get(f"/views/speeds/{quote(missing)}", 404)


def test_a_row_by_its_key(get):
    assert get("/views/speeds/driver-1") == {"key": "driver-1", "value": {"speed": 81}}
    assert get("/views/speeds/driver-2") == {"key": "driver-2", "value": 17}
    assert get("/views/speeds/driver/with slash")["value"] == "text"
    assert get("/views/speeds/Zürich") == {"key": "Zürich", "value": None}


def test_bytes_that_are_no_text(get):
    assert get("/views/speeds/raw") == {"key": "raw", "value_base64": "AAE="}
    assert get("/views/speeds/__4=", keys="base64") == {"key": "__4=", "value": {}}
    assert get("/views/speeds/" + base64.urlsafe_b64encode(b"driver-2").decode(), keys="base64")["value"] == 17
    [odd] = [row for row in get("/views/speeds")["rows"] if row["key"] is None]
    assert odd == {"key": None, "key_base64": "__4=", "value": {}}


@pytest.mark.parametrize("value", NOT_QUITE_JSON, ids=["nan", "infinite", "half a character", "deep"])
def test_values_that_only_python_accepts_as_json_do_not_break_a_page(value):
    assert _row(b"k", value, "text") == {"key": "k", "value_base64": base64.urlsafe_b64encode(value).decode()}


def test_large_rows_come_a_few_at_a_time(get, monkeypatch):
    monkeypatch.setattr("odradek.streams.run.views.http.PAGE_BYTES", 20)
    page = get("/views/speeds", prefix="driver")
    assert ([row["key"] for row in page["rows"]], page["next"]) == (["driver-1"], "driver-1")


def test_rows_in_order_page_by_page(get):
    first = get("/views/speeds", prefix="driver", limit=2)
    assert [row["key"] for row in first["rows"]] == ["driver-1", "driver-2"]
    rest = get("/views/speeds", prefix="driver", limit=2, after=first["next"])
    assert ([row["key"] for row in rest["rows"]], rest["next"]) == (["driver/with slash"], None)
    assert len(get("/views/speeds", keys="base64")["rows"]) == len(ROWS)


def test_a_page_that_ends_at_bytes_says_how_to_go_on(get):
    assert "keys=base64" in get("/views/speeds", 409, limit=len(ROWS))["why"]
    assert get("/views/speeds", keys="base64", limit=len(ROWS))["next"] == "__4="


def test_the_views_and_how_far_they_are(get):
    [view] = get("/views")
    assert (view["name"], view["topic"], view["state"], view["rows"]) == ("speeds", "http-view", "following", len(ROWS))
    assert sum(view["positions"].values()) == len(ROWS)
    assert view["problem"] is None


def test_missing_view_or_key_is_reported(get):
    assert get("/views/speeds/nobody", 404) == {
        "status": 404, "what": "no row 'nobody'", "why": "the view 'speeds' has no such key",
    }  # fmt: skip
    assert get("/views/speed/driver-1", 404)["why"] == "there are speeds"
    assert "1 to 10000" in get("/views/speeds", 400, limit=0)["why"]
    assert "1 to 10000" in get("/views/speeds", 400, limit="many")["why"]
    assert "base64" in get("/views/speeds/*", 400, keys="base64")["why"]
    assert get("/views/speeds", 400, keys="hex")["why"] == "keys are text or base64"
