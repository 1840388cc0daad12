"""Whether a cluster is there when a query begins: a wrong address is told in seconds.

A query that runs is patient, because its brokers may be restarting: see `topics_view`.
"""

from __future__ import annotations

import time

from odradek.client.addresses import BadAddress, parse_addresses
from odradek.client.knocking import refusals
from odradek.spark.errors import ClusterUnavailable, RefusedOption

# A broker that restarts at this moment listens again within that time.
PATIENCE_S = 3.0
AGAIN_S = 0.25


def require_reachable(bootstrap: str) -> None:
    """ClusterUnavailable when none of the bootstrap servers accepts a connection."""
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
