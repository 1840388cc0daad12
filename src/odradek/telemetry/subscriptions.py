"""Which metrics a client should push, and how often: the subscriptions that match it, combined.

The subscription id tells a client when they change. It is the same on every broker, so a client may push to a broker
that it has not asked before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.base.errors import KafkaError
from odradek.base.ids import uuid_text
from odradek.metadata.configs.client_metrics import (
    ALL_METRICS,
    INTERVAL_MS_DEFAULT,
    Selector,
    client_metrics_config,
    selectors,
)
from odradek.protocol.checksum import crc32c


class Client(NamedTuple):
    """The client of a connection."""

    principal: str
    client_id: str | None
    software_name: str
    software_version: str
    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    metrics: tuple[str, ...]
    interval_ms: int
    selectors: tuple[Selector, ...]

    def matches(self, attributes: Mapping[str, str | None]) -> bool:
        for name, pattern in self.selectors:
            text = attributes[name]
            if text is None or pattern.fullmatch(text) is None:
                return False
        return True


class Wanted(NamedTuple):
    """What one client should push."""

    metrics: tuple[str, ...]  # prefixes of names
    interval_ms: int

    def covers(self, name: str) -> bool:
        return ALL_METRICS in self.metrics or name.startswith(self.metrics)


def subscriptions(configs: Mapping[str, Mapping[str, str]]) -> list[Subscription]:
    """From the configs of the client metrics resources, by name."""
    valid = []
    for values in configs.values():
        config = client_metrics_config(values)
        try:
            chosen = selectors(config.match)
        except KafkaError:  # in a directory of Kafka: a pattern that RE2 cannot read
            continue
        valid.append(Subscription(metrics=config.metrics, interval_ms=config.interval_ms, selectors=chosen))
    return valid


def wanted_of(client: Client, instance_id: bytes, available: Sequence[Subscription]) -> Wanted:
    attributes = _attributes(client, instance_id)
    matching = [subscription for subscription in available if subscription.matches(attributes)]
    metrics = dict.fromkeys(prefix for subscription in matching for prefix in subscription.metrics)
    return Wanted(
        metrics=(ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics)),
        interval_ms=min([INTERVAL_MS_DEFAULT, *(subscription.interval_ms for subscription in matching)]),
    )


def _attributes(client: Client, instance_id: bytes) -> dict[str, str | None]:
    return {
        "client_instance_id": uuid_text(instance_id),
        "client_id": client.client_id,
        "client_software_name": client.software_name,
        "client_software_version": client.software_version,
        "client_source_address": client.address,
        "client_source_port": str(client.port),
    }


def subscription_id(wanted: Wanted, instance_id: bytes) -> int:
    """A checksum of the metrics and the interval, mixed with the instance id, as an int32."""
    checksum = crc32c(f"[{', '.join(wanted.metrics)}]{wanted.interval_ms}".encode())
    words = (int.from_bytes(instance_id[start : start + 4], "big") for start in range(0, 16, 4))
    for word in words:
        checksum ^= word
    return checksum - (1 << 32) if checksum >= 1 << 31 else checksum
