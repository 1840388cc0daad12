"""Where metrics are pushed to, and how the process is named there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from odradek.base.hosts import host_problem

OTLP_PATH = "/v1/metrics"
DOGSTATSD_PORT = 8125
_UNIX = "unix://"
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class BadDestination(ValueError):
    """An address of a collector, or a label, is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpAddress:
    is_secure: bool
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        return f"{'https' if self.is_secure else 'http'}://{self.host}:{self.port}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DogStatsdAddress:
    """A UDP address, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        return f"{_UNIX}{self.path}" if self.path else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    otlp: OtlpAddress | None = None
    dogstatsd: DogStatsdAddress | None = None
    every_s: float = 10.0
    # Of every series, such as the environment.
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """`service` becomes the label `job` in Prometheus, `instance` the label of that name."""

    service: str
    instance: str


def parse_otlp(text: str) -> OtlpAddress:
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.query or parts.username:
        raise BadDestination(f"{text!r} is not an address of an OTLP collector: write http://host:4318")
    _require_host(text, parts.hostname)
    is_secure = parts.scheme == "https"
    path = parts.path if parts.path.strip("/") else OTLP_PATH
    return OtlpAddress(is_secure=is_secure, host=parts.hostname, port=port or (443 if is_secure else 4318), path=path)


def parse_dogstatsd(text: str) -> DogStatsdAddress:
    if text.startswith(_UNIX):
        path = text.removeprefix(_UNIX)
        if path.startswith("/"):
            return DogStatsdAddress(path=path)
    else:
        host, _, port = text.rpartition(":") if ":" in text else (text, "", str(DOGSTATSD_PORT))
        host = host.strip("[]")
        if host and port.isdecimal() and 0 < int(port) < 65536:
            _require_host(text, host)
            return DogStatsdAddress(host=host, port=int(port))
    raise BadDestination(f"{text!r} is not an address of a DogStatsD agent: write host:8125 or unix:///path")


def _require_host(text: str, host: str) -> None:
    problem = host_problem(host)
    if problem is not None:
        raise BadDestination(f"{text!r} has an invalid host: {problem}")


def parse_labels(pairs: Sequence[str]) -> dict[str, str]:
    labels = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not value or not _LABEL.fullmatch(name):
            raise BadDestination(f"{pair!r} is not a label: write name=value")
        labels[name] = value
    return labels
