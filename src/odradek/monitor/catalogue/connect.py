"""Connectors and their tasks.

Under the names of Kafka Connect. The active service of a group has the metrics of all connectors. Numbers of a task
begin at 0 when a service becomes active, and include all runs of the task.
"""

from __future__ import annotations

from odradek.monitor.declaring import counter, gauge, state
from odradek.monitor.metric import Alert, Metric, Severity

_WORKER = "kafka.connect:type=connect-worker-metrics"
_CONNECTOR = "kafka.connect:type=connector-metrics"
_TASK = "kafka.connect:type=connector-task-metrics"
_SOURCE = "kafka.connect:type=source-task-metrics"
_SINK = "kafka.connect:type=sink-task-metrics"
_ERRORS = "kafka.connect:type=task-error-metrics"
_OF_CONNECTOR = ("connector",)
_OF_TASK = ("connector", "task")


def _tasks(status: str, meaning: str, *alerts: Alert) -> Metric:
    return gauge(_WORKER, "tasks", meaning, *alerts, attribute=f"connector-{status}-task-count", labels=_OF_CONNECTOR)


ACTIVE = gauge(
    "odradek.connect:type=Service,name=Active",
    "services",
    "1 on the active service of a group, 0 on services that stand by.",
    Alert(
        name="NoActiveConnectService",
        expression="max by (job) (odradek_connect_service_active) < 1",
        for_seconds=60,
        severity=Severity.CRITICAL,
        summary="No connect service of {{ $labels.job }} is active, so no connector runs.",
        action=(
            "Start a service with `odradek connect serve`. If services run, their logs say why none becomes active: "
            "each must reach the cluster and use the same group."
        ),
    ),
)
CONNECTORS = gauge(_WORKER, "connectors", "Connectors of the group.", attribute="connector-count")
TASKS = gauge(_WORKER, "tasks", "Tasks of all connectors.", attribute="task-count")
TOTAL_TASKS = _tasks("total", "Tasks of a connector.")
RUNNING_TASKS = _tasks("running", "Tasks that run, or wait for data without using Spark.")
PAUSED_TASKS = _tasks("paused", "Paused tasks.")
UNASSIGNED_TASKS = _tasks("unassigned", "Tasks that wait for a slot of Spark.")
RESTARTING_TASKS = _tasks("restarting", "Tasks that failed and will be started again.")
FAILED_TASKS = _tasks(
    "failed",
    "Tasks that failed and were given up.",
    Alert(
        name="ConnectorTaskFailed",
        expression="kafka_connect_connect_worker_metrics_connector_failed_task_count > 0",
        for_seconds=0,
        severity=Severity.CRITICAL,
        summary="Failed tasks of the connector {{ $labels.connector }}: {{ $value }}. They are not started again.",
        action=(
            "`odradek connect status {{ $labels.connector }}` and `odradek connect logs {{ $labels.connector }}` show "
            "the error. After it is mended: `odradek connect restart {{ $labels.connector }}`."
        ),
    ),
)
CONNECTOR_STATUS = state(
    _CONNECTOR,
    "running, paused, stopped, failed, unassigned or restarting.",
    attribute="status",
    labels=_OF_CONNECTOR,
)
CONNECTOR_TYPE = state(_CONNECTOR, "source or sink.", attribute="connector-type", labels=_OF_CONNECTOR)
CONNECTOR_CLASS = state(_CONNECTOR, "The class of the connector.", attribute="connector-class", labels=_OF_CONNECTOR)
TASK_STATUS = state(_TASK, "The same as of connectors, for a task.", attribute="status", labels=_OF_TASK)
BATCH_SIZE_AVG = gauge(
    _TASK,
    "records",
    "Average size of the batches that the task processed in the last 30 to 60 seconds.",
    attribute="batch-size-avg",
    labels=_OF_TASK,
)
BATCH_SIZE_MAX = gauge(_TASK, "records", "The largest of these.", attribute="batch-size-max", labels=_OF_TASK)
POLLED = counter(
    _SOURCE, "records", "Records that the source produced.", attribute="source-record-poll-total", labels=_OF_TASK
)
POLLED_RATE = gauge(
    _SOURCE,
    "records/second",
    "The same, in the last 30 to 60 seconds.",
    attribute="source-record-poll-rate",
    labels=_OF_TASK,
)
WRITTEN = counter(
    _SOURCE,
    "records",
    "Records written to topics, after transforms and without dead letters.",
    attribute="source-record-write-total",
    labels=_OF_TASK,
)
WRITTEN_RATE = gauge(
    _SOURCE,
    "records/second",
    "The same, in the last 30 to 60 seconds.",
    attribute="source-record-write-rate",
    labels=_OF_TASK,
)
READ = counter(_SINK, "records", "Records read from topics.", attribute="sink-record-read-total", labels=_OF_TASK)
READ_RATE = gauge(
    _SINK,
    "records/second",
    "The same, in the last 30 to 60 seconds.",
    attribute="sink-record-read-rate",
    labels=_OF_TASK,
)
SENT = counter(
    _SINK,
    "records",
    "Records passed to the sink, after transforms.",
    attribute="sink-record-send-total",
    labels=_OF_TASK,
)
SENT_RATE = gauge(
    _SINK,
    "records/second",
    "The same, in the last 30 to 60 seconds.",
    attribute="sink-record-send-rate",
    labels=_OF_TASK,
)
SKIPPED = gauge(
    _ERRORS,
    "records",
    "Records that failed and were tolerated (errors.tolerance=all), dead letters included.",
    Alert(
        name="ConnectorRecordsSkipped",
        expression="increase(kafka_connect_task_error_metrics_total_records_skipped[10m]) > 0",
        for_seconds=0,
        severity=Severity.WARNING,
        summary=(
            "Task {{ $labels.task }} of {{ $labels.connector }} skips records that it cannot process "
            "(errors.tolerance=all)."
        ),
        action=(
            "With a dead-letter topic, `odradek connect dlq show TOPIC` shows the records with the reasons, and "
            "`odradek connect dlq redrive TOPIC` sends them again. Otherwise set errors.log.enable=true, and read "
            "`odradek connect logs {{ $labels.connector }}`."
        ),
    ),
    attribute="total-records-skipped",
    labels=_OF_TASK,
)
DEAD_LETTERS = gauge(
    _ERRORS,
    "records",
    "Records written to the dead-letter topic.",
    attribute="deadletterqueue-produce-requests",
    labels=_OF_TASK,
)
FAILURES = counter(
    "odradek.connect:type=Task,name=Failures",
    "failures",
    "Runs of the task that failed. After each but the last, the task is started again.",
    Alert(
        name="ConnectorTaskRestarts",
        expression="increase(odradek_connect_task_failures_total[30m]) > 2",
        for_seconds=0,
        severity=Severity.WARNING,
        summary=(
            "Task {{ $labels.task }} of {{ $labels.connector }} failed more than twice within 30 minutes and was "
            "started again."
        ),
        action=(
            "`odradek connect logs {{ $labels.connector }}` has the errors. Most often the other system is not "
            "reachable or refuses the login."
        ),
    ),
    labels=_OF_TASK,
)
SLOT_RETAINED = gauge(
    "odradek.connect:type=ReplicationSlot,name=RetainedBytes",
    "bytes",
    "Log that PostgreSQL keeps for the slot of a postgres-cdc connector.",
    Alert(
        name="ReplicationSlotHoldsLog",
        expression="odradek_connect_replicationslot_retainedbytes > 10e9",
        for_seconds=300,
        severity=Severity.WARNING,
        summary="PostgreSQL keeps {{ $value }} of its log for the connector {{ $labels.connector }}.",
        action=(
            "If the connector is paused, stopped or failed, resume it before PostgreSQL's disk is full. If it runs, it "
            "is slower than the changes, or one transaction in PostgreSQL is open for long (pg_stat_activity)."
        ),
    ),
    labels=_OF_CONNECTOR,
)
SLOT_LAG = gauge(
    "odradek.connect:type=ReplicationSlot,name=LagBytes",
    "bytes",
    "Log that was written after the last position that the connector has confirmed.",
    labels=_OF_CONNECTOR,
)
