"""The offset of a micro-batch in Spark's checkpoint: offsets of partitions, and marks.

The JSON key of a mark begins with `@`, which no topic name does:

@cut     ms: the micro-batch ends, in all aligned topics, before the first record with this timestamp or a later one
@others  the ends of the other aligned topics, as this reader saw them, when the micro-batch took all records
@clock   ms: the wall clock, in steps
@time    ms: the time from a file
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odradek.spark.offsets import OffsetJson, Offsets, from_json, to_json

CUT, OTHERS, CLOCK, TIME = "@cut", "@others", "@clock", "@time"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    offsets: Offsets
    cut_ms: int | None = None
    # Never together with a cut.
    others: Offsets | None = None
    clock_ms: int | None = None
    time_ms: int | None = None

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> StreamOffset:
        others = given.get(OTHERS)
        return cls(
            offsets=from_json(given),
            cut_ms=given.get(CUT),
            others=None if others is None else from_json(others),
            clock_ms=given.get(CLOCK),
            time_ms=given.get(TIME),
        )

    def to_json(self) -> OffsetJson:
        others = None if self.others is None else to_json(self.others)
        marks = {CUT: self.cut_ms, OTHERS: others, CLOCK: self.clock_ms, TIME: self.time_ms}
        return {**{name: mark for name, mark in marks.items() if mark is not None}, **to_json(self.offsets)}
