"""Consumer lag, in `odradek monitor`."""

from __future__ import annotations

from odradek.monitor.metric import Alert, Kind, Metric, Severity

_GROUP = ("cluster", "consumer_group")
_PARTITION = (*_GROUP, "topic", "partition")

# Burrow's metrics. The first one is a gauge in spite of its name.
GROUP_LAG = Metric(
    name="burrow_kafka_consumer_lag_total",
    mbean="odradek.monitor:type=Lag,name=GroupLag",
    kind=Kind.GAUGE,
    unit="records",
    labels=_GROUP,
    help="Records after the committed offsets of a group, in all its partitions.",
)
GROUP_STATUS = Metric(
    name="burrow_kafka_consumer_status",
    mbean="odradek.monitor:type=Lag,name=GroupStatus",
    kind=Kind.GAUGE,
    unit="status",
    labels=_GROUP,
    help="Burrow's status of a group: 1 OK, 2 WARN (its lag never decreases), 3 ERR (stopped, stalled or rewound).",
    alerts=(
        Alert(
            name="ConsumerGroupStuck",
            expression="burrow_kafka_consumer_status == 3",
            for_seconds=300,
            severity=Severity.CRITICAL,
            summary="Group {{ $labels.consumer_group }} of {{ $labels.cluster }} has lag and makes no progress.",
            action=(
                "`odradek group lag {{ $labels.consumer_group }} --partitions` shows where. STOP: the consumer no "
                "longer commits; see `odradek group members {{ $labels.consumer_group }}` and its log, and restart it. "
                "If it is a query of Streams: it commits only after each micro-batch; see `odradek streams status`. "
                "STALL: it commits the same offset again; the record there may be one that it cannot process. REWIND: "
                "its offsets were reset."
            ),
        ),
        Alert(
            name="ConsumerGroupFallsBehind",
            expression="burrow_kafka_consumer_status == 2",
            for_seconds=900,
            severity=Severity.WARNING,
            summary=(
                "Group {{ $labels.consumer_group }} of {{ $labels.cluster }} is slower than its input: its lag never "
                "decreases."
            ),
            action=(
                "`odradek group lag {{ $labels.consumer_group }}` shows the seconds behind and the trend. Add "
                "consumers, up to one per partition, then partitions. If only some partitions lag, look for a slow "
                "consumer or a frequent key."
            ),
        ),
    ),
)
GROUP_SECONDS = Metric(
    name="kafka_consumergroup_group_max_lag_seconds",
    mbean="odradek.monitor:type=Lag,name=GroupSeconds",
    kind=Kind.GAUGE,
    unit="seconds",
    labels=("cluster_name", "group"),
    keys=_GROUP,
    help="The time since the committed offset of a group was the log end, in the partition that is furthest behind.",
)
TOPIC_LAG = Metric(
    name="kafka_consumergroup_lag_sum",
    mbean="odradek.monitor:type=Lag,name=TopicLag",
    kind=Kind.GAUGE,
    unit="records",
    labels=("cluster", "consumergroup", "topic"),
    help="Records after the committed offsets of a group, in all partitions of a topic.",
)

# With partition-metrics = true.
PARTITION_LAG = Metric(
    name="burrow_kafka_consumer_partition_lag",
    mbean="odradek.monitor:type=Lag,name=PartitionLag",
    kind=Kind.GAUGE,
    unit="records",
    labels=_PARTITION,
    help="Records after the committed offset of a group in a partition.",
)
PARTITION_OFFSET = Metric(
    name="burrow_kafka_consumer_current_offset",
    mbean="odradek.monitor:type=Lag,name=PartitionOffset",
    kind=Kind.GAUGE,
    unit="offset",
    labels=_PARTITION,
    help="The committed offset of a group, for partitions whose window of commits is full.",
)
PARTITION_STATUS = Metric(
    name="burrow_kafka_topic_partition_status",
    mbean="odradek.monitor:type=Lag,name=PartitionStatus",
    kind=Kind.GAUGE,
    unit="status",
    labels=_PARTITION,
    help="Burrow's status of a partition whose window is full: 1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND.",
)
TOPIC_OFFSET = Metric(
    name="burrow_kafka_topic_partition_offset",
    mbean="odradek.monitor:type=Lag,name=LogEnd",
    kind=Kind.GAUGE,
    unit="offset",
    labels=("cluster", "topic", "partition"),
    help="The log end of a partition.",
)

# The monitor itself.
COMMITS_READ = Metric(
    name="odradek_monitor_lag_commitsread_total",
    mbean="odradek.monitor:type=Lag,name=CommitsRead",
    kind=Kind.COUNTER,
    unit="commits",
    labels=("cluster",),
    help="Committed offsets that the monitor has read from __consumer_offsets.",
)
CLUSTER_REACHABLE = Metric(
    name="odradek_monitor_lag_reachable",
    mbean="odradek.monitor:type=Lag,name=Reachable",
    kind=Kind.GAUGE,
    unit="clusters",
    labels=("cluster",),
    help="1 if the monitor can read from the cluster; otherwise 0, and the lag of its groups is out of date.",
    alerts=(
        Alert(
            name="MonitoredClusterUnreachable",
            expression="odradek_monitor_lag_reachable == 0",
            for_seconds=60,
            severity=Severity.CRITICAL,
            summary="The monitor cannot read from cluster {{ $labels.cluster }}: the lag of its groups is out of date.",
            action=(
                "If the cluster answers `odradek cluster health` on the machine of the monitor, the log of `odradek "
                "monitor` says what fails. Check `servers` and `client` in its file."
            ),
        ),
    ),
)
