"""Every endpoint of Kafka Connect's REST API, asked at Kafka Connect and at our service: status codes and shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from odradek.testing import Embedded
from support.connect_service import connect_service
from support.kafka_connect import kafka_connect
from support.waiting import wait_until

WITHIN_S = 60.0
BAD_REQUEST = "Kafka answers a bad request body with 500; ours is 400"
REFUSED = "an unknown value in a query is refused, not ignored"
NO_CONNECTOR = "a connector that does not exist is 404 at every endpoint"
# Labels of requests that ours answers differently, with the reason.
DIFFERENT = {
    "create without config": BAD_REQUEST,
    "create from half an object": BAD_REQUEST,
    "create from a list": BAD_REQUEST,
    "create with another field": BAD_REQUEST,
    "create in an unknown state": BAD_REQUEST,
    "alter offsets of a text": BAD_REQUEST,
    "alter offsets of null": BAD_REQUEST,
    "expand something else": REFUSED,
    "restart perhaps": REFUSED,
    "topics of none": NO_CONNECTOR,
    "reset topics of none": NO_CONNECTOR,
    "validate without class": "the class in the path is used",
    "OPTIONS": "OPTIONS is not served",
    "only HTML": "the header Accept is ignored: answers are JSON",
}


@dataclass(slots=True)
class Side:
    """One of the two services, and what it answered."""

    http: httpx.Client
    source: dict[str, str]
    sink: dict[str, str]
    answers: dict[str, tuple[int, object]] = field(default_factory=dict)

    def ask(self, label: str, method: str, path: str, json: object = None, **more: Any) -> None:
        assert label not in self.answers, label
        answer = self.http.request(method, path, **({"json": json} if json is not None else {}), **more)
        self.answers[label] = answer.status_code, shape(answer.json()) if answer.text[:1] in ("{", "[") else "no JSON"

    def create(self, label: str, **body: Any) -> None:
        self.ask(label, "POST", "/connectors", body)

    def wait(self, name: str, state: str, tasks: int) -> None:
        def reached() -> bool:
            answer = self.http.get(f"/connectors/{name}/status")
            if answer.status_code != 200:
                return False
            told = answer.json()
            states = [told["connector"]["state"], *(task["state"] for task in told["tasks"])]
            return states == [state] * (1 + tasks)

        wait_until(reached, f"{name} {state}", within_s=WITHIN_S)


def shape(told: object) -> object:
    """The names and types of an answer, without what depends on the connector, and of a list its first item."""
    if isinstance(told, dict) and told.keys() == {"error_code", "message"}:
        return "error"
    if isinstance(told, dict) and "connector.class" in told:
        return "a config"
    if isinstance(told, dict):
        # Ours has `order` beside `order_in_group`, for consoles that know the name before Kafka 4.
        return {name: _part(name, value) for name, value in told.items() if name != "order"}
    if isinstance(told, list):
        return [shape(told[0])] if told else []
    return type(told).__name__


def _part(name: str, value: object) -> object:
    if name in ("config", "partition", "offset", "groups", "default_value", "group", "value", "recommended_values"):
        return shape(value) if isinstance(value, dict) and "errors" in value else "any"
    return shape(value)


def creation(side: Side) -> None:
    source = side.source
    side.ask("root", "GET", "/")
    side.ask("health", "GET", "/health")
    side.ask("no connectors", "GET", "/connectors")
    side.create("create", name="s", config=source)
    side.wait("s", "RUNNING", 1)
    side.create("create again", name="s", config=source)
    side.create("create without name", config=source)
    side.create("create without config", name="x")
    side.create("create with an empty config", name="x", config={})
    side.create("create of an unknown class", name="x", config={"connector.class": "NoSuch"})
    side.create("create without topic", name="x", config={k: v for k, v in source.items() if k != "topic"})
    side.create("create with a bad number", name="x", config={**source, "tasks.max": "many"})
    side.create("create with two names", name="x", config={**source, "name": "y"})
    side.create("create with another field", name="x", config=source, other=1)
    side.create("create in an unknown state", name="x", config=source, initial_state="SLEEPING")
    json = {"content-type": "application/json"}
    side.ask("create from half an object", "POST", "/connectors", content=b"{", headers=json)
    side.ask("create from a list", "POST", "/connectors", ["x"])
    side.ask("create from text", "POST", "/connectors", content=b"a=b", headers={"content-type": "text/plain"})
    side.create("create stopped", name="stopped", config=source, initial_state="STOPPED")
    side.create("create paused", name="paused", config=source, initial_state="paused")
    side.wait("stopped", "STOPPED", 0)
    side.ask("status of a stopped one", "GET", "/connectors/stopped/status")
    side.ask("tasks of a stopped one", "GET", "/connectors/stopped/tasks")


def reading(side: Side) -> None:
    wait_until(lambda: side.http.get("/connectors/s/offsets").json().get("offsets"), "offsets", within_s=WITHIN_S)
    side.ask("connectors", "GET", "/connectors")
    for parts in ("status", "info"):
        side.ask(f"expand {parts}", "GET", f"/connectors?expand={parts}")
    side.ask("expand something else", "GET", "/connectors?expand=other")
    for part in ("info", "config", "status", "tasks", "tasks/0/status", "topics", "offsets"):
        path = "" if part == "info" else f"/{part}"
        side.ask(f"{part} of s", "GET", f"/connectors/s{path}")
        side.ask(f"{part} of none", "GET", f"/connectors/none{path}")
    side.ask("status of task 9", "GET", "/connectors/s/tasks/9/status")
    side.ask("status of task x", "GET", "/connectors/s/tasks/x/status")


def changes(side: Side) -> None:
    source = side.source
    side.ask("put", "PUT", "/connectors/s/config", {**source, "tasks.max": "1"})
    side.ask("put new", "PUT", "/connectors/n/config", source)
    side.ask("put bad", "PUT", "/connectors/n/config", {**source, "tasks.max": "0"})
    side.ask("put with another name", "PUT", "/connectors/n/config", {**source, "name": "other"})
    side.wait("n", "RUNNING", 1)
    side.ask("patch", "PATCH", "/connectors/n/config", {"tasks.max": "1"})
    side.ask("patch with null", "PATCH", "/connectors/n/config", {"tasks.max": None})
    side.ask("patch bad", "PATCH", "/connectors/n/config", {"tasks.max": "0"})
    side.ask("patch none", "PATCH", "/connectors/none/config", {"tasks.max": "1"})
    side.wait("s", "RUNNING", 1)
    for order, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
        side.ask(order, "PUT", f"/connectors/s/{order}")
        side.ask(f"{order} none", "PUT", f"/connectors/none/{order}")
        side.wait("s", state, 1)
    side.ask("restart", "POST", "/connectors/s/restart")
    side.wait("s", "RUNNING", 1)
    side.ask("restart with tasks", "POST", "/connectors/s/restart?includeTasks=true")
    side.wait("s", "RUNNING", 1)
    side.ask("restart what failed", "POST", "/connectors/s/restart?includeTasks=true&onlyFailed=true")
    side.ask("restart if failed", "POST", "/connectors/s/restart?onlyFailed=true")
    side.ask("restart perhaps", "POST", "/connectors/s/restart?includeTasks=perhaps")
    side.ask("restart none", "POST", "/connectors/none/restart")
    side.ask("restart none with tasks", "POST", "/connectors/none/restart?includeTasks=true")
    side.wait("s", "RUNNING", 1)
    side.ask("restart a task", "POST", "/connectors/s/tasks/0/restart")
    side.ask("restart task 9", "POST", "/connectors/s/tasks/9/restart")
    side.ask("restart a task of none", "POST", "/connectors/none/tasks/0/restart")
    side.ask("reset topics", "PUT", "/connectors/s/topics/reset")
    side.ask("reset topics of none", "PUT", "/connectors/none/topics/reset")


def offsets(side: Side) -> None:
    found = side.http.get("/connectors/s/offsets").json()["offsets"]
    assert found
    path = "/connectors/s/offsets"
    side.ask("alter offsets of a running one", "PATCH", path, {"offsets": found})
    side.ask("reset offsets of a running one", "DELETE", path)
    side.ask("stop", "PUT", "/connectors/s/stop")
    side.ask("stop none", "PUT", "/connectors/none/stop")
    side.wait("s", "STOPPED", 0)
    side.ask("alter no offsets", "PATCH", path, {"offsets": []})
    side.ask("alter offsets without any", "PATCH", path, {})
    side.ask("alter offsets of a text", "PATCH", path, {"offsets": [{"partition": "x", "offset": {}}]})
    side.ask("alter offsets of null", "PATCH", path, {"offsets": [{"partition": None, "offset": {}}]})
    side.ask("alter offsets", "PATCH", path, {"offsets": found})
    side.ask("forget offsets", "PATCH", path, {"offsets": [{**each, "offset": None} for each in found]})
    side.ask("reset offsets", "DELETE", path)
    side.ask("alter offsets of none", "PATCH", "/connectors/none/offsets", {"offsets": found})
    side.ask("reset offsets of none", "DELETE", "/connectors/none/offsets")
    side.create("create a sink", name="k", config=side.sink)
    sinks = "/connectors/k/offsets"
    wait_until(lambda: side.http.get(sinks).json().get("offsets"), "offsets of the sink", within_s=WITHIN_S)
    side.ask("offsets of a sink", "GET", sinks)
    side.http.put("/connectors/k/stop")
    side.wait("k", "STOPPED", 0)
    place = {"kafka_topic": side.sink["topics"], "kafka_partition": 0}
    side.ask("alter a sink", "PATCH", sinks, {"offsets": [{"partition": place, "offset": {"kafka_offset": 1}}]})
    side.ask(
        "alter a sink badly", "PATCH", sinks, {"offsets": [{"partition": {"a": 1}, "offset": {"kafka_offset": 1}}]}
    )
    side.ask("forget a sink", "PATCH", sinks, {"offsets": [{"partition": place, "offset": None}]})
    assert side.http.get(sinks).json() == {"offsets": []}
    side.ask("reset a sink", "DELETE", sinks)


def plugins(side: Side) -> None:
    own = f"/connector-plugins/{side.source['connector.class']}/config"
    side.ask("plug-ins", "GET", "/connector-plugins")
    side.ask("all plug-ins", "GET", "/connector-plugins?connectorsOnly=false")
    side.ask("options", "GET", own)
    side.ask(
        "options of a transform", "GET", "/connector-plugins/org.apache.kafka.connect.transforms.Cast$Value/config"
    )
    side.ask("options of a converter", "GET", "/connector-plugins/org.apache.kafka.connect.json.JsonConverter/config")
    side.ask("options of none", "GET", "/connector-plugins/none/config")
    cast = {"transforms": "c", "transforms.c.type": "org.apache.kafka.connect.transforms.Cast$Value"}
    side.ask("validate", "PUT", f"{own}/validate", {**side.source, "name": "v"})
    side.ask("validate bad", "PUT", f"{own}/validate", {**side.source, "name": "v", "tasks.max": "x"})
    side.ask("validate transforms", "PUT", f"{own}/validate", {**side.source, "name": "v", **cast})
    side.ask("validate another class", "PUT", f"{own}/validate", {**side.sink, "name": "v"})
    side.ask("validate none", "PUT", "/connector-plugins/none/config/validate", {"connector.class": "none"})
    side.ask("validate without class", "PUT", f"{own}/validate", {"name": "v"})


def others(side: Side) -> None:
    logger = "/admin/loggers/my.logger"
    side.ask("a logger that does not exist", "GET", "/admin/loggers/no.such")
    side.ask("change a logger", "PUT", logger, {"level": "DEBUG"})
    side.ask("change a logger in lower case", "PUT", logger, {"level": "debug"})
    side.ask("change a logger to a bad level", "PUT", logger, {"level": "LOUD"})
    side.ask("change a logger to nothing", "PUT", logger, {})
    side.ask("change a logger of all", "PUT", f"{logger}?scope=cluster", {"level": "WARN"})
    side.ask("the logger", "GET", logger)
    side.ask("nothing", "GET", "/nothing")
    side.ask("a method that is not allowed", "DELETE", "/connectors")
    side.ask("another method", "POST", "/connectors/s/pause")
    side.ask("HEAD", "HEAD", "/connectors")
    side.ask("OPTIONS", "OPTIONS", "/connectors")
    side.ask("only HTML", "GET", "/connectors", headers={"accept": "text/html"})
    for name in ("s", "stopped", "paused", "n", "k"):
        side.ask(f"delete {name}", "DELETE", f"/connectors/{name}")
    side.ask("delete none", "DELETE", "/connectors/none")


PARTS: tuple[Callable[[Side], None], ...] = (creation, reading, changes, offsets, plugins, others)


def sides(bootstrap: str, folder: Path) -> Iterator[Side]:
    lines = folder / "in.jsonl"
    lines.write_text("1\n2\n")
    file = "org.apache.kafka.connect.file.FileStream"
    with kafka_connect(bootstrap) as http:
        yield Side(
            http,
            {"connector.class": f"{file}SourceConnector", "file": str(lines), "topic": "of-kafka", "tasks.max": "1"},
            {"connector.class": f"{file}SinkConnector", "file": str(folder / "out"), "topics": "of-kafka"},
        )
    with connect_service(bootstrap) as service:
        yield Side(
            service.http,
            {"connector.class": "files-source", "path": str(lines), "topic": "of-ours", "tasks.max": "1"},
            {"connector.class": "files-sink", "path": str(folder / "sink"), "topics": "of-ours"},
        )


def test_every_endpoint_answers_as_kafka_connect(tmp_path: Path) -> None:
    found = []
    with Embedded() as broker:
        for side in sides(broker.bootstrap_servers, tmp_path):
            for part in PARTS:
                part(side)
            found.append(side.answers)
    kafkas, ours = found
    assert ours.keys() == kafkas.keys()
    assert len(ours) > 100
    assert DIFFERENT.keys() <= ours.keys()
    different = {label: (ours[label], kafkas[label]) for label in ours if ours[label] != kafkas[label]}
    assert different.keys() == DIFFERENT.keys(), {
        label: different.get(label) for label in different.keys() ^ DIFFERENT.keys()
    }
