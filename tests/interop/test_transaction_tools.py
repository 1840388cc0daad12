"""kafka-transactions and kafka-features against Odradek and against Apache Kafka: one script, the same output.

What differs, and is not compared:

- times, and the duration of a transaction
- the order of transactions and producers, which is that of a hash table in Kafka
- the epoch in `kafka-features describe`: an offset of the metadata log
- features that only Kafka has (groups by KIP-848, share groups, streams groups), and the lowest supported levels
- why a level is refused: Odradek words it differently, with the same error
- `upgrade --release-version` asks for `group.version`, which Odradek does not have: refused as a whole
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.hanging import WITHOUT_VERIFICATION, hang
from support.kafka_process import KafkaProcess
from support.kafka_tools import KafkaTools, Printed, kafka_version
from support.small_world import client
from support.tapped_broker import tapped
from support.transactional_world import transactional

TOPIC = "payments"
OPEN, LOST = f"--topic {TOPIC} --partition 0", f"--topic {TOPIC} --partition 1"
OLD_MS = 2 * 3600 * 1000
TIME = re.compile(r"(?<!\d)1[78]\d{11}(?!\d)")
# Producers of open transactions: if they were released, they would abort them.
KEPT: list[Producer] = []


class Step(NamedTuple):
    command: str
    # The part of the output that is compared.
    part: Callable[[str], object] = str


def lines(text: str) -> list[str]:
    return sorted(text.splitlines())


def without_duration(text: str) -> list[list[str]]:
    """The rows of `describe`, which are tables with tabs."""
    columns = [0, 1, 2, 3, 4, 5, 6, 8]
    return [[cells[column] for column in columns] for cells in (row.split("\t") for row in text.splitlines())]


def levels(text: str) -> list[str]:
    """The highest and the finalized level of the features of transactions and elections."""
    return re.findall(r"Feature: (?:transaction|eligible)\S+.*Supported(MaxVersion: .*)Epoch", text)


def refusal(text: str) -> list[str]:
    return re.findall(r"^.*Invalid update version \d+ for feature [\w.]+|^\d+ out of.*", text, re.MULTILINE)


STEPS = [
    Step("kafka-transactions list", part=lines),
    Step("kafka-transactions list --duration-filter 3600000", part=lines),
    Step("kafka-transactions list --transactional-id-pattern (open|done)", part=lines),
    Step("kafka-transactions describe --transactional-id open", part=without_duration),
    Step("kafka-transactions describe --transactional-id done", part=without_duration),
    Step("kafka-transactions describe --transactional-id undone", part=without_duration),
    Step("kafka-transactions describe --transactional-id unknown"),
    Step(f"kafka-transactions describe-producers {OPEN}", part=lines),
    Step(f"kafka-transactions describe-producers {OPEN} --broker-id 1"),
    Step(f"kafka-transactions describe-producers {OPEN} --broker-id 7"),
    Step(f"kafka-transactions describe-producers {LOST}"),
    Step("kafka-transactions find-hanging"),
    Step("kafka-transactions find-hanging --broker-id 1"),
    Step(f"kafka-transactions find-hanging --topic {TOPIC}"),
    Step(f"kafka-transactions find-hanging {LOST} --max-transaction-timeout 30"),
    Step(f"kafka-transactions find-hanging {LOST} --max-transaction-timeout 300"),
    Step(f"kafka-transactions find-hanging {OPEN}"),
    Step("kafka-transactions find-hanging --topic nowhere"),
    Step(f"kafka-transactions abort {LOST} --start-offset 77"),
    Step(f"kafka-transactions abort {LOST} --start-offset 0"),
    Step(f"kafka-transactions abort {LOST} --start-offset 0"),
    Step(f"kafka-transactions describe-producers {LOST}"),
    Step(f"kafka-transactions find-hanging --topic {TOPIC}"),
    Step(f"kafka-transactions abort {OPEN} --producer-id 7777 --producer-epoch 0 --coordinator-epoch 0"),
    Step("kafka-transactions forceTerminateTransaction --transactionalId open"),
    Step("kafka-transactions describe --transactional-id open", part=without_duration),
    Step("kafka-transactions forceTerminateTransaction --transactionalId never-used"),
    Step("kafka-transactions list", part=lines),
    Step(f"kafka-transactions describe-producers {OPEN}", part=lines),
    Step("kafka-features describe", part=levels),
    Step("kafka-features version-mapping"),
    Step("kafka-features version-mapping --release-version 4.0"),
    Step("kafka-features version-mapping --release-version 3.9-IV0"),
    Step("kafka-features feature-dependencies --feature transaction.version=2"),
    Step("kafka-features downgrade --feature transaction.version=1 --dry-run"),
    Step("kafka-features downgrade --feature transaction.version=1"),
    Step("kafka-features describe", part=levels),
    Step("kafka-features downgrade --feature transaction.version=1"),
    Step("kafka-features downgrade --feature transaction.version=2", part=refusal),
    Step("kafka-features downgrade --feature transaction.version=0 --unsafe --dry-run"),
    Step("kafka-features disable --feature transaction.version"),
    Step("kafka-features describe", part=levels),
    Step("kafka-features upgrade --feature transaction.version=3", part=refusal),
    Step("kafka-features upgrade --feature transaction.version=0"),
    Step("kafka-features upgrade --feature transaction.version=1 --dry-run"),
    Step("kafka-features upgrade --feature transaction.version=1"),
    Step("kafka-features upgrade --feature transaction.version=1"),
    Step("kafka-features upgrade --feature transaction.version=2 --feature no.such.version=1", part=refusal),
    Step("kafka-features describe", part=levels),
    Step("kafka-features upgrade --feature transaction.version=2"),
    Step("kafka-features downgrade --feature no.such.version=1", part=refusal),
    Step("kafka-features describe", part=levels),
]


def fill(bootstrap: str) -> None:
    """A committed, an aborted, an open and a hanging transaction."""
    admin = AdminClient(client(bootstrap))
    admin.create_topics([NewTopic(TOPIC, 2)])[TOPIC].result(20)
    for name in ("done", "undone", "open"):
        producer = transactional(bootstrap, name)
        producer.begin_transaction()
        producer.produce(TOPIC, name, partition=0)
        assert producer.flush(20) == 0
        if name == "done":
            producer.commit_transaction(20)
        elif name == "undone":
            producer.abort_transaction(20)
        else:
            KEPT.append(producer)
    hang(int(bootstrap.split(":")[1]), TOPIC, b"lost", partition=1, timestamp=int(time.time() * 1000) - OLD_MS)


@pytest.fixture(scope="module")
def tools() -> Iterator[KafkaTools]:
    with KafkaTools() as tools:
        yield tools


@pytest.fixture(scope="module")
def transcripts(tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Printed], list[Printed]]:
    folder = tmp_path_factory.mktemp("transactions")
    with KafkaProcess(folder / "kafka", config=WITHOUT_VERIFICATION) as kafka:
        fill(kafka.bootstrap)
        theirs = [_typed(tools, step, kafka.bootstrap) for step in STEPS]
    name = f"Kafka's transaction tools {kafka_version()}"
    alike = {"transaction_state_log_num_partitions": "1"} | WITHOUT_VERIFICATION
    with tapped(name, folder / "odradek", **alike) as odradek:
        fill(odradek)
        return [_typed(tools, step, odradek) for step in STEPS], theirs


def _typed(tools: KafkaTools, step: Step, bootstrap: str) -> Printed:
    tool, *arguments = step.command.split()
    return tools.run(tool, "--bootstrap-server", bootstrap, *arguments)


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[step.command for step in STEPS])
def test_transaction_tools_print_the_same_with_odradek_and_kafka(
    transcripts: tuple[list[Printed], list[Printed]], number: int
) -> None:
    ours, theirs = (_compared(STEPS[number], each[number]) for each in transcripts)
    assert ours == theirs


def _compared(step: Step, printed: Printed) -> tuple[object, int]:
    return step.part(_without_what_differs(printed.text)), printed.status


def _without_what_differs(text: str) -> str:
    text = re.sub(r"^SLF4J.*\n|^\tat .*\n", "", text, flags=re.MULTILINE)
    return TIME.sub("a time", text)
