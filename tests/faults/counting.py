"""The application under test: clicks per user and window, with every change and with final results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from odradek.streams import App, F, tumbling

CLICKS, NEWEST, FINAL = "clicks", "clicks-newest", "clicks-final"


@dataclass
class Click:
    user: str
    at: datetime


app = App(
    "counting",
    # Two executors, each a separate process that can be killed alone.
    master="local-cluster[2,1,1024]",
    conf={"spark.executor.memory": "512m"},
)
clicks = app.stream(CLICKS, schema=Click, time="at", late="1 minute")
counts = clicks.group_by("user", name="counts").window(tumbling("10 seconds")).agg(n=F.count("*"))
counts.to(NEWEST, emit="updates", partitions=2)
counts.to(FINAL, emit="final", partitions=2)

if __name__ == "__main__":
    app.run()
