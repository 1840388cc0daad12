"""Brokers."""

from __future__ import annotations

from odradek.monitor.declaring import counter, gauge, meter, state, timer
from odradek.monitor.metric import Alert, Kind, Metric, Severity

_MS_OF_NS = 1e-6
_MANAGER = "kafka.server:type=ReplicaManager,name="
_PURGATORY = "kafka.server:type=DelayedOperationPurgatory,name="
_SESSIONS = "kafka.server:type=FetchSessionCache,name="
_FETCHERS = "kafka.server:type=ReplicaFetcherManager,name="
_SOCKETS = "kafka.server:type=socket-server-metrics"
_LISTENER = ("listener", "networkProcessor")
# One event loop takes the place of Kafka's network threads.
PROCESSOR = "0"

BROKER_STATE = gauge(
    "kafka.server:type=KafkaServer,name=BrokerState",
    "state",
    "1: starting, 2: recovering logs, 3: running, 6: stopping. A controller without the broker role stays at 1.",
)

VERSION = state(
    "kafka.server:type=app-info", "The version of Odradek, for each node id.", attribute="Version", labels=("id",)
)
STARTED = gauge(
    "kafka.server:type=app-info", "ms", "When this node started, since 1970.", attribute="StartTimeMs", labels=("id",)
)
CLUSTER_ID = Metric(
    name="kafka_server_kafkaserver_clusterid",
    mbean="kafka.server:type=KafkaServer,name=ClusterId",
    kind=Kind.STATE,
    unit="state",
    help="The id of the cluster, as the label `state`.",
)
DISK_READ = gauge(
    "kafka.server:type=KafkaServer,name=linux-disk-read-bytes",
    "bytes",
    "Bytes that the process has read from disks since its start, as Linux counts them.",
)
DISK_WRITTEN = gauge(
    "kafka.server:type=KafkaServer,name=linux-disk-write-bytes",
    "bytes",
    "Bytes that the process has written to disks since its start, as Linux counts them.",
)

# Replicas

PARTITION_COUNT = gauge(_MANAGER + "PartitionCount", "partitions", "Partitions with a replica on this broker.")
LEADER_COUNT = gauge(_MANAGER + "LeaderCount", "partitions", "Partitions that this broker leads.")
UNDER_REPLICATED = gauge(
    _MANAGER + "UnderReplicatedPartitions",
    "partitions",
    "Partitions led here with a replica that is not in sync.",
    Alert(
        name="UnderReplicatedPartitions",
        expression="kafka_server_replicamanager_underreplicatedpartitions > 0",
        for_seconds=300,
        severity=Severity.WARNING,
        summary=(
            "Partitions led by {{ $labels.instance }} that lack a replica: {{ $value }}. The next failure may make "
            "them unavailable."
        ),
        action=(
            "`odradek cluster health` names the brokers that are missing. Start the dead ones. If all run, a "
            "follower is too slow: look at its disk and at EventLoopSlow."
        ),
    ),
)
UNDER_MIN_ISR = gauge(
    _MANAGER + "UnderMinIsrPartitionCount",
    "partitions",
    "Partitions led here with fewer in-sync replicas than min.insync.replicas: acks=all fails.",
    Alert(
        name="UnderMinIsrPartitions",
        expression="kafka_server_replicamanager_underminisrpartitioncount > 0",
        for_seconds=60,
        severity=Severity.CRITICAL,
        summary=(
            "Partitions led by {{ $labels.instance }} that refuse writes with acks=all: {{ $value }}. They have fewer "
            "in-sync replicas than min.insync.replicas."
        ),
        action=(
            "Start the brokers that `odradek cluster health` names as missing. If one is lost permanently, move its "
            "replicas to other brokers with `odradek cluster reassign`. A lower min.insync.replicas allows writes at "
            "once, with fewer copies."
        ),
    ),
)
AT_MIN_ISR = gauge(
    _MANAGER + "AtMinIsrPartitionCount",
    "partitions",
    "Partitions led here with just min.insync.replicas in sync.",
)
OFFLINE_REPLICAS = gauge(
    _MANAGER + "OfflineReplicaCount",
    "partitions",
    "Replicas here whose log is offline after a disk error.",
    Alert(
        name="OfflineReplicas",
        expression="kafka_server_replicamanager_offlinereplicacount > 0",
        for_seconds=60,
        severity=Severity.CRITICAL,
        summary="Offline logs of {{ $labels.instance }}: {{ $value }}. They could not be opened, written or read.",
        action=(
            "The log of the broker has the I/O error of each. Free space or repair the disk: the broker opens the logs "
            "again by itself. If the disk is lost, replace it and format the directory again (docs/cluster.md)."
        ),
    ),
)
REASSIGNING = gauge(
    _MANAGER + "ReassigningPartitions", "partitions", "Partitions led here whose replicas are being moved."
)
PRODUCER_IDS = gauge(
    _MANAGER + "ProducerIdCount", "producers", "Idempotent producers that this broker remembers, over all partitions."
)
ISR_SHRINKS = meter(
    _MANAGER + "IsrShrinksPerSec", "shrinks", "Removals of replicas from an ISR by this broker as leader."
)
ISR_EXPANDS = meter(
    _MANAGER + "IsrExpandsPerSec", "expands", "Additions of replicas to an ISR by this broker as leader."
)
ISR_FAILURES = meter(
    _MANAGER + "FailedIsrUpdatesPerSec", "failedUpdates", "ISR changes that the controller refused or did not answer."
)
_FETCHER = ("clientId",)
MAX_LAG = gauge(
    _FETCHERS + "MaxLag",
    "messages",
    "How far the most distant follower on this broker is behind its leader's last known high watermark.",
    labels=_FETCHER,
)
FAILED_FETCHERS = gauge(
    _FETCHERS + "FailedPartitionsCount", "partitions", "Followed partitions whose log is offline.", labels=_FETCHER
)
DEAD_FETCHERS = gauge(
    _FETCHERS + "DeadThreadCount", "fetchers", "Fetchers that ended although they have partitions.", labels=_FETCHER
)

# Logs

FLUSH_TIME = timer(
    "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    "ms",
    "Time of an fsync of data logs. Several logs may share one.",
    Alert(
        name="FlushSlow",
        # Percentiles keep their value while there are no fsyncs.
        expression=(
            'kafka_log_logflushstats_logflushrateandtimems{quantile="0.99"} > 1000 '
            "and ignoring (quantile) rate(kafka_log_logflushstats_logflushrateandtimems_count[3m]) > 0"
        ),
        for_seconds=300,
        severity=Severity.WARNING,
        summary="An fsync takes longer than 1 s on {{ $labels.instance }}: its disk is overloaded or about to fail.",
        action=(
            "Look at the load and the errors of the disk (`iostat -x 1`, `dmesg`), and for other programs that write "
            "to it. Topics with flush.messages wait for each fsync. Move leaders to other brokers with `odradek "
            "cluster reassign` while the disk is slow."
        ),
    ),
    scale=_MS_OF_NS,
)
LOG_SIZE = gauge("odradek.log:type=LogManager,name=Size", "bytes", "Size of all logs of this broker, without indexes.")
SEGMENTS = gauge("odradek.log:type=LogManager,name=NumLogSegments", "segments", "Segments of all logs of this broker.")
OFFLINE_DIRECTORIES = gauge(
    "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
    "directories",
    "1 while all logs of this broker are offline after disk errors.",
)
DISK_TOTAL = gauge("odradek.log:type=LogManager,name=DiskTotalBytes", "bytes", "Size of the file system of log.dirs.")
DISK_USABLE = gauge(
    "odradek.log:type=LogManager,name=DiskUsableBytes",
    "bytes",
    "Free space in the file system of log.dirs.",
    Alert(
        name="DiskNearlyFull",
        expression="odradek_log_logmanager_diskusablebytes / odradek_log_logmanager_disktotalbytes < 0.1",
        for_seconds=300,
        severity=Severity.WARNING,
        summary="Less than a tenth of the disk of {{ $labels.instance }} is free.",
        action=(
            "Add space, or keep less: `odradek config set topic NAME retention.bytes=N`, or at once `odradek topic "
            "trim NAME --before -N`. If only this broker is full, move partitions to others with `odradek cluster "
            "reassign`."
        ),
    ),
    Alert(
        name="DiskFull",
        expression="odradek_log_logmanager_diskusablebytes / odradek_log_logmanager_disktotalbytes < 0.02",
        for_seconds=0,
        severity=Severity.CRITICAL,
        summary="Less than 2 % of the disk of {{ $labels.instance }} is free. A full disk takes its logs offline.",
        action=(
            "Free space now: `odradek topic trim NAME --before -N` deletes old records at once, lower retention works "
            "within minutes. After that the broker opens offline logs by itself."
        ),
    ),
)

# Requests that wait

PURGATORY_SIZE = gauge(
    _PURGATORY + "PurgatorySize",
    "requests",
    "Parked requests: Produce waits for acks, Fetch for records, DeleteRecords for followers.",
    labels=("delayedOperation",),
)
DELAYED_OPERATIONS = gauge(
    _PURGATORY + "NumDelayedOperations", "requests", "The same number here.", labels=("delayedOperation",)
)
EXPIRED_PRODUCES = meter(
    "kafka.server:type=DelayedProduceMetrics,name=ExpiresPerSec",
    "requests",
    "Parked produce requests that were answered with a timeout.",
)
EXPIRED_FETCHES = meter(
    "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec",
    "requests",
    "Parked fetches that were answered because fetch.max.wait.ms was over.",
    labels=("fetcherType",),
)

# Connections

CONNECTIONS = gauge(_SOCKETS, "connections", "Open connections.", attribute="connection-count", labels=_LISTENER)
CONNECTIONS_MADE = counter(
    _SOCKETS, "connections", "Accepted connections.", attribute="connection-creation-total", labels=_LISTENER
)
CONNECTIONS_MADE_RATE = gauge(
    _SOCKETS,
    "connections/second",
    "Accepted connections in the last minute.",
    attribute="connection-creation-rate",
    labels=_LISTENER,
)
CONNECTIONS_CLOSED = counter(
    _SOCKETS, "connections", "Closed connections.", attribute="connection-close-total", labels=_LISTENER
)
CONNECTIONS_CLOSED_RATE = gauge(
    _SOCKETS,
    "connections/second",
    "Closed connections in the last minute.",
    attribute="connection-close-rate",
    labels=_LISTENER,
)
SOCKET_BYTES_IN = counter(_SOCKETS, "bytes", "Received bytes.", attribute="incoming-byte-total", labels=_LISTENER)
SOCKET_BYTES_IN_RATE = gauge(
    _SOCKETS, "bytes/second", "Received in the last minute.", attribute="incoming-byte-rate", labels=_LISTENER
)
SOCKET_BYTES_OUT = counter(_SOCKETS, "bytes", "Sent bytes.", attribute="outgoing-byte-total", labels=_LISTENER)
SOCKET_BYTES_OUT_RATE = gauge(
    _SOCKETS, "bytes/second", "Sent in the last minute.", attribute="outgoing-byte-rate", labels=_LISTENER
)
LISTENER_REQUESTS = counter(_SOCKETS, "requests", "Received requests.", attribute="request-total", labels=_LISTENER)
LISTENER_REQUESTS_RATE = gauge(
    _SOCKETS, "requests/second", "Received requests in the last minute.", attribute="request-rate", labels=_LISTENER
)
LISTENER_EXPIRED = gauge(
    _SOCKETS,
    "connections",
    "Connections closed because they were idle for connections.max.idle.ms.",
    attribute="expired-connections-killed-count",
    labels=_LISTENER,
)
ACCEPT_RATE = gauge(
    _SOCKETS,
    "connections/second",
    "Accepted connections of a listener in the last minute.",
    attribute="connection-accept-rate",
    labels=("listener",),
)
CLIENT_SOFTWARE = gauge(
    _SOCKETS,
    "connections",
    "Open connections by the software of the client.",
    attribute="connections",
    labels=("clientSoftwareName", "clientSoftwareVersion", *_LISTENER),
)
EXPIRED_CONNECTIONS = gauge(
    "kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount",
    "connections",
    "Connections closed because they were idle for connections.max.idle.ms.",
)
MEMORY_POOL_USED = gauge(
    "kafka.network:type=SocketServer,name=MemoryPoolUsed", "bytes", "Memory of requests that are not complete yet."
)
MEMORY_POOL_AVAILABLE = gauge(
    "kafka.network:type=SocketServer,name=MemoryPoolAvailable", "bytes", "Memory left for incomplete requests."
)
FETCH_SESSIONS = gauge(_SESSIONS + "NumIncrementalFetchSessions", "sessions", "Fetch sessions.")
FETCH_SESSION_PARTITIONS = gauge(
    _SESSIONS + "NumIncrementalFetchPartitionsCached", "partitions", "Partitions in all fetch sessions."
)
FETCH_SESSION_EVICTIONS = meter(
    _SESSIONS + "IncrementalFetchSessionEvictionsPerSec", "evictions", "Fetch sessions given up to make room."
)

# The event loop


def _idle(mbean: str, *alerts: Alert) -> Metric:
    return gauge(
        mbean,
        "ratio",
        "Share of the last minute in which the event loop used no CPU; 0 means that the broker is overloaded. "
        "One loop does the work of Kafka's network threads and request handlers.",
        *alerts,
        attribute="OneMinuteRate" if "KafkaRequestHandlerPool" in mbean else "",
    )


LOOP_LATENCY = timer(
    "odradek.server:type=EventLoop,name=LatencyMs",
    "ms",
    "How late the event loop runs a timer, sampled ten times a second.",
    Alert(
        name="EventLoopSlow",
        expression='odradek_server_eventloop_latencyms{quantile="0.99"} > 200',
        for_seconds=300,
        severity=Severity.WARNING,
        summary="The event loop of {{ $labels.instance }} is late by more than 200 ms: each request waits that long.",
        action=(
            "If BrokerOverloaded fires too, there is too much work: see there. Otherwise the process gets no CPU: look "
            "for other programs, CPU limits of the container, or stolen time of the virtual machine, and for swapping."
        ),
    ),
    scale=_MS_OF_NS,
)
HANDLER_IDLE = _idle(
    "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
    Alert(
        name="BrokerOverloaded",
        expression="kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent < 0.1",
        for_seconds=300,
        severity=Severity.WARNING,
        summary="The event loop of {{ $labels.instance }} is more than 90 % busy: requests queue up.",
        action=(
            "kafka_network_requestmetrics_requests_total shows which API is frequent. Small produce requests become "
            "fewer with a larger linger.ms, small fetches with a larger fetch.min.bytes. `odradek cluster elect` gives "
            "back leadership that moved here. After that, move leaders with `odradek cluster reassign` or add brokers: "
            "one broker uses one core."
        ),
    ),
)
NETWORK_IDLE = _idle("kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent")
PROCESSOR_IDLE = gauge(
    "kafka.network:type=Processor,name=IdlePercent",
    "ratio",
    "The same as NetworkProcessorAvgIdlePercent: one event loop is the only network processor.",
    labels=("networkProcessor",),
)
