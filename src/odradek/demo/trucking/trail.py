"""The trail of a change: one row of the database on its way to the first alert that shows it. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from odradek.demo.trucking import topics
from odradek.demo.trucking.drivers import Driver

FIELDS = ("driverName", "certified", "wagePlan")
COMMITTED = "committed"
# In the order in which a change reaches them.
STATIONS = (COMMITTED, topics.DRIVERS, topics.ENRICHED, topics.ALERTS)


@dataclass(slots=True)
class Trail:
    """`reached`: seconds from the order to change the row until it was committed, and until each topic showed it."""

    driver: Driver
    begun_s: float
    reached: dict[str, float] = field(default_factory=dict)
    # A later change of the same driver shows that this one arrived, too.
    _rows: list[tuple[object, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rows.append(_values(asdict(self.driver)))

    def committed(self, driver: Driver, now_s: float) -> None:
        if driver == self.driver:
            self.reached.setdefault(COMMITTED, now_s - self.begun_s)
        elif driver.id == self.driver.id and COMMITTED in self.reached:
            self._rows.append(_values(asdict(driver)))

    def see(self, topic: str, event: Mapping[str, object], now_s: float) -> None:
        if topic not in STATIONS or topic in self.reached:
            return
        row, key = (event.get("after"), "id") if topic == topics.DRIVERS else (event, "driverId")
        if isinstance(row, Mapping) and row.get(key) == self.driver.id and _values(row) in self._rows:
            self.reached[topic] = now_s - self.begun_s

    @property
    def is_complete(self) -> bool:
        return len(self.reached) == len(STATIONS)

    def as_data(self) -> dict[str, object]:
        """The row, and the seconds of each station; None where it has not arrived."""
        return {"row": asdict(self.driver), "reached": {station: self.reached.get(station) for station in STATIONS}}


def _values(row: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(map(row.get, FIELDS))
