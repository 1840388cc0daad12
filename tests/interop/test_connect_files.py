"""Kafka's own Connect with its file connectors, against our broker: a file becomes a topic and a file again."""

from __future__ import annotations

from pathlib import Path

from odradek.client.admin import Admin
from odradek.testing import Embedded
from support.kafka_connect import kafka_connect
from support.waiting import wait_until

FILE = "org.apache.kafka.connect.file.FileStream"
STRING = "org.apache.kafka.connect.storage.StringConverter"
WITHIN_S = 120.0


def test_kafka_connect_copies_a_file_through_our_broker(tmp_path: Path) -> None:
    given, got = tmp_path / "in.txt", tmp_path / "out.txt"
    lines = [f"line {number} ä" for number in range(5_000)]
    given.write_text("\n".join(lines) + "\n")
    common = {"tasks.max": "1", "key.converter": STRING, "value.converter": STRING}
    with Embedded() as broker, kafka_connect(broker.bootstrap_servers) as http:
        source = {"connector.class": f"{FILE}SourceConnector", "file": str(given), "topic": "lines", **common}
        sink = {"connector.class": f"{FILE}SinkConnector", "file": str(got), "topics": "lines", **common}
        for name, config in (("in", source), ("out", sink)):
            answer = http.post("/connectors", json={"name": name, "config": config})
            assert answer.status_code == 201, answer.text

        def copied() -> list[str]:
            return got.read_text().splitlines() if got.exists() else []

        wait_until(lambda: len(copied()) == len(lines), lambda: str(len(copied())), within_s=WITHIN_S)
        assert copied() == lines
        with given.open("a") as more:
            more.write("one more\n")
        wait_until(lambda: copied()[-1:] == ["one more"], within_s=WITHIN_S)
        # The group of the sink and the topics of the worker are on our broker.
        admin = Admin(broker.bootstrap_servers)
        wait_until(lambda: admin.committed("connect-out").get(("lines", 0)) == 5_001, within_s=WITHIN_S)
        assert {"kafkas-configs", "kafkas-offsets", "kafkas-status"} <= set(admin.topics())
