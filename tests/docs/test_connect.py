"""docs/connect.md: its commands on Spark, and its connector as a plug-in."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from docs.pages import DOCS, Terminal, blocks
from odradek.client import Consumer
from odradek.spark.java import NoJava, find_java
from odradek.testing import Embedded
from support.connect_service import connect_service, eventually

PAGE = DOCS / "connect.md"


def lines(folder: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in folder.glob("*.jsonl"))


@pytest.mark.spark
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    try:
        find_java()
    except NoJava as missing:
        pytest.skip(str(missing))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("1\n2\n")
    described = blocks(PAGE, "yaml")[0]
    (tmp_path / "connectors.yaml").write_text(described.text)
    serve, first, second = blocks(PAGE, "sh")
    with Embedded() as broker, Terminal(tmp_path, broker.bootstrap_servers) as terminal:
        terminal.run(serve)
        terminal.run(first)
        eventually(lambda: lines(tmp_path / "out") == 1000)
        terminal.run(second)
        with Consumer("lines", bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
            found = [json.loads(record.value) for record in consumer]
        assert set(found) <= {1, 2}
        assert terminal.interrupt() == [0]


def test_the_connector_of_the_page_is_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,), (entry,) = blocks(PAGE, "python"), blocks(PAGE, "toml")
    (tmp_path / "counting.py").write_text(code.text)
    installed = tmp_path / "counting-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    name, _, place = entry.text.splitlines()[1].partition(" = ")
    (installed / "entry_points.txt").write_text(f"[odradek.connectors]\n{name} = {json.loads(place)}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with Embedded() as broker, connect_service(broker.bootstrap_servers) as service:
        service.create("count", connector_class="counter", topic="numbers", until=3)
        eventually(lambda: service.http.get("/connectors/count/offsets").json()["offsets"])
        with Consumer("numbers", bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
            assert [json.loads(record.value) for record in consumer] == [{"n": 0}, {"n": 1}, {"n": 2}]
