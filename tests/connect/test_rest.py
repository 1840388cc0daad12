"""The REST API: paths, shapes and status codes of Kafka Connect."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from odradek.client.admin import Admin
from odradek.connect.storage.topic_log import StorageFailed
from support.connect_service import Service, eventually
from support.topics import Records

PATHS = ["", "/config", "/status", "/tasks", "/topics", "/offsets", "/logs"]


@pytest.fixture(scope="module")
def gen(service: Service) -> str:
    service.create("gen", connector_class="datagen", topic="gen-out", rate=1000, count=5)
    eventually(lambda: service.states("gen") == ["RUNNING"])
    eventually(lambda: offset_of(service, "gen") == 5)
    return "gen"


def offset_of(service: Service, name: str) -> object:
    offsets = service.http.get(f"/connectors/{name}/offsets").json()["offsets"]
    return offsets[0]["offset"]["count"] if offsets else None


def told(answer: httpx.Response) -> tuple[int, str]:
    body = answer.json()
    assert body["error_code"] == answer.status_code
    return answer.status_code, body["message"]


def test_the_root_names_version_and_cluster(service: Service) -> None:
    assert service.http.get("/").json().keys() == {"version", "commit", "kafka_cluster_id"}
    assert service.http.get("/health").json()["status"] == "healthy"


def test_a_connector_is_described(service: Service, gen: str) -> None:
    info = service.http.get("/connectors/gen").json()
    assert info["type"] == "source"
    assert info["tasks"] == [{"connector": "gen", "task": 0}]
    assert info["config"] == service.http.get("/connectors/gen/config").json()
    status = service.http.get("/connectors/gen/status").json()
    worker = status["connector"]["worker_id"]
    assert status == {
        "name": "gen",
        "connector": {"state": "RUNNING", "worker_id": worker, "version": "1.0"},
        "tasks": [{"id": 0, "state": "RUNNING", "worker_id": worker, "version": "1.0"}],
        "type": "source",
    }
    assert service.http.get("/connectors/gen/tasks/0/status").json() == status["tasks"][0]
    (task,) = service.http.get("/connectors/gen/tasks").json()
    assert task["id"] == {"connector": "gen", "task": 0}
    assert task["config"]["task.partitions"] == '[{"generator":0}]'
    assert service.http.get("/connectors/gen/topics").json() == {"gen": {"topics": ["gen-out"]}}


def test_connectors_are_listed_and_expanded(service: Service, gen: str) -> None:
    assert "gen" in service.http.get("/connectors").json()
    found = service.http.get("/connectors?expand=status&expand=info").json()
    assert found["gen"].keys() == {"status", "info"}
    assert told(service.http.get("/connectors?expand=all"))[0] == 400


@pytest.mark.parametrize("path", PATHS)
def test_an_unknown_connector_is_404(service: Service, path: str) -> None:
    status, message = told(service.http.get(f"/connectors/none{path}"))
    assert status == 404
    assert "none" in message


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "pause"),
        ("PUT", "resume"),
        ("PUT", "stop"),
        ("POST", "restart"),
        ("POST", "tasks/0/restart"),
        ("PUT", "topics/reset"),
        ("DELETE", ""),
        ("DELETE", "offsets"),
    ],
)
def test_changes_of_an_unknown_connector_are_404(service: Service, method: str, path: str) -> None:
    assert told(service.http.request(method, f"/connectors/none/{path}".rstrip("/")))[0] == 404


def test_creating_twice_is_409_and_a_bad_config_400(service: Service, gen: str) -> None:
    body = {"name": "gen", "config": {"connector.class": "datagen", "topic": "x"}}
    assert told(service.http.post("/connectors", json=body)) == (409, "Connector gen already exists")
    bad = {"name": "bad", "config": {"connector.class": "datagen", "rate": "fast"}}
    status, message = told(service.http.post("/connectors", json=bad))
    assert status == 400
    assert message.startswith("Connector configuration is invalid and contains the following 2 error(s):")
    assert told(service.http.post("/connectors", json={"name": "bad", "config": {}}))[0] == 400
    assert told(service.http.post("/connectors", json={"config": {"connector.class": "datagen"}}))[0] == 400
    assert told(service.http.post("/connectors", content=b"{"))[0] == 400
    other = {"name": "a", "config": {"name": "b", "connector.class": "datagen", "topic": "x"}}
    assert told(service.http.post("/connectors", json=other))[0] == 400
    missing = {"name": "bad", "config": {"connector.class": "NoSuchClass"}}
    assert told(service.http.post("/connectors", json=missing))[0] == 400
    assert told(service.http.post("/connectors", json={**body, "nmae": "x"}))[0] == 400
    assert told(service.http.post("/connectors", content=b"{}", headers={"content-type": "text/plain"}))[0] == 415


def test_put_creates_or_changes_and_patch_removes_a_key_with_null(service: Service) -> None:
    config = {"connector.class": "datagen", "topic": "p", "count": "1", "rate": "5"}
    assert service.http.put("/connectors/p/config", json=config).status_code == 201
    assert service.http.put("/connectors/p/config", json=config | {"count": "2"}).status_code == 200
    changed = service.http.patch("/connectors/p/config", json={"rate": None, "count": 3})
    assert changed.status_code == 200
    assert changed.json()["config"] == {"connector.class": "datagen", "topic": "p", "count": "3", "name": "p"}
    assert service.http.delete("/connectors/p").status_code == 204
    assert told(service.http.delete("/connectors/p")) == (404, "Connector p not found")


@pytest.mark.parametrize("name", ["a/b", "eu/orders/config", "ta/b&c=d//\\x%y+z%2F?ሴ#$(æ)*,:;ñ@[]", "/"])
def test_a_name_may_have_slashes_and_other_characters(service: Service, name: str) -> None:
    part = quote(name, safe="")
    config = {"connector.class": "datagen", "topic": "named", "count": "1", "rate": "1000"}
    assert service.http.put(f"/connectors/{part}/config", json=config).json()["name"] == name
    eventually(lambda: service.states(part) == ["RUNNING"])
    assert name in service.http.get("/connectors").json()
    assert {path: service.http.get(f"/connectors/{part}{path}").status_code for path in PATHS} == dict.fromkeys(
        PATHS, 200
    )
    assert service.http.get(f"/connectors/{part}").json()["name"] == name
    assert service.http.post(f"/connectors/{part}/tasks/0/restart").status_code == 204
    assert service.http.put(f"/connectors/{part}/stop").status_code == 204
    assert service.http.delete(f"/connectors/{part}").status_code == 204
    again = service.http.post("/connectors", json={"name": name, "config": config})
    assert service.http.delete(again.headers["location"]).status_code == 204
    assert name not in service.http.get("/connectors").json()


def test_a_name_with_control_characters_is_refused(service: Service) -> None:
    config = {"connector.class": "datagen", "topic": "named"}
    assert told(service.http.put("/connectors/a%0Ab/config", json=config))[0] == 400
    assert told(service.http.post("/connectors", json={"name": "a\nb", "config": config}))[0] == 400
    assert told(service.http.put(f"/connectors/{'x' * 201}/config", json=config))[0] == 400


def test_other_names_in_paths_are_decoded(service: Service) -> None:
    assert service.http.get("/connector-plugins/%64atagen/config").status_code == 200
    assert service.http.get("/admin/loggers/%72oot").json()["level"]
    assert service.http.get("/connectors/", follow_redirects=True).json() == service.http.get("/connectors").json()


def test_a_connector_can_be_created_stopped(service: Service) -> None:
    body = {
        "name": "later",
        "config": {"connector.class": "datagen", "topic": "later"},
        "initial_state": "stopped",
    }
    assert service.http.post("/connectors", json=body).status_code == 201
    eventually(lambda: service.http.get("/connectors/later/status").json()["connector"]["state"] == "STOPPED")
    assert service.states("later") == []
    service.http.delete("/connectors/later")


def test_pause_resume_stop_and_restart_answer_as_kafka_connect(service: Service, gen: str) -> None:
    assert service.http.put("/connectors/gen/pause").status_code == 202
    eventually(lambda: service.states("gen") == ["PAUSED"])
    assert service.http.put("/connectors/gen/resume").status_code == 202
    eventually(lambda: service.states("gen") == ["RUNNING"])
    assert service.http.post("/connectors/gen/restart").status_code == 204
    eventually(lambda: service.states("gen") == ["RUNNING"])
    again = service.http.post("/connectors/gen/restart?includeTasks=true&onlyFailed=true")
    assert again.status_code == 202
    assert again.json()["name"] == "gen"
    eventually(lambda: service.states("gen") == ["RUNNING"])
    all_of_it = service.http.post("/connectors/gen/restart?includeTasks=true").json()
    assert [all_of_it["connector"]["state"], all_of_it["tasks"][0]["state"]] == ["RESTARTING", "RESTARTING"]
    eventually(lambda: service.states("gen") == ["RUNNING"])
    assert service.http.post("/connectors/gen/tasks/0/restart").status_code == 204
    assert told(service.http.post("/connectors/gen/tasks/7/restart"))[0] == 404
    assert told(service.http.get("/connectors/gen/tasks/7/status"))[0] == 404
    assert told(service.http.post("/connectors/gen/restart?includeTasks=perhaps"))[0] == 400


def test_task_can_be_restarted_while_a_changed_config_takes_effect(service: Service, gen: str) -> None:
    config = service.http.get(f"/connectors/{gen}/config").json()
    eventually(lambda: service.http.get(f"/connectors/{gen}/tasks").json())
    for rate in ("11", "12", "13"):
        assert service.http.put(f"/connectors/{gen}/config", json={**config, "rate": rate}).status_code == 200
        assert service.http.post(f"/connectors/{gen}/tasks/0/restart").status_code == 204


def test_tasks_are_listed_again_after_their_configs_could_not_be_stored(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, failed = service.steward.config_log.append, []

    def failing(entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        found = list(entries)
        if not failed and found[0][0].startswith(b"task-unlucky-"):
            failed.append(found)
            raise StorageFailed("no acknowledgement")
        stored(found)

    monkeypatch.setattr(service.steward.config_log, "append", failing)
    service.create("unlucky", connector_class="datagen", topic="unlucky", count=1)
    eventually(lambda: service.states("unlucky") == ["RUNNING"])
    assert failed
    service.http.delete("/connectors/unlucky")


def test_offsets_change_only_while_the_connector_is_stopped(service: Service) -> None:
    service.create("moved", connector_class="datagen", topic="moved", rate=1000, count=3)
    eventually(lambda: offset_of(service, "moved") == 3)
    change = {"offsets": [{"partition": {"generator": 0}, "offset": {"count": 2}}]}
    status, message = told(service.http.patch("/connectors/moved/offsets", json=change))
    assert status == 400
    assert message.startswith("Connectors must be in the STOPPED state before their offsets can be modified.")
    assert told(service.http.delete("/connectors/moved/offsets"))[0] == 400
    assert service.http.put("/connectors/moved/stop").status_code == 204
    altered = service.http.patch("/connectors/moved/offsets", json=change)
    assert altered.json() == {"message": "The offsets for this connector have been altered successfully"}
    assert offset_of(service, "moved") == 2
    assert told(service.http.patch("/connectors/moved/offsets", json={"offsets": []}))[0] == 400
    reset = service.http.delete("/connectors/moved/offsets")
    assert reset.json() == {"message": "The offsets for this connector have been reset successfully"}
    assert service.http.get("/connectors/moved/offsets").json() == {"offsets": []}
    service.http.delete("/connectors/moved")


def test_plugins_are_listed_described_and_validated(service: Service) -> None:
    found = service.http.get("/connector-plugins").json()
    assert {"class": "odradek.connect.connectors.datagen.Datagen", "type": "source", "version": "1.0"} in found
    (rate,) = [row for row in service.http.get("/connector-plugins/datagen/config").json() if row["name"] == "rate"]
    assert rate["type"] == "DOUBLE"
    assert rate["default_value"] == "10.0"
    assert not rate["required"]
    assert told(service.http.get("/connector-plugins/none/config"))[0] == 404
    given = {"connector.class": "datagen", "name": "x", "rate": "-1", "topc": "y"}
    result = service.http.put("/connector-plugins/datagen/config/validate", json=given).json()
    assert result["name"] == "odradek.connect.connectors.datagen.Datagen"
    assert result["error_count"] == 3
    wrong = {row["value"]["name"]: row["value"]["errors"] for row in result["configs"] if row["value"]["errors"]}
    assert wrong.keys() == {"topic", "rate", "topc"}
    other = service.http.put("/connector-plugins/files-sink/config/validate", json=given)
    assert told(other)[0] == 400


def test_passwords_are_masked_and_survive_a_round_trip(service: Service, tmp_path: Path) -> None:
    config = {"connector.class": "datagen", "topic": "m", "count": "0", "producer.override.sasl.password": "hunter2"}
    assert service.http.put("/connectors/masked/config", json=config).status_code == 201
    shown = service.http.get("/connectors/masked/config").json()
    assert shown["producer.override.sasl.password"] == "****"
    assert service.http.put("/connectors/masked/config", json=shown | {"rate": "2"}).status_code == 200
    stored = service.steward.call(lambda: dict(service.steward.configs.connectors["masked"]))
    assert stored["producer.override.sasl.password"] == "hunter2"
    assert "hunter2" not in service.http.get("/connectors/masked/tasks").text
    service.http.delete("/connectors/masked")


def test_loggers_have_levels(service: Service) -> None:
    assert "root" in service.http.get("/admin/loggers").json()
    changed = service.http.put("/admin/loggers/odradek.connect", json={"level": "DEBUG"})
    assert "odradek.connect" in changed.json()
    assert service.http.put("/admin/loggers/odradek.connect", json={"level": "debug"}).json() == []
    assert service.http.get("/admin/loggers/odradek.connect").json()["level"] == "DEBUG"
    assert service.http.put("/admin/loggers/odradek.connect?scope=cluster", json={"level": "INFO"}).status_code == 204
    assert told(service.http.put("/admin/loggers/odradek.connect", json={}))[0] == 400
    assert told(service.http.put("/admin/loggers/odradek.connect", json={"level": "LOUD"}))[0] == 404
    assert told(service.http.get("/admin/loggers/no.such.logger")) == (404, "Logger no.such.logger not found.")


def test_other_paths_methods_and_large_bodies_are_refused(service: Service) -> None:
    assert told(service.http.get("/none")) == (404, "HTTP 404 Not Found")
    assert told(service.http.post("/health"))[0] == 405
    assert service.http.post("/connectors", content=b" " * (2 << 20)).status_code == 413


def test_transforms_predicates_and_converters_are_listed_and_described(service: Service) -> None:
    found = service.http.get("/connector-plugins?connectorsOnly=false").json()
    assert {each["type"] for each in found} == {"source", "sink", "converter", "transformation", "predicate"}
    assert {each["type"] for each in service.http.get("/connector-plugins").json()} == {"source", "sink"}
    for name in ("org.apache.kafka.connect.transforms.Cast$Value", "cast"):
        options = service.http.get(f"/connector-plugins/{name}/config").json()
        assert {each["name"] for each in options} == {"spec", "replace.null.with.default"}


def test_validation_shows_the_options_of_transforms(service: Service) -> None:
    given = {"connector.class": "datagen", "name": "v", "topic": "v", "transforms": "a", "transforms.a.type": "cast"}
    result = service.http.put("/connector-plugins/datagen/config/validate", json=given).json()
    rows = {each["value"]["name"]: each for each in result["configs"]}
    assert result["error_count"] == 1
    assert rows["transforms.a.spec"]["value"]["errors"][0].startswith('transforms.a: missing required option "spec"')
    assert rows["transforms.a.type"]["definition"]["group"] == "Transforms: a"
    assert "Transforms: a" in result["groups"]


def test_offsets_of_a_partition_that_does_not_exist_are_refused_by_name(service: Service, tmp_path: Path) -> None:
    service.create("nowhere", connector_class="files-sink", topics="nowhere", path=tmp_path)
    eventually(lambda: service.http.put("/connectors/nowhere/stop").status_code == 204)
    place = {"kafka_topic": "nowhere", "kafka_partition": 7}
    change = {"offsets": [{"partition": place, "offset": {"kafka_offset": 5}}]}
    status, message = told(service.http.patch("/connectors/nowhere/offsets", json=change))
    assert status == 500
    assert message.startswith("setting the offsets of group 'connect-nowhere' on ")
    assert service.http.delete("/connectors/nowhere").status_code == 204


def test_offsets_of_a_sink_can_be_forgotten_one_by_one(service: Service, records: Records, tmp_path: Path) -> None:
    Admin(records.bootstrap).create_topic("two", 2)
    for partition in (0, 1):
        records.put("two", ["1", "2"], partition=partition)
    service.create("two", connector_class="files-sink", topics="two", path=tmp_path)
    path = "/connectors/two/offsets"
    eventually(lambda: [each["offset"]["kafka_offset"] for each in service.http.get(path).json()["offsets"]] == [2, 2])
    service.http.put("/connectors/two/stop")
    gone = {"partition": {"kafka_topic": "two", "kafka_partition": 0}, "offset": None}
    assert service.http.patch(path, json={"offsets": [gone]}).status_code == 200
    (left,) = service.http.get(path).json()["offsets"]
    assert left == {"partition": {"kafka_topic": "two", "kafka_partition": 1}, "offset": {"kafka_offset": 2}}
    service.http.delete("/connectors/two")
