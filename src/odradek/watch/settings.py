"""The settings of `odradek monitor`: a TOML file, with Burrow's names of keys. Unknown keys are refused."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from odradek.base.hosts import host_problem
from odradek.base.similar_names import did_you_mean
from odradek.client.addresses import BadAddress, parse_addresses
from odradek.client.java_names import librdkafka_config
from odradek.client.refused import RefusedConfig
from odradek.monitor.alerts.rules import Rule
from odradek.monitor.catalogue.consumer_lag import GROUP_STATUS
from odradek.monitor.lag.evaluation import Status
from odradek.monitor.lag.settings import LagSettings
from odradek.watch.alerting import EVERY_S, AlertSettings
from odradek.watch.receivers import Command, Receiver, Webhook
from odradek.watch.watched_cluster import ClusterSettings

ADDRESS = "127.0.0.1:8000"  # the port in Burrow's example
PORT_MAX = 65_535

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class BadSettings(Exception):
    """The file cannot be used. The message names the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    clusters: tuple[ClusterSettings, ...]
    lag: LagSettings = field(default_factory=LagSettings)
    # Where the HTTP API listens.
    host: str = "127.0.0.1"
    port: int = 8000
    access_control_allow_origin: str = ""
    partition_metrics: bool = False
    alerts: AlertSettings = field(default_factory=AlertSettings)


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of the file: keys have hyphens."""


class _Cluster(_Section, frozen=True):
    servers: list[str]
    offset_refresh: Positive = 10
    topic_refresh: Positive = 60
    client: dict[str, str] = {}


class _Lag(_Section, frozen=True):
    intervals: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    min_distance: NotNegative = 0
    expire_group: Positive = 604_800
    minimum_complete: Share = 0.0
    allowed_lag: NotNegative = 0
    group_allowlist: str = ""
    group_denylist: str = ""
    partition_metrics: bool = False


class _Http(_Section, frozen=True):
    address: str = ADDRESS
    access_control_allow_origin: str = ""


class _Alerts(_Section, frozen=True):
    every: Positive = EVERY_S
    state: str = "odradek-alerts.json"


class _Scrape(_Section, frozen=True):
    url: str


class _Webhook(_Section, frozen=True):
    url: str
    headers: dict[str, str] = {}
    timeout: Positive = 10


class _Command(_Section, frozen=True):
    run: Annotated[list[str], msgspec.Meta(min_length=1)]
    timeout: Positive = 30


_Status = Literal["WARN", "ERR"]


class _Alert(_Section, frozen=True):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    send: Annotated[list[str], msgspec.Meta(min_length=1)]
    for_: NotNegative = msgspec.field(default=0, name="for")
    close_after: NotNegative = 0
    # Either the status of groups …
    group: str | None = None
    cluster: str = ".*"
    status: _Status = "WARN"
    # … or a metric.
    metric: str | None = None
    labels: dict[str, str] = {}
    above: float | None = None
    below: float | None = None


class _File(_Section, frozen=True):
    alerts: _Alerts = _Alerts()
    alert: list[_Alert] = []
    scrape: dict[str, _Scrape] = {}
    webhook: dict[str, _Webhook] = {}
    command: dict[str, _Command] = {}
    cluster: dict[str, _Cluster] = {}
    lag: _Lag = _Lag()
    http: _Http = _Http()


def configured(path: Path | None, cluster: ClusterSettings, listen: str | None, *, is_named: bool) -> MonitorSettings:
    """The settings of the file, if there is one, and of the command line. Raises BadSettings.

    `cluster` is watched if the user named it (`is_named`), or if the file names no cluster.
    """
    try:
        read = _File() if path is None else _read(path)
        clusters = _clusters(read, [cluster] if is_named or not read.cluster else [])
        host, port = _host_and_port("http.address" if listen is None else "--listen", listen or read.http.address)
        return MonitorSettings(
            clusters=clusters,
            lag=_lag(read.lag),
            host=host,
            port=port,
            access_control_allow_origin=read.http.access_control_allow_origin,
            partition_metrics=read.lag.partition_metrics,
            alerts=_alerts(read),
        )
    except _BadKey as wrong:
        raise BadSettings(f"{path}: {wrong}" if path is not None else str(wrong)) from wrong


def _read(path: Path) -> _File:
    try:
        with path.open("rb") as file:
            return msgspec.convert(tomllib.load(file), _File)
    except OSError as unreadable:
        raise BadSettings(f"cannot read {path}: {unreadable.strerror}") from unreadable
    except tomllib.TOMLDecodeError as wrong:
        raise BadSettings(f"{path}: {wrong}") from wrong
    except msgspec.ValidationError as wrong:
        raise BadSettings(f"{path}: {_named(str(wrong))}") from wrong


def _named(wrong: str) -> str:
    """msgspec's message with the key in front: `alerts: unknown key evry`."""
    what, _, place = wrong.partition(" - at ")
    key = place.strip("`").removeprefix("$").removeprefix(".")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        near = did_you_mean(unknown[1], _keys_at(key))
        what = f"unknown key {unknown[1]}{near and '.' + near}"
    what = re.sub(r"^Invalid enum value (.*)$", rf"\1 is not one of {', '.join(get_args(_Status))}", what)
    what = re.sub(r"^Object missing required field `(.*)`$", r"the key \1 is missing", what)
    return f"{key}: {what}" if key else what


def _keys_at(place: str) -> tuple[str, ...]:
    """The keys of a table: `lag`, `cluster[...]`, `alert[0]`, or the whole file."""
    tables = {
        "cluster": _Cluster,
        "lag": _Lag,
        "http": _Http,
        "alerts": _Alerts,
        "alert": _Alert,
        "scrape": _Scrape,
        "webhook": _Webhook,
        "command": _Command,
    }
    return tables.get(place.partition("[")[0], _File).__struct_encode_fields__


def _host_and_port(key: str, text: str) -> tuple[str, int]:
    host, colon, digits = text.rpartition(":")
    if not colon or not digits.isdecimal() or int(digits) > PORT_MAX:
        raise _BadKey(key, f"{text!r} is not HOST:PORT, such as {ADDRESS}")
    return host.strip("[]") or "0.0.0.0", int(digits)  # noqa: S104 - ":8000" means all addresses, as in Burrow


class _BadKey(Exception):
    def __init__(self, key: str, why: object) -> None:
        super().__init__(f"{key}: {why}")


def _clusters(read: _File, others: Sequence[ClusterSettings]) -> tuple[ClusterSettings, ...]:
    for other in others:
        if other.name in read.cluster:
            raise _BadKey(f"cluster.{other.name}", f"{other.servers} has the same name: give it another with --cluster")
    return (*(_cluster(name, each) for name, each in read.cluster.items()), *others)


def _cluster(name: str, said: _Cluster) -> ClusterSettings:
    key = f"cluster.{name}"
    try:
        servers = ",".join(map(str, parse_addresses(",".join(said.servers))))
    except BadAddress as wrong:
        raise _BadKey(f"{key}.servers", wrong) from None
    try:
        client = librdkafka_config(said.client)
    except RefusedConfig as refused:
        raise _BadKey(f"{key}.client", refused) from None
    return ClusterSettings(
        name=name,
        servers=servers,
        offset_refresh_s=said.offset_refresh,
        topic_refresh_s=said.topic_refresh,
        client=client,
    )


def _lag(said: _Lag) -> LagSettings:
    return LagSettings(
        intervals=said.intervals,
        min_distance_s=said.min_distance,
        expire_group_s=said.expire_group,
        minimum_complete=said.minimum_complete,
        allowed_lag=said.allowed_lag,
        group_allowlist=_pattern("lag.group-allowlist", said.group_allowlist),
        group_denylist=_pattern("lag.group-denylist", said.group_denylist),
    )


def _pattern(key: str, text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error as wrong:
        raise _BadKey(key, f"{text!r} is not a regular expression: {wrong}") from None


def _alerts(read: _File) -> AlertSettings:
    names = [each.name for each in read.alert]
    for name in {*names}:
        if names.count(name) > 1:
            raise _BadKey("alert.name", f"two alerts are called {name!r}")
    if both := sorted(read.webhook.keys() & read.command.keys()):
        raise _BadKey(f"command.{both[0]}", "a webhook has the same name")
    receivers: dict[str, Receiver] = {
        name: Webhook(url=_url(f"webhook.{name}.url", each.url), headers=each.headers, timeout_s=each.timeout)
        for name, each in read.webhook.items()
    }
    receivers |= {name: Command(run=tuple(each.run), timeout_s=each.timeout) for name, each in read.command.items()}
    return AlertSettings(
        rules=tuple(_rule(each, receivers.keys()) for each in read.alert),
        receivers=receivers,
        targets={name: _url(f"scrape.{name}.url", each.url) for name, each in read.scrape.items()},
        every_s=read.alerts.every,
        state=Path(read.alerts.state),
    )


def _rule(said: _Alert, receivers: Collection[str]) -> Rule:
    key = f"alert {said.name!r}"
    for name in said.send:
        if name not in receivers:
            raise _BadKey(f"{key}.send", f"there is no webhook and no command called {name!r}")
    if (said.group is None) == (said.metric is None):
        raise _BadKey(key, "needs either group or metric")
    if said.group is not None:
        if said.labels or said.above is not None or said.below is not None:
            raise _BadKey(key, "labels, above and below belong to a metric; a group has a status")
        _pattern(f"{key}.group", said.group)
        labels = {"cluster": said.cluster, "consumer_group": said.group}
        metric = GROUP_STATUS.name
        above: float | None = float(Status[said.status] - 1)
        below: float | None = None
    else:
        if (said.above is None) == (said.below is None):
            raise _BadKey(key, "needs either above or below")
        metric, labels, above, below = said.metric or "", said.labels, said.above, said.below
    return Rule(
        name=said.name,
        metric=metric,
        labels={name: pattern for name, text in labels.items() if (pattern := _pattern(f"{key}.{name}", text))},
        above=above,
        below=below,
        for_s=said.for_,
        close_after_s=said.close_after,
        send=tuple(said.send),
    )


def _url(key: str, text: str) -> str:
    if urlsplit(text).scheme not in ("http", "https") or not urlsplit(text).netloc:
        raise _BadKey(key, f"{text!r} is not a URL with http or https")
    problem = host_problem(urlsplit(text).hostname or "")
    if problem is not None:
        raise _BadKey(key, f"{text!r} has an invalid host: {problem}")
    return text
