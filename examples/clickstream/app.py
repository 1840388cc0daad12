"""Reads page views and orders; writes sessions, their orders, and figures per campaign.

    odradek topic create page_views orders -p 3 -c retention.ms=-1    # the visits are of March 2026
    odradek streams run examples/clickstream/app.py      # runs until Ctrl-C
    python examples/clickstream/visits.py                # another terminal: a day of visits, always the same
    odradek consume sessions -o beginning

A visit ends when a visitor views no page for half an hour. The output does not depend on how views and orders are
grouped into micro-batches: `test_clickstream.py` compares it, record by record, with `recounted.py` in plain Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from odradek.streams import App, F, session, tumbling

GAP = "30 minutes"


@dataclass
class PageView:
    visitor: str
    page: str
    campaign: str
    at: datetime


@dataclass
class Order:
    id: int
    visitor: str
    cents: int
    ordered: datetime


app = App("clickstream")
views = app.stream("page_views", schema=PageView, time="at", late="20 seconds", key="visitor")
orders = app.stream("orders", schema=Order, time="ordered", late="20 seconds", key="visitor")

visits = (
    views.group_by("visitor", name="visits")
    .window(session(GAP))
    .agg(
        landing=F.min_by("page", "at"),
        exit=F.max_by("page", "at"),
        campaign=F.min_by("campaign", "at"),
        pages=F.count("*"),
        conversions="sum(if(page = 'thanks', 1, 0))",
        began=F.min("at"),
        ended=F.max("at"),
    )
)
sessions = visits.with_columns(seconds="unix_seconds(ended) - unix_seconds(began)")
sessions.select("visitor", "landing", "exit", "campaign", "pages", "conversions", "seconds", "began").to(
    "sessions", key="visitor"
)

# The time of a session is its end, half an hour after the last view. Orders up to two hours before belong to it.
ordered = sessions.join(orders, on="visitor", within=("2 hours", "0 seconds"), name="ordered")
ordered.select("visitor", "campaign", "landing", "began", order="id", cents="cents").to("session_orders", key="visitor")

per_hour = (
    visits.group_by("campaign", name="campaigns")
    .window(tumbling("1 hour"))
    .agg(visits=F.count("*"), pages=F.sum("pages"), converted="sum(if(conversions > 0, 1, 0))")
)
per_hour.select("campaign", "visits", "pages", "converted", hour="window_start").to("campaigns", key="campaign")

if __name__ == "__main__":
    app.run()
