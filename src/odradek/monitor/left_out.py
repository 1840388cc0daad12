"""The MBeans and attributes of Kafka that Odradek does not have, each with the reason.

`tests/interop/test_jolokia.py` compares this list with a running Kafka: what Kafka has is either served or listed here.
"""

from __future__ import annotations

from dataclasses import dataclass

_REQUESTS = "kafka.network:type=RequestMetrics,name=*,request="
_SERVER = "kafka.server:type="
_SOCKETS = "kafka.server:type=socket-server-metrics"
_SHARE_GROUPS = "There are no share groups."
_NO_QUEUE = "One event loop runs handlers directly: there is no queue between threads."
_CHANNEL = "Connections to other nodes are not measured. The node that answers a request measures it."
_SAME_PROCESS = "It is one process with one event loop: the MBean of the broker has the value."
_QUOTAS = "There are no quotas."
_SECURITY = "There is no TLS, SASL or ACL."


@dataclass(frozen=True, slots=True)
class LeftOut:
    """`mbean` may be a pattern of JMX. `attributes` may have `*`; without any, the whole MBean is meant."""

    mbean: str
    reason: str
    attributes: tuple[str, ...] = ()


def _apis(reason: str, *names: str) -> tuple[LeftOut, ...]:
    return tuple(LeftOut(_REQUESTS + name, reason) for name in names)


LEFT_OUT: tuple[LeftOut, ...] = (
    # Requests
    *_apis(_SHARE_GROUPS, "*Share*"),
    *_apis(_SECURITY, "*Acls", "*DelegationToken", "Sasl*", "*UserScramCredentials"),
    *_apis(_QUOTAS, "*ClientQuotas"),
    *_apis("There are no groups by KIP-848 and no streams groups.", "ConsumerGroup*", "StreamsGroup*"),
    *_apis("The API is not served.", "ListClientMetricsResources"),
    *_apis("Counted as AddPartitionsToTxn.", "AddPartitionsToTxnVerification"),
    LeftOut(
        "kafka.network:type=RequestMetrics,name=MessageConversionsTimeMs,request=*",
        "Batches are never converted: message formats 0 and 1 are refused.",
    ),
    LeftOut(
        "kafka.network:type=RequestMetrics,name=TemporaryMemoryBytes,request=*",
        "Kafka counts memory for conversions and decompression; here batches are not converted.",
    ),
    LeftOut(_SERVER + "BrokerTopicMetrics,name=*MessageConversionsPerSec", "Batches are never converted."),
    LeftOut("kafka.network:type=RequestChannel,*", _NO_QUEUE),
    LeftOut("kafka.network:type=Acceptor,*", "Accepting never waits for a thread: there is one event loop."),
    LeftOut(
        _SERVER + "KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
        "Only OneMinuteRate, which the usual JMX-exporter rules and dashboards read.",
        ("Count", "EventType", "FifteenMinuteRate", "FiveMinuteRate", "MeanRate", "RateUnit"),
    ),
    LeftOut(_SERVER + "KafkaRequestHandlerPool,name=BrokerRequestHandlerAvgIdlePercent", _SAME_PROCESS),
    LeftOut(_SERVER + "KafkaRequestHandlerPool,name=ControllerRequestHandlerAvgIdlePercent", _SAME_PROCESS),
    LeftOut(_SERVER + "ForwardingManager", "Not measured. The controller measures the requests that it answers."),
    # Connections
    LeftOut(_SOCKETS + ",listener=*,networkProcessor=*", _SECURITY, ("*auth*",)),
    LeftOut(
        _SOCKETS + ",listener=*,networkProcessor=*",
        "Times of a selector: asyncio has the loop, see odradek.server:type=EventLoop.",
        ("io-*", "select-*"),
    ),
    LeftOut(
        _SOCKETS + ",listener=*,networkProcessor=*",
        "Not counted, to keep requests cheap. RequestMetrics has the sizes and counts by API.",
        ("network-io-*", "request-size-*", "response-*"),
    ),
    LeftOut(
        _SOCKETS + ",listener=*",
        "There is no limit on the rate of connections.",
        ("connection-accept-throttle-time", "ip-connection-accept-throttle-time"),
    ),
    LeftOut(
        _SOCKETS,
        "connection-accept-rate of each listener and MemoryPoolAvailable have the numbers.",
        ("broker-connection-accept-rate", "MemoryPoolAvgDepletedPercent", "MemoryPoolDepletedTimeTotal"),
    ),
    LeftOut(_SERVER + "*-channel-metrics", _CHANNEL),
    *(
        LeftOut(f"{_SERVER}{name},BrokerId=*", _CHANNEL)
        for name in (
            "alter-partition-metrics",
            "directory-assignments-metrics",
            "forwarding-metrics",
            "heartbeat-metrics",
            "registration-metrics",
        )
    ),
    # Groups and transactions
    LeftOut("kafka.server:type=*Share*,*", _SHARE_GROUPS),
    LeftOut("kafka.server:type=share-coordinator-metrics,*", _SHARE_GROUPS),
    LeftOut("kafka.server:type=BrokerTopicMetrics,name=*Share*,*", _SHARE_GROUPS),
    LeftOut(_SERVER + "DelayedOperationPurgatory,name=*,delayedOperation=ShareFetch", _SHARE_GROUPS),
    *(
        LeftOut(f"{_SERVER}group-coordinator-metrics,protocol={protocol}", "There are only classic groups.")
        for protocol in ("consumer", "share", "streams")
    ),
    *(
        LeftOut(f"{_SERVER}group-coordinator-metrics,state={state}", "There are only classic groups.")
        for state in ("Assigning", "Dead", "Empty", "NotReady", "Reconciling", "Stable")
    ),
    LeftOut(
        _SERVER + "group-coordinator-metrics,state=failed",
        "A partition whose log cannot be read is retried: it stays in the state loading.",
    ),
    LeftOut(
        _SERVER + "group-coordinator-metrics",
        "Not counted. GroupMetadataManager has the groups by state and the offsets.",
        ("group-completed-rebalance-*", "offset-commit-*", "offset-deletion-*", "offset-expiration-*"),
    ),
    LeftOut(
        _SERVER + "group-coordinator-metrics",
        "There are only classic groups.",
        ("consumer-group-rebalance-*", "share-group-rebalance-*", "streams-group-rebalance-*"),
    ),
    LeftOut(
        _SERVER + "group-coordinator-metrics",
        "The coordinator runs on the event loop and appends at once: it has no threads, queue or batches of its own.",
        ("background-*", "batch-*", "event-*", "thread-idle-ratio-avg"),
    ),
    # Logs
    LeftOut("kafka.log:type=LogCleaner,*", "Compaction is not measured."),
    LeftOut("kafka.log:type=LogCleanerManager,*", "Compaction is not measured."),
    LeftOut("kafka.utils:type=Throttler,*", "Compaction is not measured."),
    LeftOut("kafka.log:type=LogManager,name=*Cordoned*,*", "Data directories cannot be cordoned."),
    LeftOut(
        "kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory=*",
        "There is one data directory: OfflineLogDirectoryCount has the value.",
    ),
    LeftOut(
        "kafka.log:type=Log,name=*,topic=__cluster_metadata,partition=*",
        "raft-metrics has the end of the metadata log, and SnapshotEmitter its snapshots.",
    ),
    LeftOut("kafka.server:type=ReplicaAlterLogDirsManager,*", "There is one data directory."),
    LeftOut("kafka.server:type=AssignmentsManager,*", "There is one data directory."),
    LeftOut("org.apache.kafka.server:type=AssignmentsManager,*", "There is one data directory."),
    LeftOut(_SERVER + "ReplicaFetcherManager,name=MinFetchRate,clientId=*", "The rates of fetchers are not measured."),
    LeftOut(_SERVER + "DelayedOperationPurgatory,name=*,delayedOperation=AlterAcls", _SECURITY),
    LeftOut(_SERVER + "DelayedOperationPurgatory,name=*,delayedOperation=Remote*", "There is no tiered storage."),
    LeftOut(_SERVER + "DelayedRemoteListOffsetsMetrics,*", "There is no tiered storage."),
    # Quotas
    *(LeftOut(_SERVER + name, _QUOTAS) for name in ("ControllerMutation", "Fetch", "Produce", "Request")),
    # The quorum and the controller
    LeftOut("kafka.controller:type=ControllerEventManager,name=AvgIdleRatio", _NO_QUEUE),
    LeftOut("kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs", _NO_QUEUE),
    LeftOut("kafka.controller:type=KafkaController,name=EventQueueOperationsTimedOutCount", _NO_QUEUE),
    LeftOut(
        "kafka.controller:type=KafkaController,name=IgnoredStaticVoters",
        "controller.quorum.voters never defines the voters here.",
    ),
    *(
        LeftOut(
            f"kafka.controller:type=KafkaController,name=LastAppliedRecord{name}",
            "The time of a metadata record is not kept: LastAppliedRecordOffset and UnappliedRecords show the lag.",
        )
        for name in ("LagMs", "Timestamp")
    ),
    LeftOut(
        _SERVER + "broker-metadata-metrics",
        "The time of a metadata record is not kept: UnappliedRecords shows the lag.",
        ("last-applied-record-lag-ms", "last-applied-record-timestamp"),
    ),
    LeftOut(
        _SERVER + "broker-metadata-metrics",
        "controller.quorum.voters never defines the voters here.",
        ("ignored-static-voters",),
    ),
    LeftOut(_SERVER + "MetadataLoader,name=AvgIdleRatio", _NO_QUEUE),
    LeftOut(_SERVER + "BrokerMetadataListener,name=MetadataBatchSizes", "Not measured."),
    LeftOut(_SERVER + "raft-metrics", "The event loop does this work: see EventLoop.", ("poll-idle-ratio-avg",)),
    *(
        LeftOut(f"{_SERVER}MetadataLoader,name=FinalizedLevel,featureName={feature}", "There is no such feature.")
        for feature in ("groupVersion", "shareVersion", "streamsVersion")
    ),
    LeftOut(
        _SERVER + "MetadataLoader,name=FinalizedLevel,featureName=kraftVersion",
        "Always 1: the voters are in the metadata log.",
    ),
    # The process
    LeftOut("kafka.server:type=ControllerServer,*", _SAME_PROCESS),
    LeftOut(_SERVER + "KafkaServer,name=yammer-metrics-count", "There is one registry, without a limit to watch."),
    LeftOut(_SERVER + "kafka-metrics-count", "There is one registry, without a limit to watch."),
    LeftOut(_SERVER + "app-info,id=*", "A release is known by its version.", ("CommitId",)),
    LeftOut(_SERVER + "app-info", "The MBean with the id of the node has the values."),
    LeftOut(_SERVER + "app-info,client-id=*", "The MBean with the id of the node has the values."),
    LeftOut(
        _SERVER + "client-metrics",
        "ErrorsPerSec of PushTelemetry counts UNKNOWN_SUBSCRIPTION_ID.",
        ("unknown-subscription-request-*",),
    ),
    LeftOut(
        "kafka:type=kafka.Log4jController",
        "Loggers are configs: `kafka-configs --entity-type broker-loggers` shows and changes them.",
    ),
)
