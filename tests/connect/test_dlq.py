"""Dead letters of a sink: a failing transform, `odradek connect dlq`, and a redrive that writes each of them once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client import Consumer
from odradek.client.admin import Admin
from odradek.connect.dead_letter_topics import REDRIVEN, DeadLetterTopic, Selection
from odradek.testing import Embedded
from support.command_line import odradek_command, succeed
from support.connect_service import Service, eventually
from support.topics import Records

CAST = {
    "transforms": "number",
    "transforms.number.type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms.number.spec": "n:int32",
}


def letters(broker: Embedded, *more: str) -> list[dict[str, str]]:
    return json.loads(succeed(broker, "connect", "dlq", "show", "numbers-dlq", "-o", "json", *more) or "[]")


def records_of(broker: Embedded, topic: str) -> list:
    with Consumer(topic, bootstrap=broker.bootstrap_servers, stop_at_end=True, fetch_wait_max_ms=20) as consumer:
        return list(consumer)


@pytest.fixture(scope="module")
def dlq(broker: Embedded, service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A sink that could not cast two records, and could not read one."""
    out = tmp_path_factory.mktemp("numbers")
    Admin(broker.bootstrap_servers).create_topic("numbers", 2)
    values = ['{"n": "1"}', '{"n": "one"}', "{broken", '{"n": "2"}', '{"n": "two"}']
    Records(broker.bootstrap_servers).put("numbers", values, partition=1, key="k", headers=[("own", b"h")])
    config = {
        "connector.class": "files-sink",
        "topics": "numbers",
        "path": str(out),
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "numbers-dlq",
        "errors.deadletterqueue.context.headers.enable": "true",
        "key.converter": "string",
        **CAST,
    }
    assert service.http.post("/connectors", json={"name": "numbers", "config": config}).status_code == 201
    eventually(lambda: service.http.get("/connectors/numbers/offsets").json()["offsets"])
    yield out
    service.http.delete("/connectors/numbers")


def test_letters_are_counted_by_connector_stage_and_exception(broker: Embedded, service: Service, dlq: Path) -> None:
    found = json.loads(succeed(broker, "connect", "dlq", "ls", "--url", service.url, "-o", "json"))
    assert [(row["topic"], row["connector"], row["stage"], row["letters"]) for row in found] == [
        ("numbers-dlq", "numbers", "TRANSFORMATION", 2),
        ("numbers-dlq", "numbers", "VALUE_CONVERTER", 1),
    ]
    assert found == json.loads(succeed(broker, "connect", "dlq", "ls", "numbers-dlq", "-o", "json"))


def test_letters_are_shown_with_their_origin_and_cause(broker: Embedded, dlq: Path) -> None:
    first, second, third = letters(broker)
    assert (first["value"], first["origin"], first["key"]) == ('{"n": "one"}', "numbers-1@1", "k")
    assert "'one' is not an integer" in first["message"]
    assert "CannotTransform" in first["stacktrace"]
    assert second["stage"] == "VALUE_CONVERTER"
    assert [each["value"] for each in letters(broker, "--stage", "transformation")] == [first["value"], third["value"]]
    assert [each["value"] for each in letters(broker, "--exception", "CannotTransform", "-n", "1")] == [first["value"]]
    assert letters(broker, "--offset", third["letter"]) == [third]
    assert letters(broker, "--connector", "other") == []
    assert odradek_command(broker, "connect", "dlq", "show", "numbers-dlq", "--offset", "x").exit_code == 2
    assert odradek_command(broker, "connect", "dlq", "show", "no-topic").exit_code != 0


def test_a_redrive_writes_each_letter_once_to_its_origin(broker: Embedded, service: Service, dlq: Path) -> None:
    service.http.put("/connectors/numbers/pause")
    eventually(lambda: service.states("numbers") == ["PAUSED"])
    redrive = ("connect", "dlq", "redrive", "numbers-dlq", "--stage", "TRANSFORMATION")
    plan = succeed(broker, *redrive, "--dry-run")
    assert "numbers-dlq-0@0  ->  numbers-1@1" in plan
    assert len(records_of(broker, "numbers")) == 5
    Admin(broker.bootstrap_servers).create_topic("aside", 1)
    assert len(json.loads(succeed(broker, *redrive, "--to", "aside", "--limit", "1", "--yes", "-o", "json"))) == 1
    assert len(json.loads(succeed(broker, *redrive, "--yes", "-o", "json"))) == 1
    assert "no dead letters" in odradek_command(broker, *redrive, "--yes").output
    (moved,) = records_of(broker, "aside")
    assert (moved.value, moved.header(REDRIVEN)) == (b'{"n": "one"}', b"numbers-dlq-0@0")
    again = records_of(broker, "numbers")[-1]
    assert (again.partition, again.key, again.value, again.header("own")) == (1, b"k", b'{"n": "two"}', b"h")
    assert [name for name, _ in again.headers] == ["own", REDRIVEN]
    service.http.put("/connectors/numbers/resume")
    # The connector fails again, and the new dead letter can be redriven too.
    eventually(lambda: [each["stage"] for each in letters(broker)] == ["VALUE_CONVERTER", "TRANSFORMATION"])


def test_a_letter_without_context_needs_a_topic(broker: Embedded) -> None:
    Admin(broker.bootstrap_servers).create_topic("bare-dlq", 1)
    Records(broker.bootstrap_servers).put("bare-dlq", ["lost"])
    refused = odradek_command(broker, "connect", "dlq", "redrive", "bare-dlq", "--yes")
    assert refused.exit_code == 1
    assert "Name the topic with --to" in refused.output
    assert len(list(DeadLetterTopic(broker.bootstrap_servers, "bare-dlq").letters(Selection()))) == 1
    missing = odradek_command(broker, "connect", "dlq", "redrive", "bare-dlq", "--to", "no-topic", "--yes")
    assert "does not exist" in missing.output


def test_a_redrive_that_was_fenced_repeats_nothing(broker: Embedded) -> None:
    """Two redrives at the same time: the second fences the first, which can commit nothing more."""
    Admin(broker.bootstrap_servers).create_topic("twice-dlq", 1)
    Admin(broker.bootstrap_servers).create_topic("twice", 1)
    Records(broker.bootstrap_servers).put("twice-dlq", ["1", "2", "3"])
    topic = DeadLetterTopic(broker.bootstrap_servers, "twice-dlq")
    first = topic.redrive(Selection(), "twice")
    next(first)
    assert [letter.record.value for letter in topic.redrive(Selection(), "twice")] == []
    first.close()
    assert [record.value for record in records_of(broker, "twice")] == [b"1", b"2", b"3"]


def test_a_failing_transform_of_a_source_is_a_dead_letter_too(
    broker: Embedded, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": "x"}\n{"n": "4"}\n')
    config = {
        "connector.class": "files-source",
        "path": str(tmp_path / "a.jsonl"),
        "topic": "from-file",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "file-dlq",
        "errors.deadletterqueue.context.headers.enable": "true",
        **CAST,
    }
    assert service.http.post("/connectors", json={"name": "cast", "config": config}).status_code == 201
    eventually(lambda: service.http.get("/connectors/cast/offsets").json()["offsets"])
    assert [record.value for record in records_of(broker, "from-file")] == [b'{"n":4}']
    (letter,) = records_of(broker, "file-dlq")
    assert letter.header("__connect.errors.stage") == b"TRANSFORMATION"
    service.http.delete("/connectors/cast")
