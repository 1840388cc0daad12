"""The description of MBeans for `list`: their attributes with types, as JSON."""

from __future__ import annotations

from odradek.base.limits import metric_readings_per_slice_max
from odradek.base.steps import Steps
from odradek.monitor.jolokia.mbeans import Json, MBean, attribute_types

PARTS = ("attr", "class", "desc", "op", "notif")
READ_ONLY = {"r": True, "rw": False, "w": False, "is": False}
# To describe an MBean takes this many times longer than to read a gauge.
WORK_OF_DESCRIPTION = 10
# Depths: the map of domains is 0.
OF_DOMAIN, OF_MBEAN, OF_PART = 1, 2, 3


class Listing:
    """What is deeper than `max_depth` is replaced by 1, as text in an answer for several domains."""

    def __init__(self, *, canonical: bool, max_depth: int) -> None:
        self._canonical = canonical
        self._max_depth = max_depth

    def domains(self, mbeans: list[MBean], domain: str | None) -> Steps[Json]:
        """Of one domain if it is given and no pattern."""
        if domain is not None and "*" not in domain and "?" not in domain:
            return (yield from self.selected(mbeans, None))
        if self._max_depth == OF_DOMAIN:
            return dict.fromkeys((mbean.domain for mbean in mbeans), "1")
        found: dict[str, Json] = {}
        for work, mbean in enumerate(mbeans, 1):
            found.setdefault(mbean.domain, {})[self._properties(mbean)] = self._described(mbean, "1")
            if work * WORK_OF_DESCRIPTION % metric_readings_per_slice_max == 0:
                yield metric_readings_per_slice_max
        return found

    def selected(self, mbeans: list[MBean], part: str | None) -> Steps[Json]:
        if mbeans and self._max_depth == OF_DOMAIN:
            return 1
        found: dict[str, Json] = {}
        for work, mbean in enumerate(mbeans, 1):
            described = self._described(mbean, 1)
            if part is None or not isinstance(described, dict):
                found[self._properties(mbean)] = described
            elif part in described:
                found[self._properties(mbean)] = {part: described[part]}
            if work * WORK_OF_DESCRIPTION % metric_readings_per_slice_max == 0:
                yield metric_readings_per_slice_max
        return found

    def one(self, mbean: MBean, part: str | None) -> Json:
        described = self._described(mbean, 1)
        return described if part is None or not isinstance(described, dict) else described.get(part, {})

    def _properties(self, mbean: MBean) -> str:
        name = mbean.name.canonical if self._canonical else str(mbean.name)
        return name.partition(":")[2]

    def _described(self, mbean: MBean, instead: int | str) -> Json:
        if self._max_depth and self._max_depth <= OF_MBEAN:
            return instead
        attributes = {
            name: READ_ONLY | {"type": kind, "desc": metric.help}
            for metric in mbean.metrics
            for name, kind in attribute_types(metric).items()
        }
        kind = mbean.metrics[0].kind.value.capitalize()
        described: dict[str, Json] = {"class": f"odradek.monitor.{kind}", "desc": mbean.metrics[0].help}
        if self._max_depth == OF_PART:
            return described | {"attr": instead}
        if self._max_depth == OF_PART + 1:
            return described | {"attr": dict.fromkeys(attributes, instead)}
        return described | {"attr": attributes}
