"""Reads /metrics of a node as Prometheus does."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx
from prometheus_client.parser import text_string_to_metric_families

from support.waiting import wait_until

WITHIN_S = 60.0


class Scrape:
    """The samples of one scrape: `scrape("name", label="value")`; 0 if there is no such series."""

    def __init__(self, text: str) -> None:
        self.types = {family.name: family.type for family in text_string_to_metric_families(text)}
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self.samples.get((name, frozenset(labels.items())), 0.0)

    def all(self, name: str) -> dict[frozenset, float]:
        return {labels: value for (found, labels), value in self.samples.items() if found == name}


def scrape(url: str) -> Scrape:
    answer = httpx.get(f"{url}/metrics", timeout=30)
    assert answer.status_code == 200, answer.text
    return Scrape(answer.text)


def scrape_until(url: str, holds: Callable[[Scrape], bool]) -> Scrape:
    return wait_until(
        lambda: found if holds(found := scrape(url)) else None,
        lambda: scrape(url).samples,
        within_s=WITHIN_S,
        every_s=0.05,
    )


def http_url(output: str) -> str:
    """The address that a node announced."""
    found = re.search(r"Metrics: (\S+)/metrics", output)
    assert found, output
    return found[1]
