"""Runs Kafka's own command line tools, and returns their output and exit status."""

from __future__ import annotations

import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from support.foreign_programs import compiled, java

sys.path.append(str(Path(__file__).parents[2] / "bench"))
import kafka_jars

CLASSES = {
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
WITHIN_S = 120.0


def kafka_version() -> str:
    return kafka_jars.version()


@dataclass(frozen=True, slots=True)
class Printed:
    text: str
    status: int


class KafkaTools:
    """Runs all tools in one JVM."""

    def __init__(self) -> None:
        classpath = [kafka_jars.jars(), kafka_jars.tools()]
        command = java("ToolShell", classpath=[compiled("java", classpath), *classpath])
        self._shell = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def run(self, tool: str, *arguments: str, stdin: tuple[str, ...] = ()) -> Printed:
        commands, answers = self._shell.stdin, self._shell.stdout
        assert commands is not None
        assert answers is not None
        words = [str(len(stdin)), CLASSES[tool], *arguments]
        assert not any("\t" in word or "\n" in word for word in words)
        commands.write("".join(f"{line}\n" for line in ["\t".join(words), *stdin]).encode())
        commands.flush()
        assert select.select([answers], [], [], WITHIN_S)[0], f"{tool} {' '.join(arguments)} does not end"
        status, size = map(int, answers.readline().split())
        return Printed(answers.read(size).decode(), status)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.kill()
        self._shell.communicate()
