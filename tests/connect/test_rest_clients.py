"""Clients of Kafka Connect's REST API from PyPI, unchanged, against our service."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from kafka_connect import KafkaConnect
from kafka_connect_api.errors import GenericNotFound
from kafka_connect_api.kafka_connect_api import Api, Cluster, Connector
from requests.exceptions import HTTPError

from odradek.testing import Embedded
from support.connect_service import Service, eventually

CONFIG = {"connector.class": "datagen", "topic": "generated", "rate": "100", "count": "20"}


def test_kafka_connect_py_manages_a_connector(service: Service, broker: Embedded) -> None:
    client = KafkaConnect(service.url)
    assert client.get_cluster_info()["kafka_cluster_id"] == service.steward.admin.cluster_id()
    assert "odradek.connect.connectors.datagen.Datagen" in {each["class"] for each in client.list_connector_plugins()}
    wrong = client.validate_connector_config("datagen", {**CONFIG, "name": "py", "rate": "fast"})
    assert wrong["error_count"] == 1
    created = client.create_connector({"name": "py", "config": CONFIG})
    assert (created["name"], created["type"]) == ("py", "source")

    def is_running() -> bool:
        return [task["state"] for task in client.get_connector_status("py")["tasks"]] == ["RUNNING"]

    eventually(is_running)
    assert client.list_connectors(expand="status", state="RUNNING", pattern="p.").keys() == {"py"}
    assert client.get_connector_config("py")["rate"] == "100"
    assert client.update_connector("py", {**CONFIG, "name": "py", "rate": "50"})["config"]["rate"] == "50"
    eventually(lambda: client.list_connector_topics("py") == {"py": {"topics": ["generated"]}})
    client.reset_connector_topics("py")
    assert [each["id"] for each in client.list_connector_tasks("py")] == [{"connector": "py", "task": 0}]
    eventually(is_running)  # with the changed config; until then the task has no status
    assert client.get_connector_task_status("py", 0)["id"] == 0
    client.restart_connector_task("py", 0)
    client.restart_connector("py", include_tasks=True)
    for change, state in (
        (client.pause_connector, "PAUSED"),
        (client.resume_connector, "RUNNING"),
        (client.stop_connector, "STOPPED"),
    ):
        change("py")
        eventually(lambda state=state: client.get_connector_status("py")["connector"]["state"] == state)
    client.delete_connector("py")
    eventually(lambda: client.list_connectors() == [])
    with pytest.raises(HTTPError, match="404"):
        client.get_connector("py")


def test_its_command_line_lists_and_describes(service: Service) -> None:
    service.create("cli", **CONFIG)

    def run(*arguments: str) -> str:
        command = [sys.executable, "-c", "from kafka_connect.cli import cli; cli()", "--url", service.url, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    assert "cli" in run("list")
    assert '"connector.class": "datagen"' in run("config", "cli")
    service.http.delete("/connectors/cli")


def test_kafka_connect_api_manages_a_connector(service: Service) -> None:
    service.create("api", **CONFIG)
    address = urlsplit(service.url)
    cluster = Cluster(Api(hostname=address.hostname, port=address.port, protocol="http"))
    assert cluster.kafka_cluster == service.steward.admin.cluster_id()
    assert cluster.loggers["root"]["level"]
    connector = cluster.connectors["api"]
    assert isinstance(connector, Connector)
    assert connector.exists()
    assert connector.connector_class == "datagen"
    eventually(lambda: connector.tasks and connector.tasks[0].state == "RUNNING")
    connector.config = {**connector.config, "rate": "10"}
    assert connector.config["rate"] == "10"
    connector.cycle_connector()
    connector.restart()
    eventually(lambda: connector.state == "RUNNING")
    connector.delete()
    with pytest.raises(GenericNotFound):
        connector.exists()
