"""The samples that alerts look at: /metrics of nodes and Connect services, and the lag of the groups."""

from __future__ import annotations

import base64
import http.client
import time
import urllib.request
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlencode, urlsplit

from odradek.base.limits import alert_scrape_bytes_max
from odradek.console.collecting.snapshot import Snapshot
from odradek.monitor.alerts.samples import Sample, read_samples
from odradek.monitor.catalogue.consumer_lag import GROUP_STATUS

ANSWER_S = 5.0
AT_ONCE_MAX = 8
JOB = "odradek"
LAG, UP = "lag", "up"

Samples = Mapping[str, Sequence[Sample] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A process whose /metrics are read. `name` is the label `instance` of its samples."""

    name: str
    url: str
    problem: str = ""  # why it gives no answer
    is_connect: bool = False

    @property
    def shown_url(self) -> str:
        """Without a password."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


class Scraper:
    """Remembers addresses: a broker that has died is still one that should answer.

    An address that is only a guess counts from its first answer on. `nodes` and `connect` were given by the user.
    """

    def __init__(self, names: Collection[str], nodes: Mapping[int, str], connect: Sequence[str]) -> None:
        self._names = names
        self._connect = connect
        self._urls = dict(nodes)
        self._trusted = {*nodes.values(), *connect}
        self.took_s = 0.0  # the slowest answer; one that never came costs its process nothing

    def learn(self, broker: int, url: str | None) -> None:
        if url is not None:
            self._urls[broker] = url

    def read(self, snapshot: Snapshot) -> tuple[list[Source], dict[str, Sequence[Sample] | None]]:
        wanted = list(self._wanted(snapshot))
        self.took_s = 0.0
        with ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="odradek-console-metrics") as pool:
            answers = list(pool.map(self._scraped, wanted))
        sources: list[Source] = []
        samples: dict[str, Sequence[Sample] | None] = {}
        for source, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, str):
                if source.url in self._trusted:
                    sources.append(replace(source, problem=answer))
                    samples[source.name] = None
            else:
                self._trusted.add(source.url)
                sources.append(source)
                samples[source.name] = answer
        samples[UP] = [Sample(UP, _labels({}, each.name), float(not each.problem)) for each in sources]
        samples[LAG] = list(lag_samples(snapshot)) if snapshot.lag_is_known else None
        return sources, samples

    def _wanted(self, snapshot: Snapshot) -> Iterator[Source]:
        for each in snapshot.brokers:
            if url := self._urls.get(each.broker_id):
                yield Source(name=f"broker {each.broker_id}", url=url)
        for url in self._connect:
            yield Source(name=f"Connect at {urlsplit(url).netloc.rpartition('@')[2]}", url=url, is_connect=True)

    def _scraped(self, source: Source) -> list[Sample] | str:
        """The samples, or why there are none. A node that knows `name[]` answers with these metrics only."""
        query = urlencode([("name[]", name) for name in sorted(self._names)])
        asked = urllib.request.Request(f"{source.shown_url}/metrics?{query}", headers=_authorization(source.url))  # noqa: S310
        began_s = time.monotonic()
        try:
            with urllib.request.urlopen(asked, timeout=ANSWER_S) as answer:  # noqa: S310 - http and https only
                text = answer.read(alert_scrape_bytes_max).decode(errors="replace")
        except (OSError, ValueError, http.client.HTTPException) as failed:
            return str(getattr(failed, "reason", failed))
        self.took_s = max(self.took_s, time.monotonic() - began_s)
        return [
            Sample(each.name, _labels(dict(each.labels), source.name), each.value)
            for each in read_samples(text, self._names)
        ]


def _authorization(url: str) -> dict[str, str]:
    """The header for a URL that has a user and a password."""
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    said = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"authorization": f"Basic {base64.b64encode(said.encode()).decode()}"}


def lag_samples(snapshot: Snapshot) -> Iterator[Sample]:
    """What `odradek monitor` exports about groups. The console evaluates them in the same way."""
    for name, group in snapshot.groups.items():
        if group.lag is not None:
            labels = (("cluster", snapshot.cluster_id), ("consumer_group", name))
            yield Sample(GROUP_STATUS.name, labels, float(group.lag.status))


def _labels(labels: dict[str, str], instance: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({**labels, "instance": instance, "job": JOB}.items()))
