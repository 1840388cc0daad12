"""Creates a transactional producer with the time-outs that its brokers allow."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Producer

from odradek.client.transactions_offered import initialize, longest_transaction_ms
from odradek.spark.clients import connection_of
from odradek.spark.task_producer import Failures, reporting

# The coordinator aborts a transaction that is open for longer, counted from its first record. A large task keeps one
# open while it runs. This is what brokers allow, unless they have another transaction.max.timeout.ms.
TRANSACTION_TIMEOUT_MS = 900_000


def initialized(
    config: Mapping[str, str], transactional_id: str, failures: Failures, within_s: float
) -> tuple[Producer, dict[str, str]]:
    """The producer and its config. NoTransactions, or KafkaException."""
    own = transactional_config(config, transactional_id)
    try:
        return _initialized(own, failures, within_s), own
    except KafkaException as refused:
        is_too_long = refused.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT
        if not is_too_long or "transaction.timeout.ms" in config:
            raise
        longest_ms = longest_transaction_ms(connection_of(own))
        if longest_ms is None or longest_ms >= TRANSACTION_TIMEOUT_MS:
            raise
    own = transactional_config({**config, "transaction.timeout.ms": str(longest_ms)}, transactional_id)
    return _initialized(own, failures, within_s), own


def _initialized(own: Mapping[str, str], failures: Failures, within_s: float) -> Producer:
    producer = Producer({**own, **reporting(failures)})
    initialize(producer, connection_of(own), within_s)
    return producer


def transactional_config(config: Mapping[str, str], transactional_id: str) -> dict[str, str]:
    """A transaction must not time out before its records do: librdkafka refuses that."""
    delivery_ms = {name: int(config[name]) for name in ("delivery.timeout.ms", "message.timeout.ms") if name in config}
    timeout_ms = int(config.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
    shortened = {name: str(min(ms, timeout_ms)) for name, ms in delivery_ms.items()}
    return {**config, **shortened, "transaction.timeout.ms": str(timeout_ms), "transactional.id": transactional_id}
