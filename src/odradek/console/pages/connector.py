"""One connector: tasks with their errors, config, offsets and topics, dead letters, logs, and what changes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.client.wire import NoAnswer
from odradek.console.connectors.api import ACTION_S, ConnectApi, Declined, Silent
from odradek.console.connectors.letters import newest_letters
from odradek.console.connectors.reading import SINK, rate_figure
from odradek.console.connectors.seen import AT_REST, Connect, Connector, Service, connect_of
from odradek.console.frame import Console, Refused, not_found
from odradek.console.listing import Listing
from odradek.console.messages.query import BadQuery
from odradek.console.messages.reading import CannotRead
from odradek.console.messages.source import Source
from odradek.web.errors import HttpError

PATH = "/connect/{service}/{name:path}"
TASKS, CONFIG, OFFSETS, LETTERS, LOGS, MANAGE = "tasks", "config", "offsets", "letters", "logs", "manage"
LOG_LINES_MAX = 200


def routes(console: Console) -> Sequence[BaseRoute]:
    def shown(request: Request) -> Response:
        return _Shown(console, request).page()

    async def changed(request: Request) -> Response:
        form = await console.form(request)
        return await run_in_threadpool(_change, console, request, form)

    return [Route(PATH, shown), Route(PATH, changed, methods=["POST"])]


def api_of(console: Console, service: str) -> ConnectApi:
    """Raises HttpError for a service that the console was not started with."""
    api = console.connectors.apis.get(service)
    if api is None:
        raise not_found("connect service", service, "the console asks only the services of its option --connect")
    return api


class _Shown:
    def __init__(self, console: Console, request: Request) -> None:
        self._console = console
        self._request = request
        self._name: str = request.path_params["name"]
        self._api = api_of(console, request.path_params["service"])
        self._connect = connect_of(console.snapshot) or Connect()

    def page(self) -> Response:
        connector, problem = self._connector()
        service = self._connect.service(self._api.key)
        tabs = [(name, text) for name, text in _tabs(connector, service)]
        tab = self._request.query_params.get("tab", TASKS)
        tab = tab if tab in dict(tabs) else TASKS
        parts: Mapping[str, Callable[[Connector], Mapping[str, Any]]] = {
            CONFIG: self._config,
            OFFSETS: self._offsets,
            LETTERS: self._letters,
            LOGS: self._logs,
        }
        model: dict[str, Any] = {
            "connector": connector,
            "service": service,
            "problem": problem,
            "is_sink": connector.kind == SINK,
            "at_rest": connector.state in AT_REST,
            "trend": self._console.trend(rate_figure(connector)),
            "tab": tab,
            "tabs": [(name, text, self._to(name)) for name, text in tabs],
            "wrong": "",
        }
        if tab in parts:
            try:
                model |= parts[tab](connector)
            except (Silent, Declined, CannotRead, NoAnswer, BadQuery) as failed:
                model["wrong"] = str(failed)
        template = "connector.html" if tab == TASKS else f"connector_{tab}.html"
        return self._console.page(self._request, template, title=self._name, **model)

    def _connector(self) -> tuple[Connector, str]:
        """As it is now, or as it was last, with the problem."""
        before = self._connect.connector(self._api.key, self._name)
        try:
            return self._console.connectors.now(self._api, self._name, before), ""
        except Declined as declined:
            if before is not None and declined.status != 404:
                return before, str(declined)
            raise not_found("connector", self._name, "it was deleted, or its name is spelled differently") from None
        except Silent as silent:
            if before is not None:
                return before, f"{silent}. This is what was known before"
            raise HttpError(503, f"connector {self._name} is not known", str(silent)) from None

    def _to(self, tab: str) -> str:
        return self._console.to("/connect", self._api.key, self._name, tab="" if tab == TASKS else tab)

    def _config(self, connector: Connector) -> Mapping[str, Any]:
        words = self._request.query_params.get("q", "").lower().split()
        rows = [
            (name, value)
            for name, value in sorted(connector.config.items())
            if all(word in f"{name} {value}".lower() for word in words)
        ]
        return {"rows": rows, "q": self._request.query_params.get("q", "")}

    def _offsets(self, connector: Connector) -> Mapping[str, Any]:
        told = self._api.get("connectors", connector.name, "offsets")["offsets"]
        topics = self._api.get("connectors", connector.name, "topics")[connector.name]["topics"]
        rows = [(_text(each.get("partition")), _text(each.get("offset"))) for each in told]
        known = self._console.snapshot.topics
        return {
            "topics": [(str(name), name in known) for name in sorted(map(str, topics))],
            "list": Listing(
                self._request,
                rows,
                columns={"partition": lambda row: row[0], "offset": lambda row: row[1]},
                found_in=lambda row: f"{row[0]} {row[1]}",
            ),
        }

    def _letters(self, connector: Connector) -> Mapping[str, Any]:
        console, name = self._console, connector.dead_letter_topic
        topic = console.snapshot.topics.get(name)
        if topic is None:
            return {"letters": None, "topic": name}
        source = Source(console.cluster, console.snapshot, topic)
        return {"letters": newest_letters(source, connector.name, lambda: None), "topic": name}

    def _logs(self, connector: Connector) -> Mapping[str, Any]:
        lines = self._api.get("connectors", connector.name, "logs")[-LOG_LINES_MAX:]
        return {"lines": [_line(each) for each in reversed(lines)]}


def _tabs(connector: Connector, service: Service | None) -> Sequence[tuple[str, str]]:
    tabs = [(TASKS, f"Tasks ({len(connector.tasks)})"), (CONFIG, "Config"), (OFFSETS, "Offsets and topics")]
    if connector.dead_letter_topic:
        tabs.append((LETTERS, "Dead letters"))
    if service is not None and service.is_odradek:
        tabs.append((LOGS, "Logs"))
    return [*tabs, (MANAGE, "Manage")]


def _text(value: object) -> str:
    """An offset or a partition of a source: `{"file": "a"}` as `file: a`."""
    if isinstance(value, dict):
        return ", ".join(
            f"{name}: {each if isinstance(each, str) else json.dumps(each)}" for name, each in value.items()
        )
    return json.dumps(value)


def _line(each: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "at_ms": int(float(each.get("at") or 0) * 1000),
        "task": each.get("task"),
        "level": str(each.get("level", "")),
        "text": str(each.get("text", "")),
    }


# Changes

# What an action asks of the REST API, and what it tells.
_ACTIONS: Mapping[str, tuple[str, Sequence[str], Mapping[str, str], str]] = {
    "pause": ("PUT", ["pause"], {}, "{name} is being paused."),
    "resume": ("PUT", ["resume"], {}, "{name} is being resumed."),
    "stop": ("PUT", ["stop"], {}, "{name} is being stopped."),
    "restart": ("POST", ["restart"], {"includeTasks": "true"}, "{name} and all its tasks are started again."),
    "restart-failed": (
        "POST",
        ["restart"],
        {"includeTasks": "true", "onlyFailed": "true"},
        "What had failed of {name} is started again.",
    ),
    "reset-offsets": ("DELETE", ["offsets"], {}, "The offsets of {name} were reset: it will start from the beginning."),
    "delete": ("DELETE", [], {}, "Connector {name} was deleted."),
}
CONFIRMED = ("reset-offsets", "delete")


def _change(console: Console, request: Request, form: Mapping[str, str]) -> Response:
    name, api = request.path_params["name"], api_of(console, request.path_params["service"])
    here = console.to("/connect", api.key, name, tab=MANAGE if form.get("action") in CONFIRMED else "")
    try:
        told = _done(api, name, form)
    except (Refused, Silent, Declined) as refused:
        return console.not_done(refused, here)
    console.connectors.repaired(api, name)
    return console.done(told, console.to("/connect") if form.get("action") == "delete" else here)


def _done(api: ConnectApi, name: str, form: Mapping[str, str]) -> str:
    """Raises Refused, Silent and Declined."""
    action = form.get("action", "")
    if action == "restart-task" and form.get("task", "").isdecimal():
        api.ask("POST", "connectors", name, "tasks", form["task"], "restart", within_s=ACTION_S)
        return f"Task {form['task']} of {name} is started again."
    if action not in _ACTIONS:
        raise Refused(f"{name} is not changed", f"there is no action {action[:40]!r}")
    if action in CONFIRMED and form.get("confirm", "").strip() != name:
        raise Refused(f"{name} is not changed", f'the confirmation is not "{name}"')
    method, path, query, told = _ACTIONS[action]
    api.ask(method, "connectors", name, *path, query=query, within_s=ACTION_S)
    return told.format(name=name)
