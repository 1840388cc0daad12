"""The supported broker keys, with Kafka's names, defaults and ranges.

There are two kinds. `BrokerConfig` has the broker's own keys as typed attributes. The others are defaults of topic keys
(`log.retention.ms` of `retention.ms`) and are read only through `in_force`. As in Kafka, some may change while the
broker runs: of the second kind, the one with the highest precedence for each topic key.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.configs.definition import (
    INT32_MAX,
    Check,
    ConfigType,
    Definition,
    Synonym,
    Value,
    at_least,
    attributes,
    boolean,
    definitions,
    distinct_among,
    double,
    int16,
    int32,
    int64,
    suggestion,
    text,
    unlimited_or_at_least_one,
    words,
)
from odradek.metadata.configs.topic import TOPIC_CONFIGS
from odradek.metadata.configs.without_meaning import NOT_YET, WITHOUT_MEANING

_MIB = 1024 * 1024
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def _some_roles(roles: tuple[str, ...]) -> str | None:
    if not roles:
        return "Value must be broker, controller, or both"
    return distinct_among("broker", "controller")(roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One broker's own settings. When dynamic keys change, `in_force` creates a new one."""

    node_id: int = int32("node.id", 1, "This node's number, unique in the cluster.", at_least(0))
    process_roles: tuple[str, ...] = words(
        "process.roles",
        ("broker", "controller"),
        "The roles of this node: broker (it stores partitions), controller (it votes on the metadata), or both.",
        _some_roles,
    )
    broker_rack: str | None = text("broker.rack", None, "Where this broker stands, for placing replicas apart.")
    listeners: tuple[str, ...] = words(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092",),
        "The addresses to listen on, as PLAINTEXT://host:port. Port 0 takes a free port.",
    )
    advertised_listeners: tuple[str, ...] = words(
        "advertised.listeners", None, "The addresses that clients connect to, if they differ from listeners."
    )
    listener_security_protocol_map: tuple[str, ...] = words(
        "listener.security.protocol.map", (), "The protocol of each listener, as NAME:PLAINTEXT."
    )
    inter_broker_listener_name: str | None = text(
        "inter.broker.listener.name", None, "The listener at which brokers reach each other."
    )
    controller_listener_names: tuple[str, ...] = words(
        "controller.listener.names", None, "The listener at which controllers are reached. Not needed by a node alone."
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = words(
        "controller.quorum.bootstrap.servers",
        (),
        "Some of the controllers, as host:port. A node finds the others through them.",
    )
    controller_quorum_voters: tuple[str, ...] = words(
        "controller.quorum.voters", (), "The first voters, as id@host:port. Later voters are in the metadata log."
    )
    http_listener: str | None = text(
        "http.listener",
        None,
        "Where to serve HTTP (/healthz, /readyz, /metrics, /jolokia), as host:port; empty turns it off. The default is "
        "127.0.0.1, at the port of the first listener plus 552: 9644 for 9092.",
    )
    metrics_otlp_endpoint: str | None = text(
        "metrics.otlp.endpoint",
        None,
        "An OpenTelemetry collector to push metrics to, as http://host:4318 or with a path. "
        "The environment variable OTEL_EXPORTER_OTLP_HEADERS adds headers.",
    )
    metrics_dogstatsd_address: str | None = text(
        "metrics.dogstatsd.address", None, "A Datadog agent to push metrics to, as host:8125 or unix:///path."
    )
    metrics_push_interval_ms: int = int32(
        "metrics.push.interval.ms", 10_000, "How often metrics are pushed.", at_least(1000)
    )
    metrics_push_labels: tuple[str, ...] = words(
        "metrics.push.labels", (), "Labels of all metrics that are pushed, as name=value."
    )
    metrics_enable: bool = boolean(
        "metrics.enable", True, "Whether requests, replicas, groups and the metadata quorum are measured for /metrics."
    )
    metrics_partitions_enable: bool = boolean(
        "metrics.partitions.enable",
        False,
        "Whether /metrics and /jolokia also have the size, offsets and replicas of every partition of this broker: "
        "ten series for a leader, five for a follower.",
        dynamic=True,
    )
    log_dirs: tuple[str, ...] = words("log.dirs", (".odradek",), "The data directory.")

    num_partitions: int = int32(
        "num.partitions", 1, "Partitions of a topic created without saying how many.", at_least(1)
    )
    default_replication_factor: int = int32(
        "default.replication.factor", 1, "Replicas of a topic created without saying how many.", at_least(1)
    )
    auto_create_topics_enable: bool = boolean(
        "auto.create.topics.enable", True, "Whether asking for the metadata of an unknown topic creates it."
    )
    delete_topic_enable: bool = boolean("delete.topic.enable", True, "Whether topics can be deleted.")

    socket_request_max_bytes: int = int32(
        "socket.request.max.bytes", 100 * _MIB, "The largest request accepted.", at_least(1)
    )
    connections_max_idle_ms: int = int64(
        "connections.max.idle.ms", 600_000, "How long a connection without requests stays open.", at_least(100)
    )
    fetch_max_bytes: int = int32(
        "fetch.max.bytes", 55 * _MIB, "The most bytes of records in one fetch response.", at_least(1024)
    )
    max_request_partition_size_limit: int = int32(
        "max.request.partition.size.limit",
        2000,
        "The most partitions in one DescribeTopicPartitions page.",
        at_least(1),
    )
    telemetry_max_bytes: int = int32(
        "telemetry.max.bytes", _MIB, "The most bytes of metrics that a client pushes at once, compressed.", at_least(1)
    )
    max_incremental_fetch_session_cache_slots: int = int32(
        "max.incremental.fetch.session.cache.slots", 1000, "How many fetch sessions are kept.", at_least(0)
    )

    controller_quorum_election_timeout_ms: int = int32(
        "controller.quorum.election.timeout.ms",
        1000,
        "How long a candidate waits for votes before it starts another election.",
        at_least(1),
    )
    controller_quorum_fetch_timeout_ms: int = int32(
        "controller.quorum.fetch.timeout.ms",
        2000,
        "How long a voter without a leader waits before an election, and a leader without a majority before resigning.",
        at_least(1),
    )
    controller_quorum_election_backoff_max_ms: int = int32(
        "controller.quorum.election.backoff.max.ms", 1000, "The longest pause between two elections.", at_least(1)
    )
    controller_quorum_auto_join_enable: bool = boolean(
        "controller.quorum.auto.join.enable",
        False,
        "Whether a controller that does not vote joins the voters by itself, and removes the voter of its lost disk.",
    )

    metadata_log_segment_bytes: int = int32(
        "metadata.log.segment.bytes", 1024 * _MIB, "How large a file of the metadata log may grow.", at_least(8 * _MIB)
    )
    internal_metadata_log_segment_bytes: int = int32(
        "internal.metadata.log.segment.bytes",
        0,
        "The same, smaller, for tests; 0 for not at all.",
        at_least(0),
        internal=True,
    )
    metadata_log_max_record_bytes_between_snapshots: int = int64(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * _MIB,
        "How many bytes the metadata log grows before the next snapshot.",
        at_least(1),
    )

    broker_heartbeat_interval_ms: int = int32(
        "broker.heartbeat.interval.ms", 2000, "How often a broker sends a heartbeat to the controller.", at_least(1)
    )
    broker_session_timeout_ms: int = int32(
        "broker.session.timeout.ms",
        9000,
        "How long a broker may be silent before the controller fences it and elects other leaders.",
        at_least(1),
    )
    auto_leader_rebalance_enable: bool = boolean(
        "auto.leader.rebalance.enable",
        True,
        "Whether leadership returns to the preferred (first) replica automatically.",
    )
    leader_imbalance_check_interval_seconds: int = int64(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the controller checks whether preferred replicas lead.",
        at_least(1),
    )

    log_retention_check_interval_ms: int = int64(
        "log.retention.check.interval.ms",
        300_000,
        "How often logs are checked for segments to delete.",
        at_least(1),
    )
    log_cleaner_enable: bool = boolean("log.cleaner.enable", True, "Whether logs are compacted.")
    log_cleaner_backoff_ms: int = int64(
        "log.cleaner.backoff.ms",
        15_000,
        "How often logs are checked for compaction.",
        at_least(0),
        dynamic=True,
    )
    log_cleaner_dedupe_buffer_size: int = int64(
        "log.cleaner.dedupe.buffer.size",
        128 * _MIB,
        "How much memory compaction uses for keys. A log with more keys is compacted in several runs.",
        at_least(_MIB),
        dynamic=True,
    )
    log_cleaner_io_max_bytes_per_second: float = double(
        "log.cleaner.io.max.bytes.per.second",
        sys.float_info.max,
        "How many bytes compaction reads and writes per second, at most.",
        at_least(1),
        dynamic=True,
    )
    log_flush_offset_checkpoint_interval_ms: int = int32(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often recovery points and log start offsets are written to disk.",
        at_least(1),
    )
    replica_high_watermark_checkpoint_interval_ms: int = int64(
        "replica.high.watermark.checkpoint.interval.ms",
        5000,
        "How often high watermarks are written to disk.",
        at_least(1),
    )
    replica_lag_time_max_ms: int = int64(
        "replica.lag.time.max.ms",
        30_000,
        "How long a follower may lag before it leaves the ISR.",
        at_least(1),
    )
    replica_fetch_max_bytes: int = int32(
        "replica.fetch.max.bytes",
        _MIB,
        "The most bytes that a follower fetches of one partition. A larger batch is sent whole.",
        at_least(0),
    )
    replica_fetch_response_max_bytes: int = int32(
        "replica.fetch.response.max.bytes",
        10 * _MIB,
        "The most bytes of records that a follower fetches at once.",
        at_least(0),
    )
    replica_fetch_min_bytes: int = int32(
        "replica.fetch.min.bytes", 1, "How many bytes of records a follower waits for.", at_least(0)
    )
    replica_fetch_wait_max_ms: int = int32(
        "replica.fetch.wait.max.ms", 500, "How long a follower's fetch waits for records.", at_least(0)
    )
    replica_fetch_backoff_ms: int = int32(
        "replica.fetch.backoff.ms",
        1000,
        "The longest pause before a follower retries a failed partition. The first pauses are shorter.",
        at_least(0),
    )
    replica_socket_timeout_ms: int = int32(
        "replica.socket.timeout.ms",
        30_000,
        "How long a follower waits for a response before it closes the connection.",
        at_least(1),
    )
    replica_selector_class: str | None = text(
        "replica.selector.class",
        None,
        "How a leader chooses the replica that a consumer reads from. Without it, consumers read from leaders.",
        lambda name: None if name in (None, RACK_AWARE_SELECTOR) else f"Only {RACK_AWARE_SELECTOR} is known",
    )
    producer_id_expiration_ms: int = int32(
        "producer.id.expiration.ms",
        86_400_000,
        "How long the state of an idempotent producer is kept after its last write.",
        at_least(1),
        dynamic=True,
    )

    offsets_topic_num_partitions: int = int32(
        "offsets.topic.num.partitions", 50, "Partitions of __consumer_offsets. Fixed once it exists.", at_least(1)
    )
    offsets_topic_replication_factor: int = int16(
        "offsets.topic.replication.factor",
        3,
        "Replicas of __consumer_offsets. With fewer brokers, one replica per broker.",
        at_least(1),
    )
    offsets_topic_segment_bytes: int = int32(
        "offsets.topic.segment.bytes",
        8 * _MIB,
        "The segment.bytes of __consumer_offsets. What is not compacted yet is read when groups are loaded: Kafka's "
        "default, 100 MiB, takes us seconds.",
        at_least(_MIB),
    )
    offsets_retention_minutes: int = int32(
        "offsets.retention.minutes", 7 * 24 * 60, "How long an empty group's offsets are kept.", at_least(1)
    )
    offsets_retention_check_interval_ms: int = int64(
        "offsets.retention.check.interval.ms", 600_000, "How often expired offsets are looked for.", at_least(1)
    )
    offsets_commit_timeout_ms: int = int32(
        "offsets.commit.timeout.ms",
        5000,
        "How long a commit waits for the replicas of __consumer_offsets.",
        at_least(1),
    )
    offset_metadata_max_bytes: int = int32(
        "offset.metadata.max.bytes", 4096, "The largest note that may be committed with an offset.", at_least(0)
    )
    group_min_session_timeout_ms: int = int32(
        "group.min.session.timeout.ms", 6000, "The shortest session timeout that a member may ask for.", at_least(0)
    )
    group_max_session_timeout_ms: int = int32(
        "group.max.session.timeout.ms", 1_800_000, "The longest session timeout that a member may ask for.", at_least(0)
    )
    group_initial_rebalance_delay_ms: int = int32(
        "group.initial.rebalance.delay.ms",
        3000,
        "How long an empty group waits for more members before it starts.",
        at_least(0),
    )
    group_max_size: int = int32("group.max.size", INT32_MAX, "How many members a group may have.", at_least(1))

    transaction_state_log_num_partitions: int = int32(
        "transaction.state.log.num.partitions",
        50,
        "Partitions of __transaction_state. Fixed once it exists.",
        at_least(1),
    )
    transaction_state_log_replication_factor: int = int16(
        "transaction.state.log.replication.factor",
        3,
        "Replicas of __transaction_state. With fewer brokers, one replica per broker.",
        at_least(1),
    )
    transaction_state_log_min_isr: int = int32(
        "transaction.state.log.min.isr",
        2,
        "The min.insync.replicas of __transaction_state. With fewer replicas, all of them.",
        at_least(1),
    )
    transaction_state_log_segment_bytes: int = int32(
        "transaction.state.log.segment.bytes",
        8 * _MIB,
        "The segment.bytes of __transaction_state. What is not compacted yet is read when transactions are loaded: "
        "Kafka's default, 100 MiB, takes us seconds.",
        at_least(_MIB),
    )
    transaction_max_timeout_ms: int = int32(
        "transaction.max.timeout.ms",
        900_000,
        "The longest transaction.timeout.ms that a producer may ask for.",
        at_least(1),
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = int32(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often transactions that took longer than their timeout are looked for. They are aborted.",
        at_least(1),
    )
    transactional_id_expiration_ms: int = int32(
        "transactional.id.expiration.ms",
        7 * 24 * 3_600_000,
        "How long a transactional id without an open transaction is kept after its last use.",
        at_least(1),
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = int32(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often expired transactional ids are looked for.",
        at_least(1),
    )
    transaction_partition_verification_enable: bool = boolean(
        "transaction.partition.verification.enable",
        True,
        "Whether the leader of a partition asks the transaction coordinator before it accepts the first batch of a "
        "transaction. Without it, a delayed batch can begin a transaction that never ends.",
        dynamic=True,
    )
    add_partitions_to_txn_retry_backoff_ms: int = int32(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        "How long a leader waits before it asks again while the previous transaction of a producer is being completed.",
        at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = int32(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "How long a leader asks again in all before the producer gets CONCURRENT_TRANSACTIONS.",
        at_least(0),
    )

    # The values of the file, by Kafka's names: the source STATIC_BROKER.
    static: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # Keys of the file that have no effect: the node logs a warning for each.
    ignored: tuple[str, ...] = ()

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> BrokerConfig:
        """Raises KafkaError with INVALID_CONFIG naming each key that is unknown, out of range, or in conflict."""
        ignored = tuple(name for name in settings if name in WITHOUT_MEANING and name not in BROKER_CONFIGS)
        settings = {_ALIASES.get(name, name): value for name, value in settings.items() if name not in ignored}
        parsed = _parse_all(settings)
        own: dict[str, Any] = {_ATTRIBUTES[name]: value for name, value in parsed.items() if name in _ATTRIBUTES}
        config = cls(static=MappingProxyType(settings), ignored=ignored, **own)
        if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "group.min.session.timeout.ms is larger than group.max.session.timeout.ms"
            )
        return config


def _parse_all(settings: Mapping[str, str]) -> dict[str, Value]:
    """Reports all errors of a file at once, one line each."""
    parsed, problems = {}, []
    for name, value in settings.items():
        try:
            parsed[name] = broker_definition(name).parse(value)
        except KafkaError as refused:
            problems.append(refused.message)
    if problems:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "\n".join(problems))
    return parsed


_ATTRIBUTES = attributes(BrokerConfig)
# Attribute names by key, of the broker's own keys that may change while it runs.
DYNAMIC_ATTRIBUTES: Mapping[str, str] = {
    name: _ATTRIBUTES[name] for name, definition in definitions(BrokerConfig).items() if definition.dynamic
}
# Kafka's older names for the same key.
_ALIASES = {"log.dir": "log.dirs", "broker.id": "node.id"}


# Broker keys whose range differs from that of their topic key.
_OWN_CHECKS: dict[str, Check] = {
    "log.retention.ms": unlimited_or_at_least_one,
    "log.retention.minutes": unlimited_or_at_least_one,
    "log.retention.hours": unlimited_or_at_least_one,
}


def _topic_default(topic: Definition, position: int, synonym: Synonym) -> Definition:
    weakest = position == len(topic.synonyms) - 1
    default = topic.default
    if synonym.factor > 1 and isinstance(default, int):
        default //= synonym.factor
    return Definition(
        name=synonym.name,
        type=topic.type if synonym.factor == 1 else ConfigType.INT,
        default=default if weakest else None,
        doc=f"The {topic.name} of topics that do not set it. {topic.doc}",
        check=_OWN_CHECKS.get(synonym.name, topic.check),
        dynamic=position == 0,
    )


BROKER_CONFIGS: Mapping[str, Definition] = definitions(BrokerConfig) | {
    synonym.name: _topic_default(topic, position, synonym)
    for topic in TOPIC_CONFIGS.values()
    for position, synonym in enumerate(topic.synonyms)
}


def broker_definition(name: str) -> Definition:
    if name not in BROKER_CONFIGS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, _unknown(name))
    return BROKER_CONFIGS[name]


def _unknown(name: str) -> str:
    if name in WITHOUT_MEANING:
        return f"{name} is a config of Kafka that has no effect here: {WITHOUT_MEANING[name]}"
    why = next((why for start, why in NOT_YET.items() if name.startswith(start)), None)
    if why is not None:
        return f"{name} is a config of Kafka that is not supported here: {why}"
    return f"Unknown broker config name: {name}{suggestion(name, BROKER_CONFIGS)}"


def refuse_read_only(names: Iterable[str]) -> None:
    """Refuses read-only keys with Kafka's message and code. As in Kafka, checked before the values."""
    fixed = [name for name in names if name in BROKER_CONFIGS and not BROKER_CONFIGS[name].dynamic]
    if fixed:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")


def validate_dynamic_broker_config(name: str, value: str) -> Value:
    """The parsed value, or a KafkaError with INVALID_REQUEST, which is Kafka's code for broker keys (KAFKA-13609)."""
    refuse_read_only([name])
    try:
        return broker_definition(name).parse(value)
    except KafkaError as refused:
        raise KafkaError(ErrorCode.INVALID_REQUEST, refused.message) from None
