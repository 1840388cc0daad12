"""`datagen`: generated records at a steady rate, for demonstrations and load. The same seed gives the same records."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from odradek.connect.interface import Source
from odradek.connect.options import at_least, not_empty, option
from odradek.connect.records import FLOAT64, INT64, STRING, Offset, Partition, Record, SourcePlace, struct

CITIES = ("Berlin", "Hanoi", "Lagos", "Lima", "Oslo", "Prague", "Quito", "Tokyo")
ITEMS = ("apple", "bread", "cheese", "coffee", "honey", "olive oil", "rice", "tea")
WAIT_S = 0.05
# Sleeping for less costs more than it gains.
SLEEP_LEAST_S = 0.002

ORDER = struct(
    {"id": INT64, "customer": STRING, "item": STRING, "units": INT64, "price": FLOAT64, "city": STRING},
    name="odradek.datagen.Order",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagenConfig:
    topic: str = option("The topic to write to.", importance="HIGH", check=not_empty)
    rate: float = option("Records per second and partition.", default=10.0, check=at_least(0.001))
    count: int = option("End after this many records of each partition; -1: never.", default=-1, check=at_least(-1))
    customers: int = option("The number of different customers, which are the keys.", default=100, check=at_least(1))
    partitions: int = option("The number of independent generators.", default=1, check=at_least(1))
    seed: int = option("The seed of the random numbers.", default=1)


class Datagen(Source[DatagenConfig]):
    """Generates orders of customers. Its offset is the number of records so far."""

    Config: ClassVar[type] = DatagenConfig

    def partitions(self) -> Sequence[Partition]:
        return [{"generator": index} for index in range(self.config.partitions)]

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:  # noqa: ARG002
        return self.config.count < 0 or _at(offset) < self.config.count

    def read(self, partition: Partition, offset: Offset | None) -> Iterator[Record | None]:
        begin, at = time.monotonic(), _at(offset)
        first = at
        while self.config.count < 0 or at < self.config.count:
            wait_s = begin + (at - first + 1) / self.config.rate - time.monotonic()
            if wait_s > SLEEP_LEAST_S:
                time.sleep(min(wait_s, WAIT_S))
                yield None
                continue
            yield self._record(partition, at)
            at += 1

    def _record(self, partition: Partition, at: int) -> Record:
        # Each record has a generator of its own, so that a restart continues with the same records.
        random = Random(f"{self.config.seed}/{partition['generator']}/{at}")  # noqa: S311 (not for secrets)
        customer = f"customer-{random.randrange(self.config.customers)}"
        order = {
            "id": at,
            "customer": customer,
            "item": random.choice(ITEMS),
            "units": random.randint(1, 9),
            "price": round(random.uniform(1, 50), 2),
            "city": random.choice(CITIES),
        }
        return Record(
            topic=self.config.topic,
            key=customer,
            key_schema=STRING,
            value=order,
            value_schema=ORDER,
            place=SourcePlace(partition, {"count": at + 1}),
        )


def _at(offset: Offset | None) -> int:
    return int(str(offset["count"])) if offset else 0
