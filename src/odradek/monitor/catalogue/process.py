"""The process."""

from __future__ import annotations

from odradek.monitor.metric import Alert, Kind, Metric, Severity

CPU_SECONDS = Metric(
    name="process_cpu_seconds_total",
    mbean="java.lang:type=OperatingSystem",
    attribute="ProcessCpuTime",
    kind=Kind.COUNTER,
    unit="seconds",
    mbean_scale=1_000_000_000,
    help="CPU time of the process, user and system. The MBean attribute is in nanoseconds.",
)
RESIDENT_BYTES = Metric(
    name="process_resident_memory_bytes",
    mbean="odradek.process:type=Memory",
    attribute="ResidentBytes",
    kind=Kind.GAUGE,
    unit="bytes",
    help="Resident memory of the process.",
)
START_TIME = Metric(
    name="process_start_time_seconds",
    mbean="java.lang:type=Runtime",
    attribute="StartTime",
    kind=Kind.GAUGE,
    unit="seconds",
    mbean_scale=1_000,
    help="When the process started, since 1970. The MBean attribute is in milliseconds.",
)
OPEN_FILES = Metric(
    name="process_open_fds",
    mbean="java.lang:type=OperatingSystem",
    attribute="OpenFileDescriptorCount",
    kind=Kind.GAUGE,
    unit="descriptors",
    help="Open file descriptors.",
    alerts=(
        Alert(
            name="FileDescriptorsRunOut",
            expression="process_open_fds / process_max_fds > 0.8",
            for_seconds=300,
            severity=Severity.WARNING,
            summary=(
                "{{ $labels.instance }} uses more than 80 % of its file descriptors. Without a free one it accepts "
                "no connections."
            ),
            action=(
                "Raise the limit (`ulimit -n`, LimitNOFILE= of systemd) and restart the process. A broker uses at most "
                "half of them for its logs. Most others are connections: look for a client that opens too many."
            ),
        ),
    ),
)
MAX_FILES = Metric(
    name="process_max_fds",
    mbean="java.lang:type=OperatingSystem",
    attribute="MaxFileDescriptorCount",
    kind=Kind.GAUGE,
    unit="descriptors",
    help="File descriptors that the process may open (ulimit -n).",
)
