"""Every metric of the project, declared once.

A new module of declarations gets its line in `_MODULES`.

Declarations are plain data. They are kept here and not near the code that measures, so that the documentation, the
alert rules and the dashboards are generated without importing a broker or Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from odradek.monitor.metric import Metric

if TYPE_CHECKING:
    from odradek.monitor.left_out import LeftOut

_MODULES = (
    "requests",
    "topics",
    "broker",
    "partitions",
    "groups",
    "transactions",
    "quorum",
    "consumer_lag",
    "clients",
    "client_telemetry",
    "streams",
    "connect",
    "process",
    "monitoring",
)


def all_metrics() -> tuple[Metric, ...]:
    """In the order of their modules, and there in the order of declaration."""
    return tuple(each for module in _imported() for each in vars(module).values() if isinstance(each, Metric))


def modules() -> tuple[tuple[str, tuple[Metric, ...]], ...]:
    """The title of each module, which is the first line of its docstring, and its metrics."""
    return tuple(
        (
            (module.__doc__ or "").splitlines()[0].rstrip("."),
            tuple(each for each in vars(module).values() if isinstance(each, Metric)),
        )
        for module in _imported()
    )


def left_out() -> Sequence[LeftOut]:
    """The MBeans of Kafka that have no metric here."""
    from odradek.monitor.left_out import LEFT_OUT

    return LEFT_OUT


def _imported() -> list[ModuleType]:
    """Only here: a process needs the declarations of what it measures, and no others."""
    return [import_module(f"{__name__}.{name}") for name in _MODULES]
