"""The Spark sink on Apache Kafka: exactly once, and at least once where the cluster cannot have transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client import Consumer
from odradek.client.admin import Admin
from odradek.client.transactions_offered import NoTransactions
from odradek.spark.batch_markers import MarkerTopic
from odradek.spark.errors import CheckpointMismatch
from odradek.spark.sink_options import sink_options
from odradek.spark.task_transaction import TaskTransaction
from odradek.spark.transactional_writer import Attempt
from odradek.spark.writers import WRITERS
from support.kafka_process import KafkaProcess


@pytest.fixture(autouse=True)
def _no_producers_are_kept() -> Iterator[None]:
    yield
    WRITERS.forget()


def write(bootstrap: str, batch: int, *values: str, query_id: str = "q", falls_back: bool = False) -> None:
    config = sink_options({"kafka.bootstrap.servers": bootstrap, "topic": "out"}).config
    attempt = Attempt(sink="app.query.0", task=0, batch=batch, query_id=query_id)
    with TaskTransaction(config, MarkerTopic("markers"), attempt, falls_back=falls_back) as transaction:
        transaction.send([("out", value.encode(), None) for value in values])
        transaction.finish()


def written(bootstrap: str) -> list[bytes]:
    with Consumer("out", bootstrap=bootstrap, stop_at_end=True) as reader:
        return [record.value for record in reader]


def test_task_is_written_once_on_kafka(tmp_path: Path) -> None:
    with KafkaProcess(tmp_path / "data") as kafka:
        Admin(kafka.bootstrap).create_topic("out", 1)
        write(kafka.bootstrap, 0, "a", "b")
        WRITERS.forget()  # as in another worker, or after a restart
        write(kafka.bootstrap, 0, "a", "b")
        write(kafka.bootstrap, 1, "c")
        assert written(kafka.bootstrap) == [b"a", b"b", b"c"]
        WRITERS.forget()
        with pytest.raises(CheckpointMismatch):
            write(kafka.bootstrap, 0, "d", query_id="another")


def test_kafka_with_too_few_brokers_for_transactions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaProcess(tmp_path / "data", config={"transaction.state.log.replication.factor": "3"}) as kafka:
        Admin(kafka.bootstrap).create_topic("out", 1)
        with pytest.raises(NoTransactions, match=r"needs 3 replicas \(.*\), and the cluster has 1 broker$"):
            write(kafka.bootstrap, 0, "a")
        assert written(kafka.bootstrap) == []
        write(kafka.bootstrap, 0, "a", falls_back=True)
        assert written(kafka.bootstrap) == [b"a"]
        assert "writes at least once, not exactly once: __transaction_state needs 3" in capsys.readouterr().err
