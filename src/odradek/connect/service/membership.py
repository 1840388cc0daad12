"""Which of several services with the same group is active: the owner of the only partition of the config topic.

Kafka's group coordinator decides. The owner proves every half second that it still is the owner, by a commit that the
coordinator refuses after a rebalance. Each proof is a lease. Leases of the service and of its tasks together are
shorter than the session timeout: when another service becomes active, no task of the old one may write any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from odradek.client.configuring import client_logger
from odradek.connect.tasks.leash import LEASE_S

_log = logging.getLogger("odradek.connect")

SESSION_MS = 6_000
HEARTBEAT_MS = 1_000
RENEW_EVERY_S = 0.5
# How often the log end is asked for, and for how long: much shorter than a lease.
END_EVERY_S = 5.0
END_WITHIN_S = 0.5
POLL_S = 0.1


class Membership:
    """`changed(is_active)` is called on this object's thread."""

    def __init__(
        self, bootstrap: str, config: Mapping[str, str], *, group: str, topic: str, client_id: str,
        changed: Callable[[bool], None],
    ) -> None:  # fmt: skip
        self._topic = topic
        self._changed = changed
        self._is_owner = False
        self._held_until_s = 0.0
        # The committed offset. It is the log end: a group that commits and stays behind looks stalled to every monitor.
        self._end = 0
        self._next_end_s = 0.0
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                **config,
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": client_id,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                # A service that joins takes nothing away from the active one.
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
            },
            logger=client_logger(),
        )
        self._thread = threading.Thread(target=self._run, name="connect-membership", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def holds_lease(self) -> bool:
        return time.monotonic() < self._held_until_s

    def close(self) -> None:
        """Leaves the group, so that another service takes over at once."""
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        next_renewal_s = 0.0
        while not self._stop.is_set():
            self._consumer.poll(POLL_S)  # configs are read by the storage: this consumer only holds the partition
            now = time.monotonic()
            if self._is_owner and now >= next_renewal_s:
                next_renewal_s = now + RENEW_EVERY_S
                self._renew(now)
                self._look_at_end(now)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        if partitions:
            self._is_owner = True
            self._renew(time.monotonic())
            self._changed(True)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_unassign(partitions)
        if partitions:
            self._is_owner = False
            self._held_until_s = 0.0
            self._changed(False)

    def _renew(self, asked_s: float) -> None:
        """The lease counts from before the request: the coordinator may have answered long ago."""
        try:
            self._consumer.commit(offsets=[TopicPartition(self._topic, 0, self._end)], asynchronous=False)
        except KafkaException as refused:
            error: KafkaError = refused.args[0]
            _log.info("the lease was not renewed: %s", error.str())
        else:
            self._held_until_s = asked_s + LEASE_S

    def _look_at_end(self, now_s: float) -> None:
        """After a renewal, so that a slow answer leaves time for the next one."""
        if now_s < self._next_end_s:
            return
        self._next_end_s = now_s + END_EVERY_S
        with suppress(KafkaException):
            _, self._end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=END_WITHIN_S)
