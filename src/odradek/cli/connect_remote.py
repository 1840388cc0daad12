"""Requests to the REST API of a connect service, and the files that describe connectors."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from odradek.base.hosts import host_problem
from odradek.cli.remote import FAILED, NOT_FOUND, TIMED_OUT, fail

F = TypeVar("F", bound=Callable[..., Any])

URL_VARIABLE = "ODRADEK_CONNECT"
REQUEST_S = 90.0


def url_option(command: F) -> F:
    return click.option(
        "--url",
        envvar=URL_VARIABLE,
        default="http://127.0.0.1:8083",
        show_default=True,
        help=f"Address of the connect service; also {URL_VARIABLE}.",
    )(command)


class Service:
    """Sends requests. A refusal ends the command with the service's own words."""

    def __init__(self, url: str) -> None:
        if problem := _url_problem(url):
            fail(f"{url!r} is not an address: {problem}. Write http://HOST:PORT")
        self._url = url.rstrip("/")

    def get(self, *path: str, **query: str) -> Any:  # noqa: ANN401 (JSON)
        return self.send("GET", *path, query=query)

    def send(
        self,
        method: str,
        *path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        advice: Mapping[str, str] | None = None,
    ) -> Any:  # noqa: ANN401 (JSON)
        """Ends the command if the service refuses. `advice`: what to do, by a part of the service's sentence."""
        target = f"{self._url}/{'/'.join(urllib.parse.quote(part, safe='') for part in path)}"
        if query:
            target = f"{target}?{urllib.parse.urlencode(query)}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(target, data, {"content-type": "application/json"}, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_S) as response:  # noqa: S310 (http or https)
                text = response.read()
        except urllib.error.HTTPError as refused:
            told = _message(refused)
            more = [f".\n{what}" for part, what in (advice or {}).items() if part in told]
            fail(told + "".join(more), NOT_FOUND if refused.code == 404 else FAILED)
        except (urllib.error.URLError, TimeoutError) as unreachable:
            reason = getattr(unreachable, "reason", unreachable)
            why = getattr(reason, "strerror", None) or reason
            fail(
                f"no answer from {self._url} ({why}).\nStart a service with `odradek connect serve`, "
                "or name another with --url.",
                TIMED_OUT,
            )
        return json.loads(text) if text else None


def _url_problem(url: str) -> str | None:
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as wrong:
        return str(wrong)
    if parts.scheme not in ("http", "https"):
        return "it does not begin with http:// or https://"
    if port == 0:
        return "its port is 0"
    problem = host_problem(parts.hostname or "")
    return problem and f"{parts.hostname!r} cannot be a host: {problem}"


def _message(refused: urllib.error.HTTPError) -> str:
    try:
        told = json.loads(refused.read())
        return str(told.get("message") or told)
    except ValueError:
        return f"HTTP {refused.code}"


def described(path: Path) -> Iterator[tuple[str, dict[str, str], str | None]]:
    """The connectors that a YAML or JSON file describes: name, config and the wanted state, if the file says it.

    A document is `{name, config, state}`, or a map of options with a name. Maps inside are joined with dots.
    """
    import yaml

    text = sys.stdin.read() if str(path) == "-" else path.read_text()
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as wrong:
        fail(f"{path} is not YAML: {wrong}")
    for document in documents:
        for each in document if isinstance(document, list) else [document]:
            yield _connector(path, each)


def _connector(path: Path, document: object) -> tuple[str, dict[str, str], str | None]:
    if not isinstance(document, dict):
        fail(f"{path} has a document that is not a map; each connector is a map with a name and a config")
    state = document.get("state") if "config" in document else None
    options = flat(document.get("config", document))
    name = str(document.get("name") or options.get("name") or "")
    if not name:
        fail(f"{path} has a connector without a name; write `name: …`")
    if "config" in document and (more := document.keys() - {"name", "config", "state"}):
        fail(f"{path}: {name} has {min(map(str, more))!r} beside config; options belong inside config")
    if state is not None and str(state).upper() not in ("RUNNING", "PAUSED", "STOPPED"):
        fail(f"{path}: the state of {name} is {state!r}, but it must be running, paused or stopped")
    return name, options, None if state is None else str(state).upper()


def flat(options: object, prefix: str = "") -> dict[str, str]:
    """`{"topic": {"creation": {…}}}` as `topic.creation.…`, and lists as text with commas."""
    if not isinstance(options, dict):
        fail("a config must be a map of options")
    found: dict[str, str] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        elif value is not None:
            found[f"{prefix}{name}"] = _text(value)
    return found


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)
