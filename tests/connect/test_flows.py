"""Records through connectors: files, topics and back; failures, restarts, dead letters; offsets that survive."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from odradek.client import Consumer
from odradek.client.admin import Admin
from odradek.testing import Embedded
from support.connect_service import Service, connect_service, eventually
from support.topics import Records


def lines(folder: Path) -> list[object]:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]


def values(broker: Embedded, topic: str) -> list[object]:
    with Consumer(topic, bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
        return [json.loads(record.value) for record in consumer]


def write(file: Path, *rows: object) -> None:
    with file.open("a") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)


def test_lines_go_through_a_topic_into_files_also_new_lines_and_new_files(service: Service, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source / "a.jsonl", *range(3000))
    path, interval = source / "*.jsonl", 50
    service.create("lines", connector_class="files-source", path=path, topic="lines", poll_interval_ms=interval)
    eventually(lambda: service.http.get("/connectors/lines/topics").json()["lines"]["topics"] == ["lines"])
    service.create("files", connector_class="files-sink", topics="lines", path=target)
    eventually(lambda: lines(target) == list(range(3000)))
    eventually(lambda: not service.steward.fleet.runs)  # all tasks are idle and have left
    write(source / "a.jsonl", "late")
    write(source / "b.jsonl", "new")
    eventually(lambda: set(map(str, lines(target)[3000:])) == {"late", "new"})
    with (source / "a.jsonl").open("a") as out:
        out.write('"half')
    write(source / "b.jsonl", "after")
    eventually(lambda: lines(target)[-1] == "after")
    assert "half" not in lines(target)
    for name in ("lines", "files"):
        service.http.delete(f"/connectors/{name}")


def test_a_service_continues_where_the_last_one_ended(broker: Embedded, tmp_path: Path) -> None:
    mine = {
        "group": "again",
        "config_topic": "again-configs",
        "offset_topic": "again-offsets",
        "status_topic": "again-s",
    }
    write(tmp_path / "a.jsonl", 1, 2, 3)
    with connect_service(broker.bootstrap_servers, **mine) as service:
        service.create("again", connector_class="files-source", path=tmp_path / "*.jsonl", topic="again")
        service.create("again-out", connector_class="files-sink", topics_regex="agai.", path=tmp_path / "out")
        eventually(lambda: lines(tmp_path / "out") == [1, 2, 3])
    write(tmp_path / "a.jsonl", 4)
    with connect_service(broker.bootstrap_servers, **mine) as service:
        eventually(lambda: lines(tmp_path / "out") == [1, 2, 3, 4])
        assert service.http.get("/connectors").json() == ["again", "again-out"]
    assert values(broker, "again") == [1, 2, 3, 4]


def test_a_failed_task_restarts_reports_why_and_recovers(service: Service, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('1\n{"broken\n')
    service.create(
        "fails",
        connector_class="files-source",
        path=tmp_path / "a.jsonl",
        topic="fails",
        restart_attempts_max=1,
        restart_backoff_ms=20,
    )
    eventually(lambda: service.states("fails") == ["FAILED"])
    (task,) = service.http.get("/connectors/fails/status").json()["tasks"]
    assert "is not JSON" in task["trace"]
    assert sum("is not JSON" in str(line["text"]) for line in service.http.get("/connectors/fails/logs").json()) == 2
    (tmp_path / "a.jsonl").write_text('1\n{"mended":1}\n')
    service.http.post("/connectors/fails/restart?includeTasks=true&onlyFailed=true")
    eventually(lambda: service.http.get("/connectors/fails/offsets").json()["offsets"])
    eventually(lambda: service.states("fails") == ["RUNNING"])
    service.http.delete("/connectors/fails")


def test_a_sink_makes_dead_letters_of_records_that_are_not_json(
    broker: Embedded, service: Service, records: Records, tmp_path: Path
) -> None:
    Admin(broker.bootstrap_servers).create_topic("mixed", 1)
    records.put("mixed", ["1", "{broken", "2"])
    service.create(
        "mixed",
        connector_class="files-sink",
        topics="mixed",
        path=tmp_path,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="mixed-dlq",
        errors_deadletterqueue_context_headers_enable="true",
    )
    eventually(lambda: lines(tmp_path) == [1, 2])
    eventually(lambda: service.http.get("/connectors/mixed/offsets").json()["offsets"])  # after the dead letters
    with Consumer("mixed-dlq", bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
        (letter,) = list(consumer)
    assert letter.value == b"{broken"
    assert letter.header("__connect.errors.offset") == b"1"
    assert letter.header("__connect.errors.connector.name") == b"mixed"
    service.http.delete("/connectors/mixed")


def test_a_source_makes_dead_letters_of_lines_that_are_not_json(
    broker: Embedded, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('1\n{"broken\n2\n')
    service.create(
        "bad-lines",
        connector_class="files-source",
        path=tmp_path / "a.jsonl",
        topic="good-lines",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="bad-lines-dlq",
    )
    position = (tmp_path / "a.jsonl").stat().st_size
    offsets = "/connectors/bad-lines/offsets"
    eventually(
        lambda: [each["offset"]["position"] for each in service.http.get(offsets).json()["offsets"]] == [position]
    )
    assert values(broker, "good-lines") == [1, 2]
    assert values(broker, "bad-lines-dlq") == ['{"broken']
    service.http.delete("/connectors/bad-lines")


def test_missing_topics_are_created_by_the_rules(broker: Embedded, service: Service) -> None:
    config = {
        "connector.class": "datagen",
        "topic": "ruled",
        "count": "1",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.cleanup.policy": "compact",
    }
    assert service.http.post("/connectors", json={"name": "ruled", "config": config}).status_code == 201
    eventually(lambda: service.http.get("/connectors/ruled/offsets").json()["offsets"])
    admin = Admin(broker.bootstrap_servers)
    assert admin.partitions("ruled") == [0, 1, 2]
    assert admin.topic_config("ruled")["cleanup.policy"] == "compact"
    service.http.delete("/connectors/ruled")


def test_a_sink_follows_offsets_that_a_user_sets(
    broker: Embedded, service: Service, records: Records, tmp_path: Path
) -> None:
    Admin(broker.bootstrap_servers).create_topic("rewound", 1)
    records.put("rewound", map(str, range(5)))
    service.create("rewound", connector_class="files-sink", topics="rewound", path=tmp_path)
    eventually(lambda: lines(tmp_path) == [0, 1, 2, 3, 4])
    service.http.put("/connectors/rewound/stop")
    place = {"kafka_topic": "rewound", "kafka_partition": 0}
    change = {"offsets": [{"partition": place, "offset": {"kafka_offset": 3}}]}
    eventually(lambda: service.http.patch("/connectors/rewound/offsets", json=change).status_code == 200)
    assert service.http.get("/connectors/rewound/offsets").json() == change
    service.http.put("/connectors/rewound/resume")
    eventually(lambda: lines(tmp_path) == [0, 1, 2, 3, 4, 3, 4])
    service.http.delete("/connectors/rewound")


def test_rows_of_one_database_become_rows_of_another(service: Service, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as shop, shop:
        shop.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)")
        shop.executemany("INSERT INTO items VALUES (?, ?)", [(n, f"item {n}") for n in range(1, 2501)])
    service.create(
        "items",
        connector_class="sql-source",
        connection_url=f"sqlite:///{tmp_path}/a.db",
        mode="incrementing",
        incrementing_column_name="id",
        topic_prefix="rows-",
        poll_interval_ms=50,
    )
    service.create(
        "copies",
        connector_class="sql-sink",
        connection_url=f"sqlite:///{tmp_path}/b.db",
        topics_regex="rows-.*",
        table_name_format="copies",
        auto_create="true",
        insert_mode="upsert",
        pk_mode="record_value",
        pk_fields="id",
    )

    def copies() -> list[tuple[int, str]]:
        with closing(sqlite3.connect(tmp_path / "b.db")) as copy:
            has_table = copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'copies'").fetchall()
            return copy.execute("SELECT id, name FROM copies ORDER BY id").fetchall() if has_table else []

    eventually(lambda: copies() == [(n, f"item {n}") for n in range(1, 2501)], lambda: service.states("copies"))
    with closing(sqlite3.connect(tmp_path / "a.db")) as shop, shop:
        shop.execute("INSERT INTO items VALUES (9000, 'late')")
    eventually(lambda: copies()[-1] == (9000, "late"))
    for name in ("items", "copies"):
        service.http.delete(f"/connectors/{name}")


@pytest.mark.parametrize("tasks_max", [1, 4])
def test_partitions_are_divided_among_tasks(broker: Embedded, service: Service, tasks_max: int) -> None:
    name = f"divided-{tasks_max}"
    service.create(name, connector_class="datagen", topic=name, partitions=3, count=10, rate=1000, tasks_max=tasks_max)
    eventually(lambda: len(values_or_none(broker, name)) == 30)
    assert len(service.http.get(f"/connectors/{name}/tasks").json()) == min(tasks_max, 3)
    service.http.delete(f"/connectors/{name}")


def values_or_none(broker: Embedded, topic: str) -> list[object]:
    return values(broker, topic) if topic in Admin(broker.bootstrap_servers).topics() else []
