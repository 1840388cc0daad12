"""Plug-ins of other distributions, installed with pip: a sink for Redis, and a source of 40 lines."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from odradek.client import Consumer
from odradek.testing import Embedded
from support.connect_service import Service, eventually
from support.plugin_distributions import installed
from support.redis_process import redis_process
from support.topics import Records

ITEM = "<item><guid>{0}</guid><title>Item {0}</title></item>"


class Feed(http.server.BaseHTTPRequestHandler):
    ids: ClassVar[list[int]] = [2, 1]

    def do_GET(self) -> None:
        body = f"<rss><channel>{''.join(map(ITEM.format, self.ids))}</channel></rss>".encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def feed_url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Feed)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/feed"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_sink_for_redis_is_found_by_its_entry_point(
    service: Service, records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("redis_sink", tmp_path / "site", monkeypatch)
    found = {each["class"] for each in service.http.get("/connector-plugins").json()}
    assert "odradek_redis.RedisSink" in found
    with redis_process(tmp_path) as redis:
        url = f"redis://127.0.0.1:{redis.connection_pool.connection_kwargs['port']}/0"
        records.put("prices", ['{"eur": 1}', '{"eur": 2, "city": "Köln"}'], key='"apple"')
        records.put("prices", ['{"eur": 3}', None], key='"pear"')
        service.create("cache", connector_class="redis-sink", topics="prices", redis_url=url, redis_type="HASH")
        eventually(lambda: redis.hgetall("prices:apple") == {"eur": "2", "city": "Köln"})
        eventually(lambda: redis.hgetall("odradek:connect:cache:offsets") == {"prices-0": "4"})
        assert not redis.exists("prices:pear")
        # A group that lost its offsets, as after a crash: Redis knows what it has.
        redis.hset("prices:apple", "eur", "changed by hand")
        assert service.http.put("/connectors/cache/stop").status_code == 204
        eventually(lambda: service.http.get("/connectors/cache/status").json()["connector"]["state"] == "STOPPED")
        assert service.http.delete("/connectors/cache/offsets").status_code == 200
        assert service.http.put("/connectors/cache/resume").status_code == 202
        records.put("prices", ['{"eur": 9}'], key='"plum"')
        eventually(lambda: redis.hgetall("prices:plum") == {"eur": "9"})
        assert redis.hget("prices:apple", "eur") == "changed by hand"
        assert service.http.delete("/connectors/cache").status_code == 204


def test_a_source_of_forty_lines_writes_each_item_once(
    service: Service, broker: Embedded, feed_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("feed_source", tmp_path, monkeypatch)
    assert len((tmp_path / "odradek_feed.py").read_text().splitlines()) <= 40

    def titles() -> list[str]:
        if "news" not in service.steward.admin.topics():
            return []
        with Consumer("news", bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
            return [json.loads(record.value)["title"] for record in consumer]

    service.create("news", connector_class="feed", url=feed_url, topic="news", poll_interval_ms=50)
    eventually(lambda: titles() == ["Item 1", "Item 2"], titles)
    Feed.ids = [3, 2, 1]
    eventually(lambda: titles() == ["Item 1", "Item 2", "Item 3"], titles)
