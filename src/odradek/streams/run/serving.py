"""The materialised tables of an application over HTTP, with its picture and its status. Needs no Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from odradek.client.admin import Admin
from odradek.client.java_names import librdkafka_config
from odradek.monitor.catalogue import streams as catalogue
from odradek.monitor.registry import Registry
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.layout import Layout
from odradek.pipeline.status import status
from odradek.streams.graph.application import Application
from odradek.streams.graph.settings import Settings
from odradek.streams.graph.sinks import Materialize
from odradek.streams.run.drawing import draw
from odradek.streams.run.views import View
from odradek.streams.run.views.http import view_routes
from odradek.web.application import application
from odradek.web.errors import HttpError
from odradek.web.monitoring import fresh_snapshot, monitoring_routes
from odradek.web.process_metrics import measure_process
from odradek.web.server import HttpServer


def serve(app: Application, settings: Settings, host: str, port: int, *, on_ready: Callable[[str], None]) -> None:
    """Until a signal comes."""
    layout = Layout(settings.state_dir, app.name)
    config = librdkafka_config(settings.config)
    tables = [sink for sink in app.graph.sinks if isinstance(sink, Materialize)]
    if not tables:
        raise PipelineError(
            f"{app.name} has no view to serve",
            instead='.materialize("name", key="column") on a stream or table',
            origin=app.origin,
        )
    with ExitStack() as following:
        views = [
            # Beside those of a running application: a store has one follower.
            View(settings.bootstrap, sink.topic, layout.served_store(sink.view), name=sink.view, config=config)
            for sink in tables
        ]
        for view in views:
            following.enter_context(view)
        registry = _measured(app.name, views)
        routes = [
            *view_routes(views),
            *_about(app, layout, Admin(settings.bootstrap, config)),
            *monitoring_routes(lambda: fresh_snapshot(registry)),
        ]
        HttpServer(application(routes), host, port).serve_forever(on_ready)


def _measured(app: str, views: Sequence[View]) -> Registry:
    registry = Registry(time.monotonic_ns)
    measure_process(registry)
    for view in views:
        _measure(registry, view, app, view.name)
    return registry


def _measure(registry: Registry, view: View, *labels: str) -> None:
    registry.gauge(catalogue.VIEW_FOLLOWS, lambda: int(view.following), *labels)
    registry.gauge(catalogue.VIEW_CHANGES, lambda: view.changes_read, *labels)
    registry.gauge(catalogue.VIEW_BYTES, lambda: view.bytes_on_disk, *labels)


def _about(app: Application, layout: Layout, cluster: Admin) -> list[Route]:
    async def graph(_request: Request) -> Response:
        return Response(draw(app), media_type="image/svg+xml")

    async def how_it_does(_request: Request) -> Response:
        known = await run_in_threadpool(status, layout, cluster)
        if known is None:
            raise HttpError(404, "no status", f"{app.name} has not run from {layout.folder}")
        return JSONResponse(asdict(known))

    return [Route("/graph.svg", graph), Route("/status", how_it_does)]
