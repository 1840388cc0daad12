"""The application under test: clicks counted per user and window, and joined with their orders and users."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from odradek.streams import App, F, tumbling

CLICKS, ORDERS, PEOPLE = "clicks", "orders", "people"
NEWEST, FINAL, SOLD, BAD = "clicks-newest", "clicks-final", "clicks-sold", "clicks-bad"


@dataclass
class Click:
    id: int
    user: str
    at: datetime


@dataclass
class Order:
    click: int
    price: int
    at: datetime


@dataclass
class Person:
    user: str
    name: str


app = App(
    "counting",
    # Two executors, each a separate process that can be killed alone.
    master="local-cluster[2,1,1024]",
    conf={"spark.executor.memory": "512m"},
)
clicks = app.stream(CLICKS, schema=Click, time="at", late="1 minute", dlq=BAD)
counts = clicks.group_by("user", name="counts").window(tumbling("10 seconds")).agg(n=F.count("*"))
counts.to(NEWEST, emit="updates", partitions=2)
counts.to(FINAL, emit="final", partitions=2)

orders = app.stream(ORDERS, schema=Order, time="at", late="1 minute").drop("at")
sold = clicks.join(orders, on={"id": "click"}, within="10 seconds", name="sold")
named = sold.join(app.table(PEOPLE, key="user", schema=Person), on="user", how="left", name="named")
named.select("id", "user", "price", "name").to(SOLD, key="user", partitions=2)

if __name__ == "__main__":
    app.run()
