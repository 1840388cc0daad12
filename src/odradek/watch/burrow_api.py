"""Burrow's HTTP API, with its paths, JSON and errors, for the tools and dashboards that people have for it."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route

from odradek.watch.burrow_json import Json, group_json, missing_group_json, windows_json
from odradek.watch.cluster_client import NOBODYS_GROUP, OFFSETS_TOPIC
from odradek.watch.settings import MonitorSettings
from odradek.watch.watched_cluster import WatchedCluster

Endpoint = Callable[[Request], Awaitable[Response]]

# What clients may send, and what Burrow calls the level afterwards.
LEVELS = {
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
}
LEVEL_NAMES = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warn",
    logging.ERROR: "error",
    logging.CRITICAL: "fatal",
}


class BurrowApi:
    def __init__(self, settings: MonitorSettings, clusters: Sequence[WatchedCluster]) -> None:
        self._settings = settings
        self._clusters: Mapping[str, WatchedCluster] = {cluster.name: cluster for cluster in clusters}
        self._host = socket.gethostname()
        self._headers = (
            {"Access-Control-Allow-Origin": settings.access_control_allow_origin}
            if settings.access_control_allow_origin
            else {}
        )

    def routes(self) -> list[BaseRoute]:
        group = "/v3/kafka/{cluster}/consumer/{group}"
        routes: list[BaseRoute] = [
            Route("/burrow/admin", self._admin),
            Route("/burrow/admin/ready", self._ready),
            Route("/v3/kafka", self._cluster_list),
            Route("/v3/kafka/{cluster}", self._cluster_detail),
            Route("/v3/kafka/{cluster}/topic", self._topic_list),
            Route("/v3/kafka/{cluster}/topic/{topic}", self._topic_detail),
            Route("/v3/kafka/{cluster}/topic/{topic}/consumers", self._topic_consumers),
            Route("/v3/kafka/{cluster}/consumer", self._consumer_list),
            Route(group, self._consumer_detail),
            Route(f"{group}/status", self._consumer_status),
            Route(f"{group}/lag", self._consumer_lag),
            Route(group, self._consumer_delete, methods=["DELETE"]),
            Route(f"{group}/topic/{{topic}}", self._consumer_delete, methods=["DELETE"]),
            Route("/v3/config", self._config),
            Route("/v3/config/cluster", self._modules("cluster", list(self._clusters))),
            Route("/v3/config/cluster/{cluster}", self._cluster_detail),
            Route("/v3/config/consumer", self._modules("consumer", list(self._clusters))),
            Route("/v3/config/consumer/{name}", self._consumer_module),
            Route("/v3/config/storage", self._modules("storage", ["default"])),
            Route("/v3/config/storage/{name}", self._storage_module),
            Route("/v3/config/evaluator", self._modules("evaluator", ["default"])),
            Route("/v3/config/evaluator/{name}", self._evaluator_module),
            Route("/v3/config/notifier", self._modules("notifier", [])),
            Route("/v3/config/notifier/{name}", self._notifier_module),
            Route("/v3/admin/loglevel", self._log_level),
            Route("/v3/admin/loglevel", self._set_log_level, methods=["POST"]),
        ]
        return routes

    @staticmethod
    def fallback(routes: Sequence[BaseRoute]) -> BaseRoute:
        """Answers requests that match no route as Burrow does."""

        async def endpoint(request: Request) -> Response:
            path = request.scope["path"]
            if path.endswith("/") and any(isinstance(each, Route) and each.path == path[:-1] for each in routes):
                return RedirectResponse(path[:-1], 301)
            if any(each.matches(request.scope)[0] is Match.PARTIAL for each in routes):
                return PlainTextResponse("Method Not Allowed\n", 405)
            return PlainTextResponse('{"error":true,"message":"invalid request type","result":{}}\n', 404)

        return Route("/{path:path}", endpoint, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])

    # Answers

    def _about(self, request: Request) -> Json:
        return {"url": request.scope["path"], "host": self._host}

    def _reply(self, request: Request, message: str, body: Mapping[str, object], status: int = 200) -> Response:
        about = {"error": False, "message": message, **body, "request": self._about(request)}
        return JSONResponse(about, status, headers=self._headers)

    def _error(self, request: Request, message: str, status: int = 404) -> Response:
        about = {"error": True, "message": message, "request": self._about(request)}
        return JSONResponse(about, status, headers=self._headers)

    def _cluster(self, request: Request) -> WatchedCluster | None:
        return self._clusters.get(request.path_params["cluster"])

    # Health

    async def _admin(self, _: Request) -> Response:
        return PlainTextResponse("GOOD", headers=self._headers)

    async def _ready(self, _: Request) -> Response:
        is_ready = all(cluster.is_ready for cluster in self._clusters.values())
        return PlainTextResponse("READY" if is_ready else "STARTING", 200 if is_ready else 503, headers=self._headers)

    # Clusters, topics and groups

    async def _cluster_list(self, request: Request) -> Response:
        return self._reply(request, "cluster list returned", {"clusters": list(self._clusters)})

    async def _cluster_detail(self, request: Request) -> Response:
        cluster = self._cluster(request)
        if cluster is None:
            return self._error(request, "cluster module not found")
        module = {
            "class-name": "kafka",
            "servers": cluster.settings.servers.split(","),
            "client-profile": _CLIENT_PROFILE,
            "topic-refresh": cluster.settings.topic_refresh_s,
            "offset-refresh": cluster.settings.offset_refresh_s,
        }
        return self._reply(request, "cluster module detail returned", {"module": module})

    async def _topic_list(self, request: Request) -> Response:
        cluster = self._cluster(request)
        if cluster is None:
            return self._error(request, "cluster not found")
        return self._reply(request, "topic list returned", {"topics": cluster.topics()})

    async def _topic_detail(self, request: Request) -> Response:
        cluster = self._cluster(request)
        ends = None if cluster is None else cluster.ends(request.path_params["topic"])
        if ends is None:
            return self._error(request, "cluster or topic not found")
        return self._reply(request, "topic offsets returned", {"offsets": ends})

    async def _topic_consumers(self, request: Request) -> Response:
        cluster = self._cluster(request)
        if cluster is None:
            return self._error(request, "cluster not found")
        groups = cluster.groups_of(request.path_params["topic"])
        return self._reply(request, "consumers of topic returned", {"consumers": groups})

    async def _consumer_list(self, request: Request) -> Response:
        cluster = self._cluster(request)
        if cluster is None:
            return self._error(request, "cluster not found")
        return self._reply(request, "consumer list returned", {"consumers": cluster.groups()})

    async def _consumer_detail(self, request: Request) -> Response:
        cluster = self._cluster(request)
        found = None if cluster is None else cluster.evaluate(request.path_params["group"])
        if found is None:
            return self._error(request, "cluster or consumer not found")
        topics = windows_json(found, self._settings.lag.intervals)
        return self._reply(request, "consumer detail returned", {"topics": topics})

    async def _consumer_status(self, request: Request) -> Response:
        return self._evaluated(request, only_bad=True)

    async def _consumer_lag(self, request: Request) -> Response:
        return self._evaluated(request, only_bad=False)

    def _evaluated(self, request: Request, *, only_bad: bool) -> Response:
        name, group = request.path_params["cluster"], request.path_params["group"]
        cluster = self._clusters.get(name)
        found = None if cluster is None else cluster.evaluate(group)
        status = missing_group_json(name, group) if found is None else group_json(name, found, only_bad=only_bad)
        return self._reply(request, "consumer status returned", {"status": status}, 404 if found is None else 200)

    async def _consumer_delete(self, request: Request) -> Response:
        cluster = self._cluster(request)
        if cluster is not None:
            cluster.forget(request.path_params["group"], request.path_params.get("topic"))
        return self._reply(request, "consumer group removed", {})

    # Configuration

    def _modules(self, coordinator: str, names: Sequence[str]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            body = {"coordinator": coordinator, "modules": list(names)}
            return self._reply(request, "module list returned", body)

        return endpoint

    async def _config(self, request: Request) -> Response:
        address = f"{self._settings.host}:{self._settings.port}"
        body = {
            "general": {
                "pidfile": "",
                "stdout-logfile": "",
                "access-control-allow-origin": self._settings.access_control_allow_origin,
            },
            "logging": {
                "filename": "",
                "max-size": 0,
                "max-backups": 0,
                "max-age": 0,
                "use-local-time": False,
                "use-compression": False,
                "level": _level_name(),
            },
            "zookeeper": {"servers": [], "timeout": 0, "root-path": ""},
            "httpserver": {"default": {"address": address, "tls": "", "timeout": 0}},
        }
        return self._reply(request, "main config returned", body)

    async def _storage_module(self, request: Request) -> Response:
        if request.path_params["name"] != "default":
            return self._error(request, "storage module not found")
        lag = self._settings.lag
        module = {
            "class-name": "inmemory",
            "intervals": lag.intervals,
            "min-distance": lag.min_distance_s,
            "group-allowlist": "" if lag.group_allowlist is None else lag.group_allowlist.pattern,
            "expire-group": lag.expire_group_s,
        }
        return self._reply(request, "storage module detail returned", {"module": module})

    async def _evaluator_module(self, request: Request) -> Response:
        if request.path_params["name"] != "default":
            return self._error(request, "evaluator module not found")
        # Nothing is cached: each answer is evaluated when it is asked for.
        module = {"class-name": "caching", "expire-cache": 0}
        return self._reply(request, "evaluator module detail returned", {"module": module})

    async def _consumer_module(self, request: Request) -> Response:
        cluster = self._clusters.get(request.path_params["name"])
        if cluster is None:
            return self._error(request, "consumer module not found")
        allowlist = self._settings.lag.group_allowlist
        module = {
            "class-name": "kafka",
            "cluster": cluster.name,
            "servers": cluster.settings.servers.split(","),
            "group-allowlist": "" if allowlist is None else allowlist.pattern,
            "zookeeper-path": "",
            "zookeeper-timeout": 0,
            "client-profile": _CLIENT_PROFILE,
            "offsets-topic": OFFSETS_TOPIC,
            "start-latest": False,
        }
        return self._reply(request, "consumer module detail returned", {"module": module})

    async def _notifier_module(self, request: Request) -> Response:
        """Alerts are configured in another way than Burrow's notifiers, so there are no modules."""
        return self._error(request, "notifier module not found")

    # Administration

    async def _log_level(self, request: Request) -> Response:
        return self._reply(request, "log level returned", {"level": _level_name()})

    async def _set_log_level(self, request: Request) -> Response:
        try:
            wanted = json.loads(await request.body())
            level = str(wanted.get("level", "")).lower()
        except (ValueError, AttributeError):
            return self._error(request, "could not decode message body", 400)
        if level not in LEVELS:
            return self._error(request, "unknown log level")
        logging.getLogger().setLevel(LEVELS[level])
        return self._reply(request, "set log level", {})


# Only the fields that Burrow shows, and no secrets.
_CLIENT_PROFILE: Json = {"name": "", "client-id": NOBODYS_GROUP, "kafka-version": "", "tls": None, "sasl": None}


def _level_name() -> str:
    return LEVEL_NAMES.get(logging.getLogger().getEffectiveLevel(), "info")
