"""The routes of the REST API. Requests that wait for the steward run in a thread."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from odradek import __version__
from odradek.connect.catalogue import Catalogue
from odradek.connect.kafka_classes import PLUGIN_OF
from odradek.connect.plugins import CONNECTORS, BrokenPlugin, NoSuchPlugin, any_plugin, plugin
from odradek.connect.rest import loggers, shapes
from odradek.connect.rest.errors import ERRORS
from odradek.connect.rest.forwarding import Endpoint, to_the_active
from odradek.connect.service.requests import Refused, Requests
from odradek.connect.storage.configs import Target
from odradek.connect.validation import validated
from odradek.monitor.registry import Registry, Snapshot
from odradek.web.application import application
from odradek.web.monitoring import fresh_snapshot, monitoring_routes
from odradek.web.process_metrics import measure_process

T = TypeVar("T")

ALTERED = "The offsets for this connector have been altered successfully"
RESET = "The offsets for this connector have been reset successfully"
# Their routes have names of connectors, plug-ins and loggers.
_NAMED = (b"/connectors/", b"/connector-plugins/", b"/admin/loggers/")


class Api:
    """The endpoints. `cluster_id` is asked for once, when the service starts."""

    def __init__(self, requests: Requests, cluster_id: str, catalogue: Catalogue) -> None:
        self._requests = requests
        self._cluster_id = cluster_id
        self._catalogue = catalogue
        self._registry = Registry(time.monotonic_ns)
        measure_process(self._registry)

    def application(self) -> ASGIApp:
        return _undecoded(application(self._routes(), errors=ERRORS))

    def _routes(self) -> list[BaseRoute]:
        one = "/connectors/{name:str}"
        active = partial(to_the_active, self._requests)
        return [
            Route("/", self.root),
            Route("/health", self.health),
            Route("/connectors", self.list_connectors, methods=["GET"]),
            Route("/connectors", active(self.create), methods=["POST"]),
            Route(f"{one}/config", self.config, methods=["GET"]),
            Route(f"{one}/config", active(self.put_config), methods=["PUT"]),
            Route(f"{one}/config", active(self.patch_config), methods=["PATCH"]),
            Route(f"{one}/status", self.status),
            Route(f"{one}/pause", active(self._target(Target.PAUSED, 202)), methods=["PUT"]),
            Route(f"{one}/resume", active(self._target(Target.STARTED, 202)), methods=["PUT"]),
            Route(f"{one}/stop", active(self._target(Target.STOPPED, 204)), methods=["PUT"]),
            Route(f"{one}/restart", active(self.restart), methods=["POST"]),
            Route(f"{one}/tasks", self.tasks),
            Route(f"{one}/tasks/{{task:int}}/status", self.task_status),
            Route(f"{one}/tasks/{{task:int}}/restart", active(self.restart_task), methods=["POST"]),
            Route(f"{one}/topics", self.topics),
            Route(f"{one}/topics/reset", active(self.reset_topics), methods=["PUT"]),
            Route(f"{one}/offsets", self.offsets, methods=["GET"]),
            Route(f"{one}/offsets", active(self.alter_offsets), methods=["PATCH"]),
            Route(f"{one}/offsets", active(self.reset_offsets), methods=["DELETE"]),
            Route(f"{one}/logs", self.logs),
            Route(one, self.info, methods=["GET"]),
            Route(one, active(self.delete), methods=["DELETE"]),
            Route("/connector-plugins", self.list_plugins),
            Route("/connector-plugins/{plugin:str}/config", self.plugin_config),
            Route("/connector-plugins/{plugin:str}/config/validate", self.validate, methods=["PUT"]),
            Route("/admin/loggers", loggers.every),
            Route("/admin/loggers/{logger:str}", loggers.one, methods=["GET"]),
            Route("/admin/loggers/{logger:str}", loggers.change, methods=["PUT"]),
            *monitoring_routes(self._snapshot),
        ]

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[Snapshot]:
        of_connectors = await run_in_threadpool(self._requests.readings)
        async with fresh_snapshot(self._registry) as of_process:
            yield [*of_process, *of_connectors]

    # --- the service

    async def root(self, _: Request) -> Response:
        return JSONResponse({"version": __version__, "commit": "odradek", "kafka_cluster_id": self._cluster_id})

    async def health(self, _: Request) -> Response:
        try:
            await run_in_threadpool(self._requests.names)
        except TimeoutError:
            told = {"status": "unhealthy", "message": "the service does not answer requests in time"}
            return JSONResponse(told, 500)
        role = "active" if self._requests.is_active else "standing by"
        return JSONResponse({"status": "healthy", "message": f"the service is ready to handle requests; it is {role}"})

    # --- connectors

    async def list_connectors(self, request: Request) -> Response:
        wanted = request.query_params.getlist("expand")
        names = await run_in_threadpool(self._requests.names)
        if not wanted:
            return JSONResponse(names)
        if wrong := set(wanted) - {"status", "info"}:
            raise Refused(400, f"expand is {min(wrong)!r}, but it must be status or info")
        parts = {"status": self._requests.status, "info": self._requests.info}
        found: dict[str, dict[str, object]] = {}
        for name in names:
            try:
                found[name] = {part: await run_in_threadpool(parts[part], name) for part in wanted}
            except Refused:  # deleted meanwhile, or without a status yet
                continue
        return JSONResponse(found)

    async def create(self, request: Request) -> Response:
        name, config, target = shapes.new_connector(await shapes.json_object(request))
        info = await run_in_threadpool(self._requests.create, name, config, target)
        return JSONResponse(info, 201, {"location": f"/connectors/{quote(name, safe='')}"})

    async def info(self, request: Request) -> Response:
        return await _json(self._requests.info, _name(request))

    async def config(self, request: Request) -> Response:
        return await _json(self._requests.config, _name(request))

    async def put_config(self, request: Request) -> Response:
        given = shapes.texts(await shapes.json_object(request))
        name = shapes.checked_name(_name(request))
        is_new, info = await run_in_threadpool(self._requests.put_config, name, given)
        return JSONResponse(info, 201 if is_new else 200)

    async def patch_config(self, request: Request) -> Response:
        body = await shapes.json_object(request)
        changes: dict[str, str | None] = {name: None for name, value in body.items() if value is None}
        changes |= shapes.texts({name: value for name, value in body.items() if value is not None})
        return await _json(self._requests.patch_config, _name(request), changes)

    async def delete(self, request: Request) -> Response:
        await run_in_threadpool(self._requests.delete, _name(request))
        return Response(status_code=204)

    async def status(self, request: Request) -> Response:
        return await _json(self._requests.status, _name(request))

    async def tasks(self, request: Request) -> Response:
        return await _json(self._requests.tasks, _name(request))

    async def task_status(self, request: Request) -> Response:
        return await _json(self._requests.task_status, _name(request), request.path_params["task"])

    def _target(self, target: Target, status: int) -> Endpoint:
        async def change(request: Request) -> Response:
            await run_in_threadpool(self._requests.set_target, _name(request), target)
            return Response(status_code=status)

        return change

    async def restart(self, request: Request) -> Response:
        tasks, only_failed = _flag(request, "includeTasks"), _flag(request, "onlyFailed")
        status = await run_in_threadpool(
            lambda: self._requests.restart(_name(request), tasks=tasks, only_failed=only_failed)
        )
        return JSONResponse(status, 202) if tasks or only_failed else Response(status_code=204)

    async def restart_task(self, request: Request) -> Response:
        await run_in_threadpool(self._requests.restart_task, _name(request), request.path_params["task"])
        return Response(status_code=204)

    async def topics(self, request: Request) -> Response:
        name = _name(request)
        return JSONResponse({name: {"topics": await run_in_threadpool(self._requests.topics, name)}})

    async def reset_topics(self, request: Request) -> Response:
        await run_in_threadpool(self._requests.forget_topics, _name(request))
        return Response(status_code=202)

    async def logs(self, request: Request) -> Response:
        """Not part of Kafka Connect: the last log lines of the tasks."""
        return await _json(self._requests.logs, _name(request))

    # --- offsets

    async def offsets(self, request: Request) -> Response:
        return JSONResponse({"offsets": await run_in_threadpool(self._requests.offsets, _name(request))})

    async def alter_offsets(self, request: Request) -> Response:
        changes = shapes.offset_changes(await shapes.json_object(request))
        await run_in_threadpool(self._requests.alter_offsets, _name(request), changes)
        return JSONResponse({"message": ALTERED})

    async def reset_offsets(self, request: Request) -> Response:
        await run_in_threadpool(self._requests.reset_offsets, _name(request))
        return JSONResponse({"message": RESET})

    # --- plug-ins

    async def list_plugins(self, request: Request) -> Response:
        only_connectors = _flag(request, "connectorsOnly", default=True)
        named = _flag(request, "names")  # not part of Kafka Connect, whose plug-ins have no short names
        listed = await run_in_threadpool(self._catalogue.listed)
        return JSONResponse(
            [shapes.plugin_row(each, named=named) for each in listed if each.group == CONNECTORS or not only_connectors]
        )

    async def plugin_config(self, request: Request) -> Response:
        try:
            found = await run_in_threadpool(any_plugin, _name(request, "plugin"))
        except (NoSuchPlugin, BrokenPlugin) as missing:
            raise Refused(404, str(missing)) from None
        return JSONResponse(shapes.definitions(found))

    async def validate(self, request: Request) -> Response:
        given = shapes.texts(await shapes.json_object(request))
        wanted = _name(request, "plugin")
        try:
            found = await run_in_threadpool(plugin, given.get("connector.class", wanted))
        except (NoSuchPlugin, BrokenPlugin) as missing:
            raise Refused(500, str(missing)) from None
        names = (found.name, found.path, found.path.rpartition(".")[2])
        if wanted not in names and PLUGIN_OF.get(wanted) != found.name:
            raise Refused(400, f"Included connector type {found.path} does not match request type {wanted}")
        result = await run_in_threadpool(validated, {"connector.class": wanted, **given})
        return JSONResponse(shapes.validation(result))


def _undecoded(app: ASGIApp) -> ASGIApp:
    """Routes see the path as it was sent: a `/` in a name, which is sent as %2F, does not end the name."""

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["raw_path"].startswith(_NAMED):
            scope = {**scope, "path": scope["raw_path"].decode("ascii")}
        await app(scope, receive, send)

    return routed


def _name(request: Request, part: str = "name") -> str:
    return unquote(request.path_params[part])


def _flag(request: Request, name: str, *, default: bool = False) -> bool:
    text = request.query_params.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise Refused(400, f"{name} is {text!r}, but it must be true or false")
    return text == "true"


async def _json(function: Callable[..., Any], *arguments: object) -> Response:
    return JSONResponse(await run_in_threadpool(function, *arguments))
