"""The newest metrics of each client, as series for the registry.

A push replaces what its client pushed before. The series of a client stay for a while after it is gone, so that the
last push of a client that ends is scraped. Both the series of one client and those of all are limited: what is beyond
is counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from odradek.base import limits
from odradek.base.ids import uuid_text
from odradek.monitor.metric import Kind as MetricKind
from odradek.monitor.metric import Metric
from odradek.monitor.registry import Reading
from odradek.telemetry.instances import Instance
from odradek.telemetry.otlp import Attributes, Kind
from odradek.telemetry.samples import CLIENT_LABELS, Pushed

_KINDS = {Kind.GAUGE: MetricKind.GAUGE, Kind.COUNTER: MetricKind.COUNTER}

Key = tuple[str, Attributes]


@dataclass(slots=True, kw_only=True)
class _ClientSeries:
    """Never changed: the next push replaces it."""

    labels: tuple[str, ...]  # the values of CLIENT_LABELS
    values: dict[Key, float]
    expires_ms: int


def _client_labels(instance: Instance) -> tuple[str, ...]:
    """The values of CLIENT_LABELS."""
    client = instance.client
    return (
        uuid_text(instance.instance_id),
        client.client_id or "",
        client.software_name,
        client.software_version,
    )


class _Family:
    """All series of one name. They need not have the same labels; the metric has the labels of all of them."""

    __slots__ = ("_labels", "_metric", "kind", "name", "series")

    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self.kind = kind
        self.series = 0
        # How many series have each label.
        self._labels: dict[str, int] = {}
        self._metric: Metric | None = None

    def has_room(self, labels: Attributes, labels_max: int) -> bool:
        return len(self._labels) + sum(name not in self._labels for name, _ in labels) <= labels_max

    def add(self, labels: Attributes) -> None:
        self.series += 1
        for name, _ in labels:
            if name not in self._labels:
                self._metric = None
            self._labels[name] = self._labels.get(name, 0) + 1

    def remove(self, labels: Attributes) -> None:
        self.series -= 1
        for name, _ in labels:
            self._labels[name] -= 1
            if not self._labels[name]:
                del self._labels[name]
                self._metric = None

    @property
    def metric(self) -> Metric:
        if self._metric is None:
            self._metric = self._new_metric()
        return self._metric

    def _new_metric(self) -> Metric:
        return Metric(
            name=self.name,
            mbean=f"odradek.telemetry:type=ClientMetrics,name={self.name}",
            kind=_KINDS[self.kind],
            unit="",
            help="Pushed by clients (KIP-714).",
            labels=(*CLIENT_LABELS, *self._labels),
        )


@dataclass(slots=True, kw_only=True)
class SeriesTally:
    """Counted since the start."""

    pushes: int = 0
    # Points left out: not subscribed or not accepted, and beyond a limit.
    refused: int = 0
    dropped: int = 0


class PushedSeries:
    def __init__(
        self,
        *,
        series_max: int = limits.telemetry_series_max,
        per_client_max: int = limits.telemetry_series_per_client_max,
        labels_max: int = limits.telemetry_labels_per_metric_max,
    ) -> None:
        self._series_max = series_max
        self._labels_max = labels_max
        self._per_client_max = per_client_max
        self._clients: dict[bytes, _ClientSeries] = {}
        self._families: dict[str, _Family] = {}
        # The series of all clients.
        self._count = 0
        self.tally = SeriesTally()

    def __len__(self) -> int:
        return self._count

    @property
    def clients(self) -> int:
        """How many have series."""
        return len(self._clients)

    def store(self, instance: Instance, pushed: Pushed, now_ms: int) -> None:
        """The series expire as long after `now_ms` as the instance after its last request."""
        former = self._clients.pop(instance.instance_id, None)
        if former is not None:
            self._leave(former)
        before = {} if former is None else former.values
        values: dict[Key, float] = {}
        room = min(self._per_client_max, self._series_max - self._count)
        for name, kind, is_delta, labels, value in pushed.samples:
            key = (name, labels)
            if key not in values:
                if len(values) >= room or not self._add(name, kind, labels):
                    self.tally.dropped += 1
                    continue
            elif self._families[name].kind is not kind:
                self.tally.dropped += 1
                continue
            values[key] = value + before.get(key, 0) if is_delta else value
        self._count += len(values)
        self.tally.pushes += 1
        self.tally.refused += pushed.refused
        if values:
            self._clients[instance.instance_id] = _ClientSeries(
                labels=_client_labels(instance), values=values, expires_ms=now_ms + instance.lifetime_ms
            )
        self._forget_empty_families(before)

    def _add(self, name: str, kind: Kind, labels: Attributes) -> bool:
        """False: the metric has another kind, or too many labels."""
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = _Family(name, kind)
        if family.kind is not kind or not family.has_room(labels, self._labels_max):
            return False
        family.add(labels)
        return True

    def expire(self, now_ms: int) -> None:
        for instance_id, client in list(self._clients.items()):
            if client.expires_ms <= now_ms:
                del self._clients[instance_id]
                self._leave(client)
                self._forget_empty_families(client.values)

    def _leave(self, client: _ClientSeries) -> None:
        self._count -= len(client.values)
        for name, labels in client.values:
            self._families[name].remove(labels)

    def _forget_empty_families(self, left: Iterable[Key]) -> None:
        for name, _ in left:
            family = self._families.get(name)
            if family is not None and not family.series:
                del self._families[name]

    def readings(self) -> Iterator[Reading]:
        """Pushes may come while it is read: it yields what there was at the first reading."""
        metrics = {name: family.metric for name, family in self._families.items()}
        for client in list(self._clients.values()):
            for (name, labels), value in client.values.items():
                metric = metrics[name]
                given = dict(labels)
                own = metric.labels[len(CLIENT_LABELS) :]
                yield Reading(metric, (*client.labels, *(given.get(label, "") for label in own)), value)
