"""Kafka's broker keys that have no effect here. A node starts with them, and logs a warning for each.

Only keys that are safe to ignore: keys for security (TLS, SASL, quotas, authorisers) are refused, like unknown keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_THREADS = "one event loop serves all connections, and blocking work has threads of its own"
_SOCKETS = "the system sizes the buffers of sockets"
_PURGATORY = "requests that wait are woken by what they wait for; nothing is purged"
_JAVA = "it names Java classes"
_METRICS = "there are no metrics of Java's kind"
_PACE = "the work is done when it is due, without a schedule or a delay of its own"
_BETWEEN_NODES = "how nodes of a cluster wait for each other is fixed"
_SHARES = "there are no share groups yet"
_NEW_GROUPS = "groups use the classic protocol"

_BY_REASON: Mapping[str, str] = {
    _THREADS: """background.threads group.coordinator.background.threads group.coordinator.threads num.io.threads
        num.network.threads num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
        log.cleaner.threads queued.max.requests""",
    _SOCKETS: "replica.socket.receive.buffer.bytes socket.receive.buffer.bytes socket.send.buffer.bytes",
    _PURGATORY: """delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
        producer.purgatory.purge.interval.requests share.fetch.purgatory.purge.interval.requests""",
    _JAVA: "auto.include.jmx.reporter kafka.metrics.reporters metric.reporters",
    _METRICS: """kafka.metrics.polling.interval.secs metrics.num.samples metrics.recording.level
        metrics.sample.window.ms""",
    _PACE: """group.coordinator.append.linger.ms group.coordinator.cached.buffer.max.bytes log.cleaner.io.buffer.size
        log.cleaner.io.buffer.load.factor log.flush.start.offset.checkpoint.interval.ms offsets.load.buffer.size
        transaction.state.log.load.buffer.size""",
    _BETWEEN_NODES: """controlled.shutdown.enable controller.quorum.append.linger.ms
        controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
        controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
        controller.socket.timeout.ms initial.broker.registration.timeout.ms request.timeout.ms
        socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms""",
    _SHARES: """share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
        share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
        share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
        share.coordinator.state.topic.num.partitions share.coordinator.state.topic.replication.factor
        share.coordinator.state.topic.segment.bytes share.coordinator.threads share.coordinator.write.timeout.ms""",
    _NEW_GROUPS: """group.consumer.assignment.interval.ms group.consumer.assignors group.consumer.heartbeat.interval.ms
        group.consumer.max.assignment.interval.ms group.consumer.max.heartbeat.interval.ms
        group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.migration.policy
        group.consumer.min.assignment.interval.ms group.consumer.min.heartbeat.interval.ms
        group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms""",
}

WITHOUT_MEANING: Mapping[str, str] = MappingProxyType(
    {name: why for why, names in _BY_REASON.items() for name in names.split()}
)

# Prefixes of unsupported keys that cannot be ignored: they are refused with a reason.
NOT_YET: Mapping[str, str] = MappingProxyType(
    {
        "alter.config.policy.": "policies are Java classes",
        "authorizer.": "there is no authorisation yet: every client may do everything",
        "client.quota.": "there are no quotas yet",
        "config.providers": "values are taken as they are written",
        "connections.max.reauth.": "there is no authentication yet",
        "create.topic.policy.": "policies are Java classes",
        "delegation.token.": "there is no authentication yet",
        "follower.replication.throttled.": "replication is not throttled",
        "leader.replication.throttled.": "replication is not throttled",
        "log.local.retention.": "there is no tiered storage",
        "max.connection": "connections are not counted yet",
        "metadata.log.dir": "the metadata log lies in log.dirs",
        "principal.builder.": "there is no authentication yet",
        "quota.": "there are no quotas yet",
        "remote.": "there is no tiered storage",
        "sasl.": "there is no authentication yet: listeners are PLAINTEXT",
        "security.inter.broker.protocol": "listeners are PLAINTEXT; inter.broker.listener.name may say which",
        "ssl.": "there is no TLS yet: listeners are PLAINTEXT",
    }
)
