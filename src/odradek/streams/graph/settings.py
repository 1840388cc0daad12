"""Where an application runs: what its code says, what the environment says, what `start` says, the last word first."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from odradek.pipeline.layout import DEFAULT_STATE_DIR

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

# `odradek streams run app.py --master ...` reaches the App of the file this way
ENVIRONMENT = {
    "bootstrap": "ODRADEK_BOOTSTRAP",  # the same for all commands of `odradek`
    "state_dir": "ODRADEK_STREAMS_STATE_DIR",
    "master": "ODRADEK_STREAMS_MASTER",
    "metrics": "ODRADEK_STREAMS_METRICS",
    "otlp": "ODRADEK_STREAMS_OTLP",
    "dogstatsd": "ODRADEK_STREAMS_DOGSTATSD",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    bootstrap: str = DEFAULT_BOOTSTRAP
    state_dir: str = DEFAULT_STATE_DIR  # a directory, or a URL that all of the cluster can reach
    master: str | None = None  # None: this machine
    conf: Mapping[str, str] = field(default_factory=dict)  # of Spark
    config: Mapping[str, str] = field(default_factory=dict)  # of Kafka clients
    delivery: str | None = None  # of records in topics; None: EXACTLY_ONCE where the cluster has transactions
    every: timedelta | None = None  # between the micro-batches of a query; None: one follows the other
    metrics: str | None = None  # where `run` serves /metrics, as host:port; "off"; None: 127.0.0.1:9464 or a free port
    otlp: str | None = None  # a collector that `run` pushes metrics to
    dogstatsd: str | None = None
    tables: str | None = None  # where tests have the tables of files: a directory instead of the paths of the code
    ticks: str | None = None  # where tests let event time pass: a directory, in it one for each consumer group

    def over(self, **overrides: Any) -> Settings:  # noqa: ANN401 the fields above; None leaves one as it is
        return replace(self, **{name: value for name, value in overrides.items() if value is not None})

    def located(self) -> Settings:
        """The state directory by its whole path: the JVM may be at home elsewhere."""
        place = self.state_dir.removeprefix("file://") if self.state_dir.startswith("file:///") else self.state_dir
        return self if "://" in place else replace(self, state_dir=str(Path(place).absolute()))

    def from_environment(self) -> Settings:
        return self.over(**{name: os.environ.get(variable) for name, variable in ENVIRONMENT.items()})
