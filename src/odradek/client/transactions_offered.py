"""Whether a cluster can have transactions: initializes a transactional producer, or says why that is impossible."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

STATE_TOPIC = "__transaction_state"
LONGEST = "transaction.max.timeout.ms"
STATE_REPLICAS = "transaction.state.log.replication.factor"
# After so long, ask whether the cluster can have transactions at all.
DOUBT_AFTER_S = 10.0
REQUEST_TIMEOUT_S = 10.0
REFUSED = {
    KafkaError.UNSUPPORTED_VERSION: "the brokers do not support transactions",
    KafkaError._UNSUPPORTED_FEATURE: "the brokers do not support transactions",  # noqa: SLF001 (librdkafka's own code)
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "this client is not authorized for the transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "this client is not authorized to write idempotently",
}


class NoTransactions(RuntimeError):
    """The cluster cannot have transactions, or does not allow them. The message says why."""


def initialize(producer: Producer, config: Mapping[str, str], within_s: float) -> None:
    """`init_transactions`; NoTransactions if it will never succeed. `config`: how to connect, in librdkafka's names."""
    try:
        try:
            producer.init_transactions(min(within_s, DOUBT_AFTER_S))
        except KafkaException as late:
            if late.args[0].code() != KafkaError._TIMED_OUT:  # noqa: SLF001
                raise
            if (why := _why_impossible(config)) is not None:
                raise NoTransactions(why) from None
            if within_s <= DOUBT_AFTER_S:
                raise
            producer.init_transactions(within_s - DOUBT_AFTER_S)
    except KafkaException as refused:
        error = refused.args[0]
        if error.code() in REFUSED:
            raise NoTransactions(f"{REFUSED[error.code()]} ({error.name()})") from None
        raise


def longest_transaction_ms(config: Mapping[str, str]) -> int | None:
    """`transaction.max.timeout.ms` of the cluster; None if the brokers do not tell."""
    admin = AdminClient({"log_level": "0", **config})
    try:
        brokers = admin.list_topics(timeout=REQUEST_TIMEOUT_S).brokers
        asked = [ConfigResource(ConfigResource.Type.BROKER, str(each)) for each in brokers]
        found = [each.result() for each in admin.describe_configs(asked, request_timeout=REQUEST_TIMEOUT_S).values()]
    except KafkaException:
        return None
    limits = [int(each[LONGEST].value) for each in found if LONGEST in each and each[LONGEST].value]
    return min(limits, default=None)


def _why_impossible(config: Mapping[str, str]) -> str | None:
    """Brokers create the topic of transactions with the first one, and answer "not available" if they cannot."""
    admin = AdminClient({"log_level": "0", **config})
    try:
        cluster = admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        if STATE_TOPIC in cluster.topics or not cluster.brokers:
            return None
        asked = ConfigResource(ConfigResource.Type.BROKER, str(min(cluster.brokers)))
        found = admin.describe_configs([asked], request_timeout=REQUEST_TIMEOUT_S)[asked].result()
    except KafkaException:
        return None
    wanted, brokers = found.get(STATE_REPLICAS), len(cluster.brokers)
    if wanted is None or wanted.value is None or int(wanted.value) <= brokers:
        return None
    return (
        f"{STATE_TOPIC} needs {wanted.value} replicas ({STATE_REPLICAS}), and the cluster has {brokers} "
        f"broker{'' if brokers == 1 else 's'}"
    )
