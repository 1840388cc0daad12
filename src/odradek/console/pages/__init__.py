"""The pages of the console, in the order of the navigation."""

from __future__ import annotations

from odradek.console.frame import Page
from odradek.console.pages import (
    alerts,
    brokers,
    connect,
    groups,
    overview,
    quorum,
    streams,
    topics,
    transactions,
)

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    brokers.PAGE,
    quorum.PAGE,
    alerts.PAGE,
    topics.PAGE,
    groups.PAGE,
    transactions.PAGE,
    connect.PAGE,
    streams.PAGE,
)
