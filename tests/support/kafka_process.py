"""Apache Kafka on a given data directory and port, and its tool that prints log files."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from support.broker_process import free_port

sys.path.append(str(Path(__file__).parents[2] / "bench"))
from kafka_jars import jars, jolokia_agent, tools

PROPERTIES = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
{voters}
log.dirs={data}
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.index.size.max.bytes=1200
"""
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
JAVA = ("java", "-Xmx512m", "-cp")
START_WITHIN_S = 90.0


class KafkaProcess:
    """A combined broker and controller. With `configured_voters` it has a static quorum, as before KIP-853."""

    def __init__(
        self,
        data: Path,
        port: int | None = None,
        *,
        configured_voters: bool = False,
        config: Mapping[str, str] | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        """`jvm`: more options of the broker's virtual machine."""
        self.data = data
        self._jvm = tuple(jvm)
        self._config = config or {}
        self.port = port or free_port()
        self._output = data.with_suffix(".kafka.out")
        self._properties = data.with_suffix(".properties")
        self._configured_voters = configured_voters
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        self._write_properties()
        if not (self.data / "meta.properties").exists():
            self._format()
        with self._output.open("ab") as output:
            java, *options = JAVA
            command = [java, *self._jvm, *options, f"{jars()}/*", "kafka.Kafka", str(self._properties)]
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        self._await_ready()
        return self

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop()

    def _end(self, by: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(by)
        self._process.wait(60)
        self._process = None

    def _write_properties(self) -> None:
        controller_port = free_port()
        voters = f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}"
        if self._configured_voters:
            voters = f"controller.quorum.voters=1@127.0.0.1:{controller_port}"
        text = PROPERTIES.format(port=self.port, controller_port=controller_port, voters=voters, data=self.data)
        self._properties.write_text(text + "".join(f"{key}={value}\n" for key, value in self._config.items()))

    def _format(self) -> None:
        command = [*JAVA, f"{jars()}/*", "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
        command += ["-c", str(self._properties)]
        if not self._configured_voters:
            command += ["--standalone"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def _await_ready(self) -> None:
        """Kafka is ready when it leads every partition: the last incarnation is registered until its session ends."""
        assert self._process is not None
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 100})
        deadline = time.monotonic() + START_WITHIN_S
        while not _has_leaders(admin):
            assert self._process.poll() is None, f"Kafka did not start:\n{self._output.read_text()}"
            assert time.monotonic() < deadline, f"Kafka is not ready:\n{self._output.read_text()}"


def with_jolokia(port: int, policy: Path) -> str:
    """The option of the virtual machine that serves its MBeans over HTTP."""
    return f"-javaagent:{jolokia_agent()}=port={port},host=127.0.0.1,policyLocation=file://{policy}"


def _has_leaders(admin: AdminClient) -> bool:
    try:
        cluster = admin.list_topics(timeout=1)
    except KafkaException:
        return False
    partitions = [partition for topic in cluster.topics.values() for partition in topic.partitions.values()]
    return bool(cluster.brokers) and all(partition.leader == 1 for partition in partitions)


def dump(*options: str, files: list[Path]) -> str:
    """The output of `kafka-dump-log`, including errors."""
    command = [*JAVA, f"{jars()}/*:{tools()}/*", "org.apache.kafka.tools.DumpLogSegments", *options]
    command += ["--files", ",".join(map(str, files))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    noise = [line for line in done.stderr.splitlines() if not line.startswith("SLF4J")]
    if done.returncode:
        noise.append(f"failed with status {done.returncode}")
    return "\n".join([done.stdout, *noise])
