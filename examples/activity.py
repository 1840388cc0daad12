"""Website activity: one topic per kind of activity, keyed by visitor, so that each visit is in order.

python examples/activity.py             # against 127.0.0.1:9092; `odradek up` starts a broker there

A page that needs the last activity of a visitor reads the topic from an hour ago, without a group. It does not affect
other readers.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from odradek.client import Admin, Consumer, Producer, json_of


@dataclass
class View:
    visitor: str
    page: str


@dataclass
class Search:
    visitor: str
    words: str


def track(bootstrap: str) -> None:
    for topic in ("page-views", "searches"):
        Admin(bootstrap).create_topic(topic, partitions=3, config={"retention.ms": "604800000"})
    with (
        Producer(bootstrap, key=str, value=json_of(View)) as views,
        Producer(bootstrap, key=str, value=json_of(Search)) as searches,
    ):
        for step in range(5):
            for visitor in ("ada", "grace", "linus"):
                views.send("page-views", View(visitor, f"/step/{step}"), key=visitor)
        searches.send("searches", Search("ada", "spool of thread"), key="ada")


def last_hour(bootstrap: str) -> dict[str, list[str]]:
    """The pages that each visitor looked at, in order."""
    visits: dict[str, list[str]] = defaultdict(list)
    with Consumer(
        "page-views", bootstrap=bootstrap, start=timedelta(hours=1), value=View, stop_at_end=True
    ) as consumer:
        for record in consumer:
            visits[record.value.visitor].append(record.value.page)
    return dict(visits)


if __name__ == "__main__":
    bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    track(bootstrap)
    for visitor, pages in last_hour(bootstrap).items():
        print(f"{visitor}: {' > '.join(pages)}")
