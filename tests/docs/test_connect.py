"""docs/connect.md: its commands on Spark, and its connector as a plug-in."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from docs.pages import DOCS, Terminal, blocks
from odradek.cli.connect_remote import described
from odradek.cli.main import main
from odradek.client import Consumer
from odradek.client.admin import Admin
from odradek.connect.validation import validated
from odradek.spark.java import NoJava, find_java
from odradek.testing import Embedded
from support.connect_service import connect_service, eventually
from support.topics import Records

PAGE = DOCS / "connect.md"


def yaml_of(part: str) -> str:
    """The block of the page with this option."""
    return next(block.text for block in blocks(PAGE, "yaml") if part in block.text)


def lines(folder: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in folder.glob("*.jsonl"))


def captured(bootstrap: str) -> list[int]:
    if "lines" not in Admin(bootstrap).topics():
        return []
    with Consumer("lines", bootstrap=bootstrap, stop_at_end=True) as consumer:
        return sorted(json.loads(record.value) for record in consumer)


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
    serve, first, second, third, _, lake = blocks(PAGE, "sh")
    with Embedded() as broker, Terminal(tmp_path, broker.bootstrap_servers) as terminal:
        terminal.run(serve)
        terminal.run(first)
        eventually(lambda: lines(tmp_path / "out") == 1000)
        if find_spec("deltalake"):
            terminal.run(lake)
            eventually(lambda: list((tmp_path / "lake" / "orders").glob("day=*/*.parquet")))
        terminal.run(second)
        eventually(lambda: captured(broker.bootstrap_servers) == [1, 2])
        terminal.run(third)
        assert set(captured(broker.bootstrap_servers)) == {1, 2}
        assert terminal.interrupt() == [0]


def test_the_dead_letter_commands_of_the_page(tmp_path: Path) -> None:
    with Embedded() as broker, connect_service(broker.bootstrap_servers) as service:
        for topic in ("orders", "orders-dlq"):
            Admin(broker.bootstrap_servers).create_topic(topic, 1)
        context = {"topic": "orders", "partition": "0", "offset": "0", "connector.name": "orders-table"}
        headers = [(f"__connect.errors.{name}", text.encode()) for name, text in context.items()]
        Records(broker.bootstrap_servers).put("orders-dlq", ["bad"], headers=headers)
        _, _, _, _, commands, _ = blocks(PAGE, "sh")
        env = {"ODRADEK_BOOTSTRAP": broker.bootstrap_servers, "ODRADEK_CONNECT": service.url}
        for line in commands.text.splitlines():
            done = CliRunner().invoke(main, shlex.split(line)[1:], env=env)
            assert done.exit_code == 0, (line, done.output)
        with Consumer("orders", bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
            assert [record.value for record in consumer] == [b"bad"]


def test_the_transforms_of_the_page_are_valid(tmp_path: Path) -> None:
    (tmp_path / "masked.yaml").write_text(yaml_of("transforms:"))
    ((name, config, _),) = described(tmp_path / "masked.yaml")
    assert config["transforms"] == "mask,day"
    assert validated({**config, "name": name}).errors == []


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


def test_the_mirrors_of_the_page_are_valid(tmp_path: Path) -> None:
    (tmp_path / "mirror.yaml").write_text(yaml_of("connector.class: mirror"))
    found = list(described(tmp_path / "mirror.yaml"))
    assert [name for name, _, _ in found] == ["west", "west-groups"]
    assert [validated({"name": name, **config}).errors for name, config, _ in found] == [[], []]
