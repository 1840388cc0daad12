"""Runs the monitor: one thread for each cluster, and HTTP in the foreground."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from odradek.monitor.registry import Registry
from odradek.watch.alerting import Alerting
from odradek.watch.burrow_api import BurrowApi
from odradek.watch.lag_metrics import measure_lag
from odradek.watch.settings import MonitorSettings
from odradek.watch.watched_cluster import WatchedCluster
from odradek.web.application import application
from odradek.web.monitoring import fresh_snapshot, monitoring_routes
from odradek.web.process_metrics import measure_process
from odradek.web.server import HttpServer

OBJECTS_PER_COLLECTION = 50_000


def serve(settings: MonitorSettings, on_ready: Callable[[str], None]) -> None:
    """Until SIGINT or SIGTERM. `on_ready` gets the URL."""
    # A second of commits makes thousands of short-lived tuples, but no cycles.
    gc.freeze()
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    clusters = [WatchedCluster(each, settings.lag) for each in settings.clusters]
    registry = Registry(time.monotonic_ns)
    measure_process(registry)
    measure_lag(registry, clusters, partitions=settings.partition_metrics)
    api = BurrowApi(settings, clusters)
    routes = [*api.routes(), *monitoring_routes(lambda: fresh_snapshot(registry))]
    alerting = Alerting(settings.alerts, registry, clusters) if settings.alerts.rules else None
    for cluster in clusters:
        cluster.start()
    if alerting is not None:
        alerting.start()
    try:
        HttpServer(application([*routes, api.fallback(routes)]), settings.host, settings.port).serve_forever(on_ready)
    finally:
        if alerting is not None:
            alerting.stop()
        for cluster in clusters:
            cluster.stop()
