"""The metrics of an application that runs in the foreground: where they are served and pushed."""

from __future__ import annotations

import os
import socket
import time

from odradek.export.destinations import BadDestination, Destinations, Identity, parse_dogstatsd, parse_otlp
from odradek.export.exporting import HOST, PORT, ProcessMetrics
from odradek.monitor.registry import Registry
from odradek.pipeline.errors import StreamsError
from odradek.pipeline.layout import Layout
from odradek.pipeline.metering import Metering
from odradek.streams.graph.application import Application
from odradek.streams.graph.settings import Settings
from odradek.streams.graph.sinks import DeadLetters
from odradek.web.process_metrics import measure_process

OFF = "off"


def measured(app: Application, settings: Settings) -> tuple[ProcessMetrics, Metering]:
    """Not started."""
    registry = Registry(time.monotonic_ns)
    measure_process(registry)
    letters = sorted({sink.topic for sink in app.graph.sinks if isinstance(sink, DeadLetters)})
    metering = Metering(registry, Layout(settings.state_dir, app.name), letters)
    try:
        destinations = Destinations(
            otlp=parse_otlp(settings.otlp) if settings.otlp else None,
            dogstatsd=parse_dogstatsd(settings.dogstatsd) if settings.dogstatsd else None,
        )
    except BadDestination as wrong:
        raise StreamsError(str(wrong)) from wrong
    metrics = ProcessMetrics(
        registry,
        Identity(service=app.name, instance=f"{socket.gethostname()}:{os.getpid()}"),
        address=_address(settings.metrics),
        is_default=settings.metrics is None,
        destinations=destinations,
    )
    return metrics, metering


def _address(said: str | None) -> tuple[str, int] | None:
    if said is None:
        return HOST, PORT
    if said == OFF:
        return None
    host, colon, port = said.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise StreamsError(f"{said!r} is not an address for metrics: write host:port, or off")
    return host, int(port)
