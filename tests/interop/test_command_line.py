"""Kafka's own command line tools against Odradek and against Apache Kafka: they must print the same.

Text that must differ is replaced before the comparison: addresses, ids, times, paths.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.kafka_process import KafkaProcess
from support.kafka_tools import KafkaTools, Printed, kafka_version
from support.tapped_broker import tapped

SERVER = "$SERVER"
FOLDER = "$FOLDER"
# Configs that only Kafka has: Odradek does not support their features (docs/not-yet.md).
NOT_OURS = ("local.", "remote.", "follower.", "leader.")
NOT_SERVED = re.compile(r"Txn|Trans|Acl|Token|Sasl|Quota|Scram|Share|Streams|ConsumerGroup|Telemetry")
ADDRESS = re.compile(r"127\.0\.0\.1(:| +)\d+ *")
ID = re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])")
TIME = re.compile(r"(?<!\d)1\d{12}(?!\d)|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}")


READS = re.compile(r"--list|--describe| describe|get-offsets")
SETTLES_WITHIN_S = 10


class Step(NamedTuple):
    command: str
    stdin: tuple[str, ...] = ()
    # The part of the output that is compared.
    part: Callable[[str], object] = str


def configs(text: str) -> dict[str, str]:
    """Key -> its value and its source."""
    return dict(re.findall(r"^  ([\w.]+)=(.* sensitive=.*)$", text, re.MULTILINE))


def our_configs(text: str) -> dict[str, str]:
    return {name: value for name, value in configs(text).items() if not name.startswith(NOT_OURS)}


def versions(text: str) -> dict[str, str]:
    """API -> the version that the tool would use."""
    usable = re.findall(r"^\t(\w+)\(\d+\): .*\[usable: (\d+)\]", text, re.MULTILINE)
    return {api: version for api, version in usable if not NOT_SERVED.search(api)}


def levels(text: str) -> dict[str, str]:
    """The levels of features that both have, without the epoch, which is an offset of the metadata log."""
    rows = re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", text)
    return {name: level for name, level in rows if name in ("kraft.version", "eligible.leader.replicas.version")}


def count(pattern: str) -> Callable[[str], object]:
    return lambda text: re.findall(pattern, text)


def _consumed(text: str) -> list[str]:
    """Megabytes and records, without the speed."""
    return [text.splitlines()[-1].split(", ")[column] for column in (2, 4)]


def _first_words(text: str) -> list[str]:
    return [line.split(":")[0] for line in text.splitlines()]


def _sorted_lines(text: str) -> list[str]:
    return sorted(text.splitlines())


def _up_to_the_pattern(text: str) -> str:
    """Without the reason, which Kafka does not give."""
    return text.partition("client_id=(")[0]


SLOW = "--name slow"
SLOW_CONFIGS = "--entity-type client-metrics --entity-name slow"
TWO_METRICS = "org.apache.kafka.producer.,org.apache.kafka.consumer."
TWO_SELECTORS = "client_software_name=librdkafka,client_id=app-.*"
LOGGERS = "--entity-type broker-loggers --entity-name 1"
ON_ORDERS = "--entity-type topics --entity-name orders"
STEPS = [
    Step("kafka-topics --create --topic orders --partitions 3 --config retention.ms=100000"),
    Step("kafka-topics --create --topic orders"),
    Step("kafka-topics --create --topic orders --if-not-exists"),
    Step("kafka-topics --create --topic bad/name"),
    Step(
        "kafka-topics --create --topic too-wide --replication-factor 3", part=lambda text: text.split("registered")[0]
    ),
    Step("kafka-topics --list --exclude-internal"),
    Step("kafka-topics --describe --topic orders"),
    Step("kafka-topics --describe --under-replicated-partitions"),
    Step("kafka-topics --alter --topic orders --partitions 4"),
    Step("kafka-topics --alter --topic orders --partitions 2"),
    Step(
        "kafka-console-producer --topic orders --reader-property parse.key=true --reader-property key.separator=:",
        stdin=("a:1", "b:2", "c:3", "d:4", "e:5"),
    ),
    Step(
        "kafka-console-consumer --topic orders --from-beginning --max-messages 5 --group readers "
        "--formatter-property print.key=true --formatter-property print.partition=true "
        "--formatter-property print.offset=true",
        part=lambda text: sorted(text.splitlines()),
    ),
    Step("kafka-console-consumer --topic orders --partition 0 --offset 1 --max-messages 1"),
    Step("kafka-get-offsets --topic orders"),
    Step("kafka-get-offsets --topic orders --time earliest"),
    Step("kafka-get-offsets --topic-partitions orders:1-3"),
    Step("kafka-get-offsets --topic nowhere"),
    Step("kafka-consumer-groups --list"),
    Step("kafka-consumer-groups --list --state --type"),
    Step("kafka-groups --list"),
    Step("kafka-consumer-groups --describe --group readers"),
    Step("kafka-consumer-groups --describe --group readers --state"),
    Step("kafka-consumer-groups --describe --group readers --members --verbose"),
    Step("kafka-consumer-groups --describe --group nobody"),
    Step("kafka-consumer-groups --reset-offsets --group readers --topic orders --to-earliest --dry-run"),
    Step("kafka-consumer-groups --reset-offsets --group readers --topic orders --to-earliest --execute"),
    Step("kafka-consumer-groups --reset-offsets --group readers --topic orders:0 --shift-by 1 --execute"),
    Step("kafka-consumer-groups --reset-offsets --group readers --topic orders:2 --to-offset 99 --execute"),
    Step("kafka-consumer-groups --describe --group readers --offsets"),
    Step("kafka-consumer-groups --delete-offsets --group readers --topic orders:0"),
    Step("kafka-consumer-groups --describe --group readers --offsets"),
    Step("kafka-consumer-groups --delete --group readers"),
    Step("kafka-consumer-groups --delete --group nobody"),
    Step(f"kafka-configs --alter {ON_ORDERS} --add-config retention.ms=200000,cleanup.policy=[compact,delete]"),
    Step(f"kafka-configs --describe {ON_ORDERS}", part=configs),
    Step(f"kafka-configs --alter {ON_ORDERS} --delete-config retention.ms,cleanup.policy"),
    Step(f"kafka-configs --describe {ON_ORDERS} --all", part=our_configs),
    Step(f"kafka-configs --alter {ON_ORDERS} --add-config no.such=1"),
    Step(f"kafka-configs --alter {ON_ORDERS} --add-config retention.ms=soon"),
    Step("kafka-configs --alter --entity-type brokers --entity-default --add-config log.retention.ms=300000"),
    Step("kafka-configs --describe --entity-type brokers --entity-default", part=configs),
    Step(f"kafka-configs --describe {ON_ORDERS} --all", part=lambda text: our_configs(text)["retention.ms"]),
    Step("kafka-configs --alter --entity-type brokers --entity-default --delete-config log.retention.ms"),
    Step("kafka-configs --describe --entity-type brokers --entity-name 1"),
    Step("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config node.id=7"),
    Step(
        "kafka-configs --alter --entity-type brokers --entity-name 1 "
        "--add-config log.cleaner.io.max.bytes.per.second=1e6,producer.id.expiration.ms=60000"
    ),
    Step("kafka-configs --describe --entity-type brokers --entity-name 1", part=configs),
    Step(
        "kafka-configs --alter --entity-type brokers --entity-name 1 "
        "--delete-config log.cleaner.io.max.bytes.per.second,producer.id.expiration.ms"
    ),
    Step("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.backoff.ms=-1"),
    Step(f"kafka-delete-records --offset-json-file {FOLDER}/delete.json"),
    Step("kafka-get-offsets --topic orders --time earliest"),
    Step("kafka-log-dirs --describe --topic-list orders"),
    Step("kafka-broker-api-versions", part=versions),
    Step("kafka-features describe", part=levels),
    Step("kafka-features upgrade --feature metadata.version=30"),
    Step("kafka-features upgrade --feature metadata.version=26", part=_first_words),
    Step("kafka-features downgrade --feature metadata.version=26", part=lambda text: text.split(".")[0]),
    Step("kafka-transactions describe-producers --topic orders --partition 0"),
    Step("kafka-client-metrics --list"),
    Step(f"kafka-client-metrics --alter {SLOW} --metrics {TWO_METRICS} --interval 10000 --match {TWO_SELECTORS}"),
    Step("kafka-client-metrics --list"),
    Step(f"kafka-client-metrics --describe {SLOW}", part=_sorted_lines),
    Step(f"kafka-client-metrics --alter {SLOW} --interval 10"),
    Step(f"kafka-client-metrics --alter {SLOW} --match client_colour=red"),
    Step(f"kafka-client-metrics --alter {SLOW} --match client_id"),
    Step(f"kafka-client-metrics --alter {SLOW} --match client_id=(", part=_up_to_the_pattern),
    Step(f"kafka-client-metrics --alter {SLOW} --metrics same,same"),
    Step(f"kafka-client-metrics --describe {SLOW}", part=_sorted_lines),
    Step(f"kafka-client-metrics --alter {SLOW} --metrics one,,two"),
    Step("kafka-client-metrics --alter --name other --metrics *"),
    Step("kafka-client-metrics --describe", part=_sorted_lines),
    Step(f"kafka-configs --describe {SLOW_CONFIGS}", part=configs),
    Step(f"kafka-configs --describe {SLOW_CONFIGS} --all", part=configs),
    Step(f"kafka-configs --alter {SLOW_CONFIGS} --delete-config interval.ms,match"),
    Step(f"kafka-configs --describe {SLOW_CONFIGS}", part=configs),
    Step(f"kafka-configs --alter {SLOW_CONFIGS} --add-config no.such=1"),
    Step(f"kafka-configs --alter {SLOW_CONFIGS} --add-config interval.ms=soon"),
    Step(f"kafka-configs --alter {SLOW_CONFIGS} --delete-config no.such"),
    Step("kafka-client-metrics --delete --name slow"),
    Step("kafka-client-metrics --delete --name slow"),
    Step("kafka-client-metrics --describe --name slow"),
    Step("kafka-client-metrics --list"),
    Step(f"kafka-configs --alter {LOGGERS} --add-config root=ERROR"),
    Step(f"kafka-configs --describe {LOGGERS}", part=count(r"^  root=.*")),
    Step(f"kafka-configs --alter {LOGGERS} --add-config root=FATAL"),
    Step(f"kafka-configs --describe {LOGGERS}", part=count(r"^  root=.*")),
    Step(f"kafka-configs --alter {LOGGERS} --add-config root=LOUD"),
    Step(f"kafka-configs --alter {LOGGERS} --add-config no.such.logger=INFO"),
    Step(f"kafka-configs --alter {LOGGERS} --delete-config root"),
    Step(f"kafka-configs --alter {LOGGERS} --delete-config no.such.logger"),
    Step("kafka-cluster cluster-id $SERVER"),
    Step("kafka-cluster list-endpoints $SERVER"),
    Step("kafka-metadata-quorum describe --status", part=_first_words),
    Step("kafka-metadata-quorum describe --replication", part=count(r"^NodeId.*|^\d+|Leader|Follower")),
    Step("kafka-leader-election --election-type preferred --all-topic-partitions"),
    Step(
        "kafka-producer-perf-test --topic orders --num-records 2000 --record-size 100 --throughput -1 "
        "--bootstrap-server $ADDRESS",
        part=count(r"^\d+ records sent"),
    ),
    Step("kafka-consumer-perf-test --topic orders --num-records 2000", part=_consumed),
    Step("kafka-topics --delete --topic orders"),
    Step("kafka-topics --describe --topic orders"),
    Step("kafka-topics --delete --topic orders"),
]


@pytest.fixture(scope="module")
def tools() -> Iterator[KafkaTools]:
    with KafkaTools() as tools:
        yield tools


@pytest.fixture(scope="module")
def transcripts(tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Printed], list[Printed]]:
    folder = tmp_path_factory.mktemp("commands")
    (folder / "delete.json").write_text(
        '{"partitions": [{"topic": "orders", "partition": 0, "offset": 1}], "version": 1}'
    )
    alike = {"log_index_size_max_bytes": "1200"}
    with tapped(f"Kafka's command line tools {kafka_version()}", folder / "odradek", **alike) as odradek:
        ours = [_typed(tools, step, odradek, folder) for step in STEPS]
    with KafkaProcess(folder / "kafka") as kafka:
        return ours, [
            _settled(tools, step, kafka.bootstrap, folder, said) for step, said in zip(STEPS, ours, strict=True)
        ]


def _settled(tools: KafkaTools, step: Step, bootstrap: str, folder: Path, ours: Printed) -> Printed:
    """Kafka's broker receives a change shortly after the controller has answered the request."""
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while True:
        theirs = _typed(tools, step, bootstrap, folder)
        if not READS.search(step.command) or _compared(step, theirs) == _compared(step, ours):
            return theirs
        if time.monotonic() > deadline:
            return theirs


def _typed(tools: KafkaTools, step: Step, bootstrap: str, folder: Path) -> Printed:
    tool, *arguments = step.command.replace(FOLDER, str(folder)).replace("$ADDRESS", bootstrap).split()
    server = ["--bootstrap-server", bootstrap]
    if SERVER in arguments:
        place = arguments.index(SERVER)
        arguments[place : place + 1] = server
    elif bootstrap not in arguments:
        arguments = server + arguments
    return tools.run(tool, *arguments, stdin=step.stdin)


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[step.command for step in STEPS])
def test_kafka_tools_print_the_same_with_odradek_and_kafka(
    transcripts: tuple[list[Printed], list[Printed]], number: int
) -> None:
    ours, theirs = (_compared(STEPS[number], each[number]) for each in transcripts)
    assert ours == theirs


def _compared(step: Step, printed: Printed) -> tuple[object, int]:
    return step.part(_without_what_differs(printed.text)), printed.status


def _without_what_differs(text: str) -> str:
    text = re.sub(r"^SLF4J.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^\tat .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r'"logDir":"[^"]*"', '"logDir":"a folder"', text)
    for what, pattern in {"an address": ADDRESS, "an id": ID, "a time": TIME}.items():
        text = pattern.sub(what, text)
    return text
