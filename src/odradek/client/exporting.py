"""export_metrics: the metrics of all open clients of this process, over HTTP or pushed."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping

from odradek.client.statistics import of_open_clients
from odradek.export.destinations import Destinations, Identity, parse_dogstatsd, parse_labels, parse_otlp
from odradek.export.exporting import HOST, PORT, ProcessMetrics
from odradek.monitor.registry import Registry
from odradek.web.process_metrics import measure_process


def export_metrics(
    host: str = HOST,
    port: int | None = None,
    *,
    http: bool = True,
    otlp: str | None = None,
    dogstatsd: str | None = None,
    service: str = "odradek-client",
    labels: Mapping[str, str] | None = None,
    every_s: float = 10.0,
) -> ProcessMetrics:
    """Serves /metrics until `stop()`, or inside a `with` block; `url` is its address. The port is 9464, or free.

    `otlp` ("http://collector:4318") and `dogstatsd` ("agent:8125", "unix:///path") also push the metrics, under the
    name `service` and with `labels`. With http=False they are only pushed.
    """
    registry = Registry(time.monotonic_ns)
    measure_process(registry)
    registry.source(of_open_clients)
    exported = ProcessMetrics(
        registry,
        Identity(service=service, instance=f"{socket.gethostname()}:{os.getpid()}"),
        address=(host, PORT if port is None else port) if http else None,
        is_default=port is None,
        destinations=Destinations(
            otlp=None if otlp is None else parse_otlp(otlp),
            dogstatsd=None if dogstatsd is None else parse_dogstatsd(dogstatsd),
            every_s=every_s,
            labels=parse_labels([f"{name}={value}" for name, value in (labels or {}).items()]),
        ),
    )
    exported.start()
    return exported
