"""The metadata quorum and the controller.

What ZooKeeper's metrics were for. Metrics of KafkaController exist on nodes with the controller role.
"""

from __future__ import annotations

from odradek.monitor.declaring import gauge, histogram, meter, state
from odradek.monitor.metric import Alert, Metric, Severity

_RAFT = "kafka.server:type=raft-metrics"
_APPLIED = "kafka_server_broker_metadata_metrics_last_applied_record_offset"
_METADATA = "kafka.server:type=broker-metadata-metrics"
_LOADER = "kafka.server:type=MetadataLoader,name="
_CONTROLLER = "kafka.controller:type=KafkaController,name="
_STATS = "kafka.controller:type=ControllerStats,name="
_MS_OF_NS, _US_OF_NS = 1e-6, 1e-3


def _raft(attribute: str, unit: str, meaning: str, *alerts: Alert) -> Metric:
    return gauge(_RAFT, unit, meaning, *alerts, attribute=attribute)


# The quorum

CURRENT_LEADER = _raft(
    "current-leader",
    "id",
    "The node that leads the metadata log, as this node knows it; -1 if there is none.",
)
CURRENT_EPOCH = _raft("current-epoch", "epoch", "The leader epoch of the metadata log.")
CURRENT_VOTE = _raft("current-vote", "id", "The candidate that this node voted for in this epoch; -1 if none.")
CURRENT_VOTE_DIRECTORY = state(
    _RAFT,
    "The directory id of this candidate, as the label `state`; zeros if none.",
    attribute="current-vote-directory-id",
)
CURRENT_STATE = state(
    _RAFT,
    "The role of this node: leader, follower, observer, candidate, prospective, unattached, resigned.",
    Alert(
        name="NoMetadataLeader",
        # Such a node still knows the dead leader, and follows it again between its requests for votes, every few
        # seconds. An election that succeeds is seen once, for less than the 90 seconds.
        expression=(
            "max by (job, instance) "
            '(max_over_time(kafka_server_raft_metrics_current_state_info{state!~"leader|follower|observer"}[1m])) > 0'
        ),
        for_seconds=90,
        severity=Severity.CRITICAL,
        summary=(
            "{{ $labels.instance }} knows no leader of the metadata quorum. Partitions keep their leaders, but topics, "
            "leaders and ISRs cannot change."
        ),
        action=(
            "If all nodes report this, start controllers until a majority of the voters runs: `odradek cluster health` "
            "names the unreachable voters. If only this node does, it cannot reach the others: look at its network "
            "and its log."
        ),
    ),
    attribute="current-state",
)
HIGH_WATERMARK = _raft("high-watermark", "offset", "The end of the committed metadata; -1 while it is unknown.")
LOG_END_OFFSET = _raft("log-end-offset", "offset", "The end of the metadata log on this node.")
LOG_END_EPOCH = _raft("log-end-epoch", "epoch", "The leader epoch of the last metadata record on this node.")
VOTERS = _raft("number-of-voters", "nodes", "Voters of the metadata quorum.")
OBSERVERS = _raft("number-of-observers", "nodes", "On the leader: nodes that fetch the metadata log without a vote.")
UNKNOWN_VOTERS = _raft("number-unknown-voter-connections", "nodes", "Voters whose address this node does not know.")
UNCOMMITTED_VOTERS = _raft("uncommitted-voter-change", "changes", "1 while a change of the voters is not committed.")
APPEND_RATE = _raft("append-records-rate", "records/second", "Metadata records appended on the leader.")
FETCH_RATE = _raft("fetch-records-rate", "records/second", "Metadata records fetched from the leader.")
COMMIT_LATENCY_AVG = _raft(
    "commit-latency-avg", "ms", "On the leader: time from append to commit, in the last 30 to 60 s."
)
COMMIT_LATENCY_MAX = _raft("commit-latency-max", "ms", "The longest of these.")
ELECTION_LATENCY_AVG = _raft(
    "election-latency-avg", "ms", "How long this node knew no leader in an election, in the last 30 to 60 s."
)
ELECTION_LATENCY_MAX = _raft("election-latency-max", "ms", "The longest of these.")

# Applied metadata

APPLIED_OFFSET = gauge(
    _METADATA,
    "offset",
    "The last metadata record that this node has applied.",
    Alert(
        name="MetadataLag",
        expression=(f"max by (job) ({_APPLIED}) - on (job) group_right {_APPLIED} > 100"),
        for_seconds=60,
        severity=Severity.WARNING,
        summary=(
            "Metadata records of other nodes that {{ $labels.instance }} has not applied: {{ $value }}. It answers "
            "clients with old metadata."
        ),
        action=(
            "The node cannot reach the active controller, or is too slow. Look at its log and at EventLoopSlow. If "
            "the network between them works, restart the node."
        ),
    ),
    attribute="last-applied-record-offset",
)
LOAD_ERRORS = gauge(
    _METADATA,
    "errors",
    "1 after the metadata log failed; the node stops then.",
    attribute="metadata-load-error-count",
)
APPLY_ERRORS = gauge(
    _METADATA,
    "errors",
    "The same, as Kafka has two counters.",
    attribute="metadata-apply-error-count",
)
UNAPPLIED = gauge(
    "odradek.server:type=MetadataQuorum,name=UnappliedRecords",
    "records",
    "Metadata records that are committed, as far as this node knows, and not applied yet.",
)
CONTROLLER_ID = gauge(
    _LOADER + "CurrentControllerId", "id", "The node that leads the metadata log; -1 if there is none."
)
METADATA_VERSION = gauge(_LOADER + "CurrentMetadataVersion", "level", "The finalized level of metadata.version.")
FEATURE_LEVEL = gauge(
    _LOADER + "FinalizedLevel", "level", "The finalized level of each feature.", labels=("featureName",)
)
SNAPSHOTS_LOADED = gauge(_LOADER + "HandleLoadSnapshotCount", "snapshots", "Metadata snapshots loaded from a leader.")
SNAPSHOT_BYTES = gauge(
    "kafka.server:type=SnapshotEmitter,name=LatestSnapshotGeneratedBytes",
    "bytes",
    "The size of the last metadata snapshot that this node wrote; 0 if none since its start.",
)
SNAPSHOT_AGE = gauge(
    "kafka.server:type=SnapshotEmitter,name=LatestSnapshotGeneratedAgeMs",
    "ms",
    "The age of the last metadata snapshot that this node wrote; if none, the time since its start.",
)
APPLY_TIME = histogram(
    "kafka.server:type=BrokerMetadataListener,name=MetadataBatchProcessingTimeUs",
    "us",
    "How long this broker took to apply a commit of the metadata log.",
    scale=_US_OF_NS,
)
FEATURE_MAX = gauge(
    "kafka.server:type=node-metrics",
    "level",
    "The highest level of each feature that this node supports.",
    attribute="maximum-supported-level",
    labels=("feature_name",),
    keys=("feature-name",),
)
FEATURE_MIN = gauge(
    "kafka.server:type=node-metrics",
    "level",
    "The lowest level of each feature that this node supports.",
    attribute="minimum-supported-level",
    labels=("feature_name",),
    keys=("feature-name",),
)

# The controller

ACTIVE_CONTROLLERS = gauge(
    _CONTROLLER + "ActiveControllerCount",
    "controllers",
    "1 on the active controller, 0 on others. The sum over a cluster should be 1.",
    Alert(
        name="NoActiveController",
        expression="sum by (job) (kafka_controller_kafkacontroller_activecontrollercount) < 1",
        for_seconds=30,
        severity=Severity.CRITICAL,
        summary="The cluster {{ $labels.job }} has no active controller: topics, leaders and ISRs cannot change.",
        action=(
            "Start controllers until a majority of the voters runs. `odradek cluster health` names the unreachable "
            "voters. If a majority runs, their logs say why they elect none."
        ),
    ),
)
ACTIVE_BROKERS = gauge(_CONTROLLER + "ActiveBrokerCount", "brokers", "Registered brokers that are not fenced.")
FENCED_BROKERS = gauge(
    _CONTROLLER + "FencedBrokerCount",
    "brokers",
    "Registered brokers that are fenced: dead, starting or stopping.",
    Alert(
        name="FencedBrokers",
        expression="max by (job) (kafka_controller_kafkacontroller_fencedbrokercount) > 0",
        for_seconds=60,
        severity=Severity.WARNING,
        summary=(
            "Fenced brokers of {{ $labels.job }}: {{ $value }}. They are dead, stuck, or cannot reach the controller."
        ),
        action=(
            "`odradek cluster health` names them. Start the dead ones. If such a broker runs, its log says what "
            "it waits for. Unregister a broker that is gone permanently, after its replicas were moved: `kafka-cluster "
            "unregister`."
        ),
    ),
)
STOPPING_BROKERS = gauge(_CONTROLLER + "ControlledShutdownBrokerCount", "brokers", "Brokers in a controlled shutdown.")
TOPICS = gauge(_CONTROLLER + "GlobalTopicCount", "topics", "Topics of the cluster.")
PARTITIONS = gauge(_CONTROLLER + "GlobalPartitionCount", "partitions", "Partitions of the cluster.")
OFFLINE_PARTITIONS = gauge(
    _CONTROLLER + "OfflinePartitionsCount",
    "partitions",
    "Partitions without a leader: they can be neither written nor read.",
    Alert(
        name="OfflinePartitions",
        expression="max by (job) (kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        for_seconds=30,
        severity=Severity.CRITICAL,
        summary="Partitions of {{ $labels.job }} without a leader: {{ $value }}. Nothing is written or read there.",
        action=(
            "`odradek cluster health` names the partitions and the brokers that have their replicas: start one of "
            "them. If all in-sync replicas are lost permanently, `odradek cluster elect --unclean` elects another "
            "replica, and records that it lacks are lost."
        ),
    ),
)
IMBALANCE = gauge(
    _CONTROLLER + "PreferredReplicaImbalanceCount", "partitions", "Partitions not led by their first replica."
)
METADATA_ERRORS = gauge(_CONTROLLER + "MetadataErrorCount", "errors", "1 after the metadata log failed.")
CONTROLLER_APPLIED = gauge(
    _CONTROLLER + "LastAppliedRecordOffset", "offset", "The last metadata record that this controller has applied."
)
CONTROLLER_COMMITTED = gauge(
    _CONTROLLER + "LastCommittedRecordOffset", "offset", "The last metadata record known to be committed."
)
CONTROLLER_CHANGES = gauge(
    _CONTROLLER + "NewActiveControllersCount", "changes", "Changes of the active controller since this node started."
)
TIMED_OUT_HEARTBEATS = gauge(
    _CONTROLLER + "TimedOutBrokerHeartbeatCount", "brokers", "Brokers fenced because their session timed out."
)
DECISIONS = gauge(
    _CONTROLLER + "EventQueueOperationsStartedCount", "decisions", "Decisions of this node as active controller."
)
DECISION_TIME = histogram(
    "kafka.controller:type=ControllerEventManager,name=EventQueueProcessingTimeMs",
    "ms",
    "How long a decision of the active controller took, before its commit.",
    scale=_MS_OF_NS,
)
REGISTRATION_STATE = gauge(
    _CONTROLLER + "BrokerRegistrationState",
    "state",
    "10: fenced, 20: controlled shutdown, 30: active.",
    labels=("broker",),
)
HEARTBEAT_AGE = gauge(
    _CONTROLLER + "TimeSinceLastHeartbeatReceivedMs",
    "ms",
    "On the active controller: the time since the last heartbeat of a broker; 0 if it is fenced.",
    labels=("broker",),
)
UNCLEAN_ELECTIONS = meter(
    _STATS + "UncleanLeaderElectionsPerSec",
    "elections",
    "Elections of a replica that may lack committed records.",
    Alert(
        name="UncleanElections",
        expression="increase(kafka_controller_controllerstats_uncleanleaderelections_total[15m]) > 0",
        for_seconds=0,
        severity=Severity.CRITICAL,
        summary="A replica that may lack acknowledged records was elected leader: records may be lost.",
        action=(
            "The log of the active controller names the partitions and their new leaders. If the last in-sync replica "
            "of a partition was killed and is back, it lacks only what its machine had not written to disk. Otherwise "
            "compare what producers have sent with what consumers can read. To prevent it, use three replicas, and "
            "unclean.leader.election.enable=false."
        ),
    ),
)
ELR_ELECTIONS = meter(
    _STATS + "ElectionFromEligibleLeaderReplicasPerSec",
    "elections",
    "Elections of a replica outside the ISR that has all committed records (KIP-966).",
)
