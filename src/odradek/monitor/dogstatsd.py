"""A snapshot in the datagrams of DogStatsD, Datadog's dialect of statsd.

Counters are sent as what was added since the last datagram that was sent, as the protocol wants it. A distribution is a
gauge for each quantile, and the counters `.count` and `.sum`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from odradek.monitor.instruments import PERCENTILES, DistributionReading, MeterReading, TimerReading
from odradek.monitor.metric import Kind
from odradek.monitor.registry import Number, Reading, Snapshot

# Characters that separate the parts of a datagram.
_SEPARATORS = str.maketrans(dict.fromkeys("|,#\n\r", "_"))


@dataclass(frozen=True, slots=True)
class Datagram:
    content: bytes
    # The totals behind its counters, by name and tags.
    totals: Mapping[str, Number]


@dataclass(frozen=True, slots=True)
class _Line:
    text: bytes
    series: str = ""
    total: Number = 0


class Datagrams:
    """Remembers the totals that were sent. A datagram that was lost on the way is not sent again."""

    def __init__(self, bytes_max: int, tags: Mapping[str, str]) -> None:
        self._bytes_max = bytes_max
        self._tags = tuple(_tag(name, value) for name, value in tags.items())
        self._sent: dict[str, Number] = {}

    def of(self, snapshot: Snapshot) -> Iterator[Datagram]:
        """Call `sent` for each that was sent. The totals of others are part of the next snapshot's counters."""
        text, totals = b"", dict[str, Number]()
        seen: set[str] = set()
        for line in self._lines(snapshot, seen):
            if len(line.text) > self._bytes_max:
                continue
            if text and len(text) + 1 + len(line.text) > self._bytes_max:
                yield Datagram(text, totals)
                text, totals = b"", {}
            text = text + b"\n" + line.text if text else line.text
            if line.series:
                totals[line.series] = line.total
        if text:
            yield Datagram(text, totals)
        for gone in self._sent.keys() - seen:
            del self._sent[gone]

    def sent(self, datagram: Datagram) -> None:
        self._sent.update(datagram.totals)

    def _lines(self, snapshot: Snapshot, seen: set[str]) -> Iterator[_Line]:
        for reading in snapshot:
            if reading.is_before_first_event:
                continue
            metric, labels, value = reading
            pairs = zip(metric.labels, labels, strict=True)
            tags = [*(_tag(name, text) for name, text in pairs if text), *self._tags]
            if isinstance(value, TimerReading):
                value = value.distribution
            if isinstance(value, DistributionReading):
                yield from self._distribution(reading, value, tags, seen)
            elif isinstance(value, MeterReading):
                yield from self._counter(metric.name, value.count, tags, seen)
            elif isinstance(value, str):
                yield _gauge(metric.name, 1, [*tags, _tag("state", value)])
            elif metric.kind is Kind.COUNTER:
                yield from self._counter(metric.name, value, tags, seen)
            else:
                yield _gauge(metric.name, value, tags)

    def _distribution(
        self, reading: Reading, value: DistributionReading, tags: list[str], seen: set[str]
    ) -> Iterator[_Line]:
        name = reading.metric.name
        for quantile, found in zip(PERCENTILES, value.percentiles, strict=True):
            yield _gauge(f"{name}.quantile", found, [*tags, f"quantile:{quantile}"])
        yield from self._counter(f"{name}.count", value.count, tags, seen)
        yield from self._counter(f"{name}.sum", value.sum, tags, seen)

    def _counter(self, name: str, total: Number, tags: list[str], seen: set[str]) -> Iterator[_Line]:
        series = f"{name}|{','.join(tags)}"
        seen.add(series)
        before = self._sent.get(series, 0)
        # A total that is smaller than before began again.
        added = total - before if total >= before else total
        if added or series not in self._sent:
            yield _Line(_text(name, added, "c", tags), series, total)


def _gauge(name: str, value: Number, tags: list[str]) -> _Line:
    return _Line(_text(name, value, "g", tags))


def _text(name: str, value: Number, kind: str, tags: list[str]) -> bytes:
    shown = value if isinstance(value, int) or math.isfinite(value) else 0
    return f"{name}:{shown}|{kind}{'|#' if tags else ''}{','.join(tags)}".encode("utf-8", "replace")


def _tag(name: str, value: str) -> str:
    return f"{name}:{value.translate(_SEPARATORS)}"
