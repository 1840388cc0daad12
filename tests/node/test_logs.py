"""The log of a process: one line per record, as text or as JSON, whatever clients write into it."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.node.logs import JSON, TEXT, formatter
from support.broker_process import held_ports

NASTY = 'a"b\\c\r\nd\x1b[2J\x7f\x85ü\u2028 \ud800'
FIELDS = {"ts", "level", "logger", "message", "node"}


@pytest.fixture
def written(tmp_path):
    """What a logger writes, line by line."""

    def write(form, log, node_id=None):
        handler = logging.FileHandler(tmp_path / "log", encoding="utf-8", errors="backslashreplace")
        handler.setFormatter(formatter(form, node_id))
        one = logging.Logger("odradek.some")
        one.addHandler(handler)
        log(one)
        handler.close()
        return (tmp_path / "log").read_bytes().decode().split("\n")[:-1]

    return write


def test_a_json_record_has_the_documented_fields(written):
    (line,) = written(JSON, lambda log: log.warning("%s is %d", "x", 7), 3)
    record = json.loads(line)
    assert record.pop("ts")[10] == "T"
    assert record == {"level": "WARNING", "logger": "odradek.some", "message": "x is 7", "node": 3}


def test_a_process_that_is_no_node_has_no_node(written):
    (line,) = written(JSON, lambda log: log.info("hello"))
    assert "node" not in json.loads(line)


def test_the_time_is_utc_with_milliseconds(written):
    def log(one):
        record = one.makeRecord("n", logging.INFO, "f", 1, "m", (), None)
        record.created, record.msecs = 1_700_000_000.0, 7.9
        one.handle(record)

    (line,) = written(JSON, log)
    assert json.loads(line)["ts"] == "2023-11-14T22:13:20.007Z"


@pytest.mark.parametrize("form", [TEXT, JSON])
def test_text_of_a_client_stays_on_one_line_and_cannot_control_a_terminal(written, form):
    (line,) = written(form, lambda log: log.info("reason: %s", NASTY))
    assert all(character.isprintable() for character in line.replace("\u2028", ""))
    if form == JSON:
        assert json.loads(line)["message"] == f"reason: {NASTY}"


def test_an_exception_is_a_field_of_its_record(written):
    def log(one):
        try:
            int(NASTY)
        except ValueError:
            one.exception("it failed")

    (line,) = written(JSON, log)
    record = json.loads(line)
    assert record["message"] == "it failed"
    assert record["exception"].startswith("Traceback (most recent call last):\n")
    assert "ValueError" in record["exception"]


def lines_of(arguments: list[str], ready: str, **environment: str) -> list[str]:
    """What a process writes to stderr until it is ready and stopped."""
    command = [sys.executable, "-m", "odradek.cli", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as process:
        for said in process.stdout:
            if ready in said:
                break
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    return log.splitlines()


@pytest.mark.parametrize("chosen", ["option", "variable"])
def test_every_line_of_a_nodes_log_is_json(tmp_path: Path, chosen: str) -> None:
    option, variable = (["--log-format", "json"], {}) if chosen == "option" else ([], {"ODRADEK_LOG_FORMAT": "json"})
    arguments = ["up", "--no-console", "--data", str(tmp_path / "data"), "--port", "0", "--verbose", *option]
    records = [json.loads(line) for line in lines_of(arguments, "is ready on", **variable)]
    assert all(set(record) >= FIELDS for record in records)
    assert {record["node"] for record in records} == {1}
    assert any("leads the metadata log" in record["message"] for record in records)


def test_every_line_of_the_log_of_several_nodes_is_json(tmp_path: Path) -> None:
    with held_ports(4) as port:
        arguments = [
            "up",
            "-n",
            "2",
            "--no-console",
            "--data",
            str(tmp_path / "data"),
            "--port",
            str(port),
            "--verbose",
        ]
        lines = lines_of([*arguments, "--log-format", "json"], "Odradek is ready on")
    assert {json.loads(line)["node"] for line in lines} == {1, 2}
