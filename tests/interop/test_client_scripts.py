"""One script for each client, run against Odradek and against Apache Kafka: both results must be equal.

The scripts are beside this file, in Java, JavaScript and Go. Each creates a topic, produces with every codec of its
client, reads as a group, looks up offsets, shares partitions between two members, administers, and cleans up.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.foreign_programs import SOURCES, compiled, go_program, java, node_folder
from support.kafka_process import KafkaProcess, jars, tools
from support.kafka_tools import kafka_version
from support.tapped_broker import tapped

RECORDS = 60
BEGIN_MS = (int(time.time()) - 3600) * 1000
ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Client:
    name: Callable[[], str]
    codecs: tuple[str, ...]
    command: Callable[[], list[str]]


CLIENTS = {
    "java": Client(
        lambda: f"kafka-clients {kafka_version()} (Java)",
        ALL_CODECS,
        lambda: java("Script", classpath=[compiled("java", [jars(), tools()]), jars()]),
    ),
    "kafkajs": Client(
        lambda: f"kafkajs {_named(SOURCES / 'kafkajs' / 'package.json', 'kafkajs')} (JavaScript)",
        ("none", "gzip"),
        lambda: ["node", str(node_folder() / "script.js")],
    ),
    "franz": Client(
        lambda: f"franz-go {_named(SOURCES / 'franz' / 'go.mod', 'franz-go')} (Go)",
        ALL_CODECS,
        lambda: [str(go_program("franz"))],
    ),
}


@pytest.fixture(scope="module")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with KafkaProcess(tmp_path_factory.mktemp("kafka") / "data") as kafka:
        yield kafka.bootstrap


@pytest.fixture(scope="module", params=CLIENTS)
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, apache_kafka: str):
    """The client, and its results with Odradek and with Kafka."""
    client = CLIENTS[request.param]
    command = client.command()
    with tapped(client.name(), tmp_path_factory.mktemp("odradek") / "data") as odradek:
        ours = _run(command, odradek, request.param)
    return client, ours, _run(command, apache_kafka, request.param)


def _named(file: Path, package: str) -> str:
    """The version that a file requires."""
    found = re.search(rf"{package}\W*v?([\d.]+)", file.read_text())
    assert found, f"no {package} in {file}"
    return found[1]


def _run(command: list[str], bootstrap: str, name: str) -> dict[str, Any]:
    ran = subprocess.run(
        [*command, bootstrap, name, str(BEGIN_MS)], capture_output=True, text=True, timeout=200, check=False
    )
    assert ran.returncode == 0, ran.stderr[-5000:]
    return json.loads(ran.stdout)


def test_client_sees_the_same_as_with_kafka(told) -> None:
    _, ours, theirs = told
    assert ours.keys() == theirs.keys()
    for what, seen in ours.items():
        assert seen == theirs[what], what


def test_client_reads_every_record_as_it_was_sent(told) -> None:
    client, ours, _ = told
    sent = sorted(json.dumps(_record(codec, index)) for codec in client.codecs for index in range(RECORDS))
    assert sorted(json.dumps(record[2:]) for record in ours["records"]) == sent
    for partition in range(3):
        offsets = [record[1] for record in ours["records"] if record[0] == partition]
        assert offsets == list(range(ours["latest"][str(partition)]))


def test_admin_and_group_operations_have_their_effect(told) -> None:
    _, ours, _ = told
    assert ours["committed"] == ours["latest"]
    assert (ours["shared"], ours["alone again"], ours["grown"]) == ([3], 3, 5)
    assert ours["trimmed"] == {"0": 7, "1": 0, "2": 0}
    assert ours["set back"]["1"] == 3
    assert ours["group while it reads"].startswith("Stable 1 ")
    assert ours["group afterwards"].startswith("Empty 0")


def _record(codec: str, index: int) -> list[Any]:
    return [
        f"key-{index % 7}" if index % 5 else None,
        f"{codec} {index}" if index % 11 else None,
        index,
        {"codec": codec, "empty": ""} if index % 2 == 0 else {},
    ]
