"""Every metric of the project, declared once, and the MBeans of Kafka that are left out.

A new module of declarations gets its line in `_MODULES`.

Declarations are plain data. They are kept here and not near the code that measures, so that the documentation, the
alert rules and the dashboards are generated without importing a broker or Spark.
"""

from __future__ import annotations

from odradek.monitor.catalogue import (
    broker,
    client_telemetry,
    clients,
    connect,
    consumer_lag,
    groups,
    monitoring,
    partitions,
    process,
    quorum,
    requests,
    streams,
    topics,
    transactions,
)
from odradek.monitor.left_out import LEFT_OUT as LEFT_OUT
from odradek.monitor.metric import Metric

_MODULES = (
    requests,
    topics,
    broker,
    partitions,
    groups,
    transactions,
    quorum,
    consumer_lag,
    clients,
    client_telemetry,
    streams,
    connect,
    process,
    monitoring,
)


def all_metrics() -> tuple[Metric, ...]:
    """In the order of their modules, and there in the order of declaration."""
    return tuple(each for module in _MODULES for each in vars(module).values() if isinstance(each, Metric))


def modules() -> tuple[tuple[str, tuple[Metric, ...]], ...]:
    """The title of each module, which is the first line of its docstring, and its metrics."""
    return tuple(
        (
            (module.__doc__ or "").splitlines()[0].rstrip("."),
            tuple(each for each in vars(module).values() if isinstance(each, Metric)),
        )
        for module in _MODULES
    )
