"""What handlers and background tasks of a broker count for its metrics: integers, even if nothing reads them."""

from __future__ import annotations

from odradek.monitor.catalogue import broker as catalogue
from odradek.monitor.catalogue import transactions
from odradek.monitor.catalogue.requests import REQUESTS
from odradek.monitor.instruments import Counter, Decay, Distribution
from odradek.monitor.metric import Metric
from odradek.monitor.registry import Registry

FETCH_VERSIONS = 32
FETCH_FOLLOWER = "FetchFollower"


class Tally:
    def __init__(self, registry: Registry | None = None) -> None:
        def counter(metric: Metric, *labels: str) -> Counter:
            return Counter() if registry is None else registry.counter(metric, *labels)

        # By version.
        self.follower_fetches = [counter(REQUESTS, FETCH_FOLLOWER, str(each)) for each in range(FETCH_VERSIONS)]
        # Requests that wait now.
        self.parked_produces = 0
        self.parked_deletions = 0
        # Parked requests that were answered because their time was over.
        self.expired_produces = counter(catalogue.EXPIRED_PRODUCES)
        self.expired_consumer_fetches = counter(catalogue.EXPIRED_FETCHES, "consumer")
        self.expired_follower_fetches = counter(catalogue.EXPIRED_FETCHES, "follower")
        self.fetch_session_evictions = counter(catalogue.FETCH_SESSION_EVICTIONS)
        # ISR changes that this broker proposed as leader.
        self.isr_shrinks = counter(catalogue.ISR_SHRINKS)
        self.isr_expands = counter(catalogue.ISR_EXPANDS)
        self.isr_failures = counter(catalogue.ISR_FAILURES)
        self.timed_out_transactions = counter(transactions.TIMED_OUT)
        # Of batches that wait for the coordinator of their transaction; times in nanoseconds.
        self.verification_failures = counter(transactions.VERIFICATION_FAILURES)
        self.verification_times = (
            Distribution(Decay(0.0)) if registry is None else registry.distribution(transactions.VERIFICATION_TIME)
        )
