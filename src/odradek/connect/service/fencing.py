"""Transactional ids of source tasks (KIP-618), and fencing: taking an id away from a run that may still be alive.

Fencing also aborts the transaction that a killed run left open. Until then, offsets behind it cannot be read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, Producer

from odradek.client.configuring import client_logger
from odradek.connect.storage.topic_log import StorageFailed

_log = logging.getLogger("odradek.connect")

FENCE_S = 30.0
UNSUPPORTED = (
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001 (librdkafka's own codes have this form)
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


def transactional_id(group: str, connector: str, task: int) -> str:
    """As Kafka Connect names it."""
    return f"{group}-{connector}-{task}"


class Fence:
    """Fences older producers. `works` is False if the cluster has no transactions, or does not allow them."""

    def __init__(self, bootstrap: str, clients: Mapping[str, str], group: str) -> None:
        self._config = {**clients, "bootstrap.servers": bootstrap}
        self._group = group
        self.works = True

    def raise_for(self, tasks: Iterable[tuple[str, int]]) -> None:
        """Returns when no older run of these tasks can write any more. Raises StorageFailed."""
        # The first id is the service's own: it shows that transactions work before there is a task.
        for each in (f"connect-cluster-{self._group}", *(transactional_id(self._group, *task) for task in tasks)):
            if not self.works:
                return
            producer = Producer({**self._config, "transactional.id": each}, logger=client_logger())
            try:
                producer.init_transactions(FENCE_S)
            except KafkaException as refused:
                error = refused.args[0]
                if error.code() not in UNSUPPORTED:
                    raise StorageFailed(f"fencing older producers of {each}: {error.str()}") from refused
                self.works = False
                _log.warning("sources write at least once, not exactly once: %s", error.str())
