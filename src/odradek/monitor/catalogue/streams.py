"""Streams applications.

Where Kafka Streams has a metric with the same meaning, its name is used: a query of Spark is a stream thread there, and
`thread_id` is the name of its consumer group, `<application>.<query>`.
"""

from __future__ import annotations

from odradek.monitor.metric import Alert, Kind, Metric, Severity

QUERY = ("application", "query")
VIEW = ("application", "view")

APPLICATION_STATE = Metric(
    name="kafka_streams_stream_metrics_state_info",
    mbean="kafka.streams:type=stream-metrics",
    attribute="state",
    kind=Kind.STATE,
    unit="state",
    help="CREATED while queries start, RUNNING, ERROR after a failure of a query, or NOT_RUNNING.",
    labels=("client_id",),
    keys=("client-id",),
)
ALIVE = Metric(
    name="kafka_streams_stream_metrics_alive_stream_threads",
    mbean="kafka.streams:type=stream-metrics",
    attribute="alive-stream-threads",
    kind=Kind.GAUGE,
    unit="queries",
    help="Queries that run.",
    labels=("client_id",),
    keys=("client-id",),
)
FAILED = Metric(
    name="kafka_streams_stream_metrics_failed_stream_threads",
    mbean="kafka.streams:type=stream-metrics",
    attribute="failed-stream-threads",
    kind=Kind.GAUGE,
    unit="queries",
    help="Queries that failed.",
    labels=("client_id",),
    keys=("client-id",),
)
PROCESSED = Metric(
    name="kafka_streams_stream_thread_metrics_process_total",
    mbean="kafka.streams:type=stream-thread-metrics",
    attribute="process-total",
    kind=Kind.COUNTER,
    unit="records",
    help="Records that the query has processed since the process started.",
    labels=("thread_id",),
    keys=("thread-id",),
)
DROPPED = Metric(
    name="kafka_streams_stream_task_metrics_dropped_records_total",
    mbean="kafka.streams:type=stream-task-metrics",
    attribute="dropped-records-total",
    kind=Kind.COUNTER,
    unit="records",
    help="Rows that came too late for their window or join. The engine counts them since the state directory was made, "
    "Spark's own operators since the process started.",
    labels=("thread_id",),
    keys=("thread-id",),
)

STATE = Metric(
    name="odradek_streams_query_state",
    mbean="odradek.streams:type=Query,name=State",
    kind=Kind.STATE,
    unit="state",
    help="starting, waiting (for records), working, stopped or failed.",
    labels=QUERY,
)
BATCHES = Metric(
    name="odradek_streams_query_batches_total",
    mbean="odradek.streams:type=Query,name=Batches",
    kind=Kind.COUNTER,
    unit="batches",
    help="Micro-batches with records.",
    labels=QUERY,
)
BATCH_MS = Metric(
    name="odradek_streams_query_batchtimems",
    mbean="odradek.streams:type=Query,name=BatchTimeMs",
    kind=Kind.HISTOGRAM,
    unit="ms",
    help="How long a micro-batch took.",
    labels=QUERY,
)
PLANNING_MS = Metric(
    name="odradek_streams_query_planningtimems",
    mbean="odradek.streams:type=Query,name=PlanningTimeMs",
    kind=Kind.HISTOGRAM,
    unit="ms",
    help="How long Spark planned a micro-batch.",
    labels=QUERY,
)
EXECUTION_MS = Metric(
    name="odradek_streams_query_executiontimems",
    mbean="odradek.streams:type=Query,name=ExecutionTimeMs",
    kind=Kind.HISTOGRAM,
    unit="ms",
    help="How long Spark executed a micro-batch.",
    labels=QUERY,
)
INPUT_RATE = Metric(
    name="odradek_streams_query_inputrowspersecond",
    mbean="odradek.streams:type=Query,name=InputRowsPerSecond",
    kind=Kind.GAUGE,
    unit="records/second",
    help="How fast records arrive, by the last micro-batch.",
    labels=QUERY,
)
PROCESSING_RATE = Metric(
    name="odradek_streams_query_processedrowspersecond",
    mbean="odradek.streams:type=Query,name=ProcessedRowsPerSecond",
    kind=Kind.GAUGE,
    unit="records/second",
    help="How fast the query processes records while it works, by the last micro-batch.",
    labels=QUERY,
)
KEEPS_UP = Metric(
    name="odradek_streams_query_keepsup",
    mbean="odradek.streams:type=Query,name=KeepsUp",
    kind=Kind.GAUGE,
    unit="1 or 0",
    help="1 if the query processes records as fast as they arrive, by its micro-batches of the last minute.",
    labels=QUERY,
    alerts=(
        Alert(
            name="StreamsQueryCannotKeepUp",
            expression="odradek_streams_query_keepsup == 0",
            for_seconds=300,
            severity=Severity.WARNING,
            summary="{{ $labels.application }}.{{ $labels.query }} is slower than its input and falls behind.",
            action=(
                "`odradek streams status {{ $labels.application }}` shows which part of a micro-batch takes the time. "
                "Make slow functions faster, or give the application more cores, or its topics more partitions."
            ),
        ),
    ),
)
SECONDS_BEHIND = Metric(
    name="odradek_streams_query_secondsbehind",
    mbean="odradek.streams:type=Query,name=SecondsBehind",
    kind=Kind.GAUGE,
    unit="seconds",
    help="Age of the oldest record that the query has not processed. Measured after a scrape, for the next one.",
    labels=QUERY,
    alerts=(
        Alert(
            name="StreamsQueryBehind",
            expression="odradek_streams_query_secondsbehind > 60",
            for_seconds=300,
            severity=Severity.WARNING,
            summary="The results of {{ $labels.application }}.{{ $labels.query }} are more than a minute old.",
            action=(
                "`odradek streams status {{ $labels.application }}` shows whether the query runs and how fast it "
                "catches up. After a stop this ends by itself. If StreamsQueryCannotKeepUp fires too, it does not."
            ),
        ),
    ),
)
RECORDS_BEHIND = Metric(
    name="odradek_streams_query_recordsbehind",
    mbean="odradek.streams:type=Query,name=RecordsBehind",
    kind=Kind.GAUGE,
    unit="records",
    help="Records that the query has not processed, by topic. Measured as SecondsBehind.",
    labels=(*QUERY, "topic"),
)
STATE_ROWS = Metric(
    name="odradek_streams_query_staterows",
    mbean="odradek.streams:type=Query,name=StateRows",
    kind=Kind.GAUGE,
    unit="rows",
    help="Rows of the state that the query keeps.",
    labels=QUERY,
)
STATE_BYTES = Metric(
    name="odradek_streams_query_statebytes",
    mbean="odradek.streams:type=Query,name=StateBytes",
    kind=Kind.GAUGE,
    unit="bytes",
    help="Size of this state.",
    labels=QUERY,
)
DEAD_LETTERS = Metric(
    name="odradek_streams_application_deadletters_total",
    mbean="odradek.streams:type=Application,name=DeadLetters",
    kind=Kind.COUNTER,
    unit="records",
    help="The end offsets of the dead letter topic: at least the records that were ever written to it. With exactly "
    "once they also count one marker per transaction and partition, and the records of aborted transactions; the "
    "console counts only records. Measured as SecondsBehind.",
    labels=("application", "topic"),
    alerts=(
        Alert(
            name="StreamsDeadLetters",
            expression="increase(odradek_streams_application_deadletters_total[10m]) > 0",
            for_seconds=0,
            severity=Severity.WARNING,
            summary="{{ $labels.application }} could not process records, and wrote them to {{ $labels.topic }}.",
            action=(
                "`odradek consume {{ $labels.topic }} -o :` shows the records with their reasons. Correct the producer "
                "or the schema of the application."
            ),
        ),
    ),
)
RESTARTS = Metric(
    name="odradek_streams_application_restarts_total",
    mbean="odradek.streams:type=Application,name=Restarts",
    kind=Kind.COUNTER,
    unit="restarts",
    help="How often the application was started again since its state directory was made.",
    labels=("application",),
    alerts=(
        Alert(
            name="StreamsApplicationRestarts",
            expression="increase(odradek_streams_application_restarts_total[30m]) > 2",
            for_seconds=0,
            severity=Severity.WARNING,
            summary="{{ $labels.application }} was restarted more than twice within 30 minutes.",
            action=(
                "The log of the application has the error that ended it. `odradek streams status {{ "
                "$labels.application }}` shows the last error of each query."
            ),
        ),
    ),
)

# `odradek streams views`

VIEW_FOLLOWS = Metric(
    name="odradek_streams_view_follows",
    mbean="odradek.streams:type=View,name=Follows",
    kind=Kind.GAUGE,
    unit="views",
    help="1 if a served view has read its topic to the end and follows it; 0 while it loads or waits for the topic.",
    labels=VIEW,
)
VIEW_CHANGES = Metric(
    name="odradek_streams_view_changes_total",
    mbean="odradek.streams:type=View,name=Changes",
    kind=Kind.COUNTER,
    unit="changes",
    help="Offsets of its topic that a served view has read, in all partitions, ever.",
    labels=VIEW,
)
VIEW_BYTES = Metric(
    name="odradek_streams_view_storebytes",
    mbean="odradek.streams:type=View,name=StoreBytes",
    kind=Kind.GAUGE,
    unit="bytes",
    help="Size of the store of a served view on disk.",
    labels=VIEW,
)
