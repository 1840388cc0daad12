"""The settings of a connect service: Kafka Connect's names for a worker, as far as they apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    bootstrap: str
    group: str = "connect-cluster"
    host: str = "127.0.0.1"
    port: int = 8083
    config_topic: str = "connect-configs"
    offset_topic: str = "connect-offsets"
    offset_partitions: int = 25
    status_topic: str = "connect-status"
    status_partitions: int = 5
    replication_factor: int = -1
    master: str | None = None
    # An idle task leaves Spark after this time, and is started again when there is news.
    linger_s: float = 5.0
    # Records and offsets of sources in one transaction for each batch, where the cluster has transactions (KIP-618).
    exactly_once_sources: bool = True
    # Configs of all clients, in librdkafka's names.
    clients: Mapping[str, str] = field(default_factory=dict)
    # Where tasks reach this process: another address than loopback for a Spark cluster.
    driver_host: str = "127.0.0.1"

    @property
    def worker_id(self) -> str:
        return f"{self.host}:{self.port}"
