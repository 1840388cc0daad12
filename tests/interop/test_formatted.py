"""Apache Kafka reads and starts on directories that `odradek node format` created."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek.cli.main import main
from odradek.metadata.bootstrap import VOTERS_CHECKPOINT
from support.broker_process import free_port
from support.kafka_process import JAVA, KafkaProcess, dump, jars

A, B, C = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
PROPERTIES = """
process.roles=broker,controller
node.id=2
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
log.dirs={data}
"""


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    file = tmp_path / "node.properties"
    file.write_text(PROPERTIES.format(port=9092, controller_port=9093, data=tmp_path / "data"))
    return file


def formatted(properties: Path, *how: str) -> None:
    arguments = ["node", "format", "--config", str(properties), "--cluster-id", CLUSTER_ID, *how]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output


def storage_info(properties: Path) -> str:
    command = [*JAVA, f"{jars()}/*", "kafka.tools.StorageTool", "info", "-c", str(properties)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_storage_tool_of_kafka_reads_a_directory_formatted_by_odradek(properties: Path) -> None:
    voters = f"1@127.0.0.1:9091:{A},2@127.0.0.1:9093:{B},3@127.0.0.1:9095:{C}"
    formatted(properties, "--initial-controllers", voters)
    assert f"{{cluster.id={CLUSTER_ID}, directory.id={B}, node.id=2, version=1}}" in storage_info(properties)
    text = dump("--cluster-metadata-decoder", files=[properties.parent / "data" / VOTERS_CHECKPOINT])
    assert re.findall(r'"voterId":(\d),"voterDirectoryId":"([^"]+)"', text) == [("1", A), ("2", B), ("3", C)]
    assert text.count('"name":"CONTROLLER","host":"127.0.0.1"') == 3


def test_kafka_starts_on_a_directory_formatted_by_odradek(tmp_path: Path) -> None:
    kafka = KafkaProcess(tmp_path / "data")
    config = tmp_path / "ours.properties"
    text = PROPERTIES.replace("node.id=2", "node.id=1")
    config.write_text(text.format(port=kafka.port, controller_port=free_port(), data=kafka.data))
    formatted(config, "--standalone")
    with kafka:
        pass
    assert f"cluster.id={CLUSTER_ID}" in (kafka.data / "meta.properties").read_text()
