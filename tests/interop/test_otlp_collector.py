"""A real collector of OpenTelemetry takes what a broker pushes, and serves it to Prometheus under the same names.

The collector is built by Go from OpenTelemetry's modules: the receiver of OTLP, and the exporter for Prometheus.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import NamedTuple, Self

import httpx
import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from support.broker_process import BrokerProcess, free_port
from support.foreign_programs import go_program
from support.waiting import wait_until

WITHIN_S = 120.0
# A broker with one topic has about 450.
SERIES_MIN = 400
COUNTED = "kafka_network_requestmetrics_requests_total"
Labels = frozenset[tuple[str, str]]


class Scrape(NamedTuple):
    types: dict[str, str]
    values: dict[tuple[str, Labels], float]

    def produced(self) -> float:
        return sum(
            value
            for (name, labels), value in self.values.items()
            if name == COUNTED and ("request", "Produce") in labels
        )


class Collector:
    """Inside a `with` block."""

    def __init__(self, folder) -> None:
        self.port, self._served = free_port(), free_port()
        self._config = folder / "collector.json"  # JSON is YAML
        self._log = folder / "collector.log"
        config = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{self.port}"}}}},
            "exporters": {"prometheus": {"endpoint": f"127.0.0.1:{self._served}"}},
            "service": {
                "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": ["prometheus"]}},
                "telemetry": {"metrics": {"level": "none"}},
            },
        }
        self._config.write_text(json.dumps(config))

    def __enter__(self) -> Self:
        command = [str(go_program("otelcol")), f"--config=file:{self._config}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until(self._is_ready, lambda: self.log, within_s=WITHIN_S)
        except AssertionError:
            self.__exit__()
            raise
        return self

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self.log
        return "Everything is ready" in self.log

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def scrape(self) -> Scrape:
        """Without the labels that say which process it is."""
        return _scraped(f"127.0.0.1:{self._served}")


def _scraped(address: str) -> Scrape:
    families = list(text_string_to_metric_families(httpx.get(f"http://{address}/metrics", timeout=30).text))
    values = {
        (sample.name, frozenset(pair for pair in sample.labels.items() if not _is_of_process(pair[0]))): sample.value
        for family in families
        for sample in family.samples
        if family.name != "target_info"
    }
    return Scrape({family.name: family.type for family in families if family.name != "target_info"}, values)


def _is_of_process(label: str) -> bool:
    return label in ("job", "instance") or label.startswith("otel_scope_")


class Compared(NamedTuple):
    before: Scrape
    collected: Scrape
    after: Scrape


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compared]:
    """A push that began after a first scrape of the broker and ended before a second one."""
    folder = tmp_path_factory.mktemp("otlp")
    http = f"127.0.0.1:{free_port()}"
    with Collector(folder) as collector:
        settings = {
            "http.listener": http,
            "metrics.otlp.endpoint": f"http://127.0.0.1:{collector.port}",
            "metrics.push.interval.ms": "1000",
            "metrics.push.labels": "environment=test",
        }
        with BrokerProcess(folder / "data", **settings) as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})

            def produce() -> None:
                for _ in range(100):
                    producer.produce("orders", b"x" * 100)
                assert producer.flush(60) == 0

            produce()
            before = _scraped(http)
            produce()
            yield Compared(
                before,
                wait_until(
                    lambda: found if (found := collector.scrape()).produced() > before.produced() else None,
                    lambda: f"the collector has the second push; it says: {collector.log}",
                    within_s=WITHIN_S,
                ),
                _scraped(http),
            )


def test_names_labels_and_types_are_those_of_the_broker(compared: Compared) -> None:
    always = compared.before.values.keys() & compared.after.values.keys()
    assert len(always) > SERIES_MIN
    assert always <= compared.collected.values.keys() <= compared.before.values.keys() | compared.after.values.keys()
    shared = compared.before.types.keys() & compared.after.types.keys()
    assert {name: compared.collected.types[name] for name in shared} == {
        name: compared.before.types[name] for name in shared
    }


def test_values_are_those_of_the_broker(compared: Compared) -> None:
    wrong = {}
    steady = 0
    for series, value in compared.collected.values.items():
        first, last = compared.before.values.get(series), compared.after.values.get(series)
        if first is None or last is None:
            continue
        if first == last and not _fluctuates(series[0]):
            steady += 1
        elif not _only_grows(series[0], compared.before.types):
            continue
        if not first <= value <= last:
            wrong[series] = (first, value, last)
    assert not wrong
    assert steady > SERIES_MIN / 2


def _only_grows(name: str, types: dict[str, str]) -> bool:
    """A counter, or the count or sum of a summary."""
    family = next(family for end in ("", "_total", "_count", "_sum") if (family := name.removesuffix(end)) in types)
    return types[family] == "counter" or (types[family] == "summary" and name != family)


def _fluctuates(name: str) -> bool:
    return name.startswith(("process_", "kafka_server_socket_server", "kafka_network_socketserver"))
