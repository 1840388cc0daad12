"""The drivers: invented people, how they drive, and the change events that Debezium would write for their rows."""

# ruff: noqa: N815 (the columns of the table are the fields of the records)

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace

NAMES = (
    "Ada Brandt", "Bo Castellan", "Cleo Varga", "Dario Finch", "Edda Molnar", "Felix Oyelaran",
    "Greta Sandoz", "Hugo Whitlock", "Ines Calloway", "Jonas Petrak", "Kira Lindqvist", "Leon Abara",
    "Mona Thackeray", "Nils Verhoeven", "Opal Reyes", "Pavel Duro", "Quinn Ashby", "Rosa Elmore",
    "Soren Bell", "Talia Moreau", "Umar Keller", "Vera Nakano", "Walt Jimenez", "Xenia Holt",
    "Yara Osei", "Zeno Fairley", "Anton Rourke", "Bridget Sato", "Cyrus Moen", "Delia Quist",
    "Emil Tarrant", "Fay Kowal", "Gus Adeyemi", "Hana Pruitt", "Ivo Marsh", "June Okafor",
    "Karl Benning", "Lila Strand", "Milo Vance", "Nora Zeller",
)  # fmt: skip
FIRST_ID = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskPattern:
    """After `calm` events comes a spree of `spree` events, each a violation with probability `violating`."""

    name: str
    speed_min: int
    speed_max: int
    calm: int
    spree: int
    violating: float


NORMAL = RiskPattern(name="normal", speed_min=35, speed_max=75, calm=60, spree=5, violating=0.50)
SPEEDY = RiskPattern(name="speedy", speed_min=50, speed_max=100, calm=15, spree=10, violating=0.65)
RISKY = RiskPattern(name="risky", speed_min=35, speed_max=75, calm=45, spree=15, violating=0.80)
VERY_RISKY = RiskPattern(name="very risky", speed_min=55, speed_max=105, calm=20, spree=40, violating=0.95)
# Every tenth of the fleet, in this order.
PATTERNS = (NORMAL, SPEEDY, NORMAL, RISKY, NORMAL, NORMAL, VERY_RISKY, NORMAL, SPEEDY, NORMAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A row of the table `driver`."""

    id: int
    driverName: str
    certified: bool
    wagePlan: str  # paid by "miles" or by "hours"


def roster(size: int, rng: random.Random) -> list[Driver]:
    return [
        Driver(
            id=FIRST_ID + number,
            driverName=NAMES[number % len(NAMES)] + (f" {number // len(NAMES) + 1}" if number >= len(NAMES) else ""),
            certified=rng.random() < 0.7,
            wagePlan=rng.choice(("miles", "hours")),
        )
        for number in range(size)
    ]


class DriverTable:
    """The rows as they are now; every change comes out as a change event with a position of its own."""

    def __init__(self, drivers: list[Driver]) -> None:
        self.rows = {driver.id: driver for driver in drivers}
        self._position = 0

    def snapshot(self, now_ms: int) -> list[dict[str, object]]:
        return [self._envelope("r", None, driver, now_ms) for driver in self.rows.values()]

    def change(self, driver_id: int, now_ms: int) -> dict[str, object]:
        """The driver gets the other wage plan, and passes or loses the certificate."""
        before = self.rows[driver_id]
        other = "hours" if before.wagePlan == "miles" else "miles"
        after = replace(before, wagePlan=other, certified=not before.certified)
        self.rows[driver_id] = after
        return self._envelope("u", before, after, now_ms)

    def _envelope(self, op: str, before: Driver | None, after: Driver, now_ms: int) -> dict[str, object]:
        self._position += 1
        source = {
            "version": "demo",
            "connector": "postgresql",
            "name": "trucking",
            "ts_ms": now_ms,
            "snapshot": "true" if op == "r" else "false",
            "db": "trucking",
            "schema": "public",
            "table": "driver",
            "txId": self._position,
            "lsn": self._position,
        }
        return {
            "before": asdict(before) if before else None,
            "after": asdict(after),
            "source": source,
            "op": op,
            "ts_ms": now_ms,
        }
