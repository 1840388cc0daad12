"""Checks that a cluster is reachable when a query starts, so that a wrong address fails within seconds.

A running query retries for longer, because its brokers may be restarting: see `topics_view`.
"""

from __future__ import annotations

import time

from odradek.client.addresses import BadAddress, parse_addresses
from odradek.client.knocking import refusals
from odradek.spark.errors import ClusterUnavailable, RefusedOption

# A broker that is restarting listens again within this time.
PATIENCE_S = 3.0
AGAIN_S = 0.25


def require_reachable(bootstrap: str) -> None:
    """Raises ClusterUnavailable when no bootstrap server accepts a connection."""
    try:
        addresses = parse_addresses(bootstrap)
    except BadAddress as wrong:
        raise RefusedOption(f"kafka.bootstrap.servers: {wrong}") from None
    ends_at = time.monotonic() + PATIENCE_S
    while refused := refusals(addresses):
        if time.monotonic() >= ends_at:
            told = ", ".join(f"{address} ({why})" for address, why in refused.items())
            raise ClusterUnavailable(
                f"no broker accepts a connection at {told}. Start one (`odradek up`), or correct "
                "kafka.bootstrap.servers"
            )
        time.sleep(AGAIN_S)
