"""Whether a cluster is there when a query begins: a wrong address is told in seconds.

A query that runs is patient, because its brokers may be restarting: see `topics_view`.
"""

from __future__ import annotations

import re
import socket
import time

from odradek.client.addresses import Address, BadAddress, parse_addresses
from odradek.spark.errors import ClusterUnavailable, RefusedOption

# A broker that restarts at this moment listens again within that time.
PATIENCE_S = 3.0
AGAIN_S = 0.25
CONNECT_TIMEOUT_S = 3.0
_PROTOCOL = re.compile(r"\b(SSL|SASL_PLAINTEXT|SASL_SSL)://", re.IGNORECASE)


def require_reachable(bootstrap: str) -> None:
    """ClusterUnavailable when none of the bootstrap servers accepts a connection."""
    try:
        addresses = parse_addresses(_PROTOCOL.sub("", bootstrap))
    except BadAddress as wrong:
        raise RefusedOption(f"kafka.bootstrap.servers: {wrong}") from None
    ends_at = time.monotonic() + PATIENCE_S
    while True:
        refusals = {str(address): _refusal(address) for address in addresses}
        if None in refusals.values():
            return
        if time.monotonic() >= ends_at:
            break
        time.sleep(AGAIN_S)
    told = ", ".join(f"{address} ({why})" for address, why in refusals.items())
    raise ClusterUnavailable(
        f"no broker accepts a connection at {told}. Start one (`odradek up`), or correct kafka.bootstrap.servers"
    )


def _refusal(address: Address) -> str | None:
    try:
        socket.create_connection(address, CONNECT_TIMEOUT_S).close()
    except OSError as refused:
        return refused.strerror or str(refused)
    return None
