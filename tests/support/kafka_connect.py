"""A worker of Kafka Connect, as a process against any broker."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from support.broker_process import free_port
from support.foreign_programs import java
from support.kafka_tools import kafka_jars
from support.waiting import wait_until

START_S = 240.0
WORKER = """
bootstrap.servers={bootstrap}
group.id=kafkas-connect
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false
config.storage.topic=kafkas-configs
offset.storage.topic=kafkas-offsets
status.storage.topic=kafkas-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=1
status.storage.partitions=1
offset.flush.interval.ms=500
scheduled.rebalance.max.delay.ms=0
listeners=http://127.0.0.1:{port}
rest.advertised.host.name=127.0.0.1
plugin.discovery=hybrid_warn
"""
# Those of Kafka's own start script, for measurements.
KAFKAS_JVM = ["-server", "-Xms256M", "-Xmx2G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
KAFKAS_JVM += ["-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"]


@contextmanager
def kafka_connect(
    bootstrap: str,
    *,
    plugins: Sequence[Path] = (),
    jvm: Sequence[str] | None = None,
    jars: Callable[[], Path] = kafka_jars.connect,
) -> Iterator[httpx.Client]:
    """Its REST API, when it is ready. `plugins`: folders with the jars of a connector each, beside no other jars."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "worker.properties"
        path = f"plugin.path={','.join(str(each.parent) for each in plugins)}\n" if plugins else ""
        settings.write_text(WORKER.format(bootstrap=bootstrap, port=port) + path)
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        with (Path(folder) / "log").open("wb") as log:
            command = java(main, str(settings), classpath=[jars()])
            if jvm is not None:
                command = ["java", *jvm, "-cp", f"{jars()}/*", main, str(settings)]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=90) as http:
                wait_until(lambda: _is_healthy(process, http), within_s=START_S)
                yield http
        finally:
            process.kill()
            process.wait()


def _is_healthy(process: subprocess.Popen[bytes], http: httpx.Client) -> bool:
    assert process.poll() is None, "Kafka Connect has ended"
    try:
        return http.get("/health").status_code == 200
    except httpx.TransportError:
        return False
