"""Apache Kafka 4 as it comes: jars from Maven Central, the stock KRaft server.properties, the start script's JVM flags.

What differs from stock: ports and the data directory, files of deleted topics go after a second (Odradek is given
the same), and there is no log4j binding, so Kafka writes no log of its own.
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
node.id=1
controller.quorum.bootstrap.servers=localhost:{controller_port}
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

    def format(self) -> None:
        """What `kafka-storage format --standalone` does: not part of a start."""
        self.port, controller_port = free_port(), free_port()
        text = PROPERTIES.format(port=self.port, controller_port=controller_port, directory=self.directory)
        text += "".join(f"{key}={value}\n" for key, value in DELETE_SOON.items())
        self.directory.mkdir(parents=True, exist_ok=True)
        self.properties.write_text(text)
        cluster = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")
        tool = ["java", "-cp", f"{jars()}/*", "kafka.tools.StorageTool", "format", "--standalone"]
        subprocess.run(
            [*tool, "-t", cluster, "-c", self.properties],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def properties(self) -> Path:
        return self.directory.parent / f"{self.directory.name}.properties"

    def start(self) -> None:
        if not self.properties.exists():
            self.format()
        self.spawn(["java", *JVM, "-cp", f"{jars()}/*", "kafka.Kafka", self.properties])

    def wipe(self) -> None:
        super().wipe()
        self.properties.unlink(missing_ok=True)
