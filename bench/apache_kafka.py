"""Apache Kafka 4 unchanged: jars from Maven Central, the stock KRaft server.properties, the start script's JVM flags.

Differences from stock: ids, ports and data directories; files of deleted topics are removed after a second (Odradek has
the same setting); there is no log4j binding, so Kafka writes no log files. All nodes of a cluster are brokers and
controllers, as with Odradek.
"""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

from kafka_jars import jars
from servers import DELETE_SOON, Server, free_port

PROPERTIES = """
process.roles=broker,controller
node.id={node_id}
controller.quorum.bootstrap.servers={controllers}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={directory}
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)


class ApacheKafka(Server):
    name = "Apache Kafka"

    def prepare(self) -> None:
        """Formats the directories, as `kafka-storage format` does."""
        self._ports = {node_id: free_port() for node_id in self.node_ids}
        controllers = {node_id: f"localhost:{free_port()}" for node_id in self.node_ids}
        voters = ",".join(f"{node_id}@{where}:{uuid()}" for node_id, where in controllers.items())
        cluster = uuid()
        for node_id, where in controllers.items():
            self._write_properties(node_id, int(where.split(":")[1]), ",".join(controllers.values()))
            tool = ["java", "-cp", f"{jars()}/*", "kafka.tools.StorageTool", "format", "--initial-controllers", voters]
            subprocess.run(
                [*tool, "-t", cluster, "-c", self._properties(node_id)],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def command(self, node_id: int) -> list[str | Path]:
        return ["java", *JVM, "-cp", f"{jars()}/*", "kafka.Kafka", self._properties(node_id)]

    def _write_properties(self, node_id: int, controller_port: int, controllers: str) -> None:
        text = PROPERTIES.format(
            node_id=node_id,
            controllers=controllers,
            port=self._ports[node_id],
            controller_port=controller_port,
            directory=self.directory / str(node_id),
        )
        text += "".join(f"{key}={value}\n" for key, value in DELETE_SOON.items())
        self.directory.mkdir(parents=True, exist_ok=True)
        self._properties(node_id).write_text(text)

    def _properties(self, node_id: int) -> Path:
        return self.directory / f"{node_id}.properties"


def uuid() -> str:
    return base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")
