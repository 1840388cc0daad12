"""Reads partitions of the source cluster with one consumer, and hands the records to the reader of each partition."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from odradek.client.configuring import client_logger
from odradek.client.records import ClientError

Place = tuple[str, int]
_log = logging.getLogger("odradek.connect.mirror")

# All readers of a task take turns: together they wait about as long as one of them would.
WAIT_S = 0.1
WAIT_LEAST_S = 0.001
# A partition that has no leader is not waited for any longer.
FIRST_S = 30.0
# What one call takes from librdkafka, whose own queue is limited in bytes.
TAKEN_MAX = 1_000
HELD_MAX = 4_000
END, GONE = KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART  # noqa: SLF001 (librdkafka's own codes)
PASSING = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, GONE})  # noqa: SLF001
SETTINGS: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # As MirrorMaker 2: a partition that was deleted and created again is mirrored from its beginning.
    "auto.offset.reset": "earliest",
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": 16_384,
    # At the end of the log a fetch waits at the broker, not here.
    "fetch.queue.backoff.ms": 5,
}


class Intake:
    """Not shared between threads."""

    def __init__(self, bootstrap: str, clients: Mapping[str, str], alias: str) -> None:
        # The group is never used: positions are kept by the connect service.
        given = {"group.id": f"mirror-{alias}", **SETTINGS, **clients, "bootstrap.servers": bootstrap}
        self._consumer = Consumer(given, logger=client_logger())
        self._queues: dict[Place, deque[Message]] = {}
        self._ends: dict[Place, int] = {}
        self._held = 0
        # Partitions of which neither a record nor the end has arrived, and since when they are read.
        self._silent: dict[Place, float] = {}

    def begin(self, place: Place, offset: int) -> None:
        self._queues[place] = deque()
        self._silent[place] = time.monotonic()
        self._consumer.incremental_assign([TopicPartition(*place, offset)])

    def end(self, place: Place) -> None:
        self._held -= len(self._queues.pop(place, ()))
        self._ends.pop(place, None)
        self._silent.pop(place, None)
        self._consumer.incremental_unassign([TopicPartition(*place)])

    def taken(self, place: Place) -> deque[Message]:
        """What has arrived for a partition. Waits a little if nothing has arrived for any of them."""
        if not self._queues[place] and self._held < HELD_MAX:
            self._fill(0.0 if self._held or self._ends else max(WAIT_S / len(self._queues), WAIT_LEAST_S))
        taken, self._queues[place] = self._queues[place], deque()
        self._held -= len(taken)
        return taken

    def is_answered(self) -> bool:
        """Whether the source has answered for all partitions."""
        return all(time.monotonic() - begun_s > FIRST_S for begun_s in self._silent.values())

    def end_reached(self, place: Place) -> int | None:
        """The end of the partition, once each time when all records before it have been taken."""
        return self._ends.pop(place, None) if not self._queues[place] else None

    def close(self) -> None:
        self._consumer.close()

    def _fill(self, wait_s: float) -> None:
        for message in self._consumer.consume(TAKEN_MAX, wait_s):
            place = message.topic(), message.partition()
            self._silent.pop(place, None)
            error = message.error()
            queue = self._queues.get(place)
            if error is None:
                if queue is not None:
                    queue.append(message)
                    self._held += 1
                    # The partition has grown since its end was reported: the old end would set the reader back.
                    self._ends.pop(place, None)
            elif error.code() == END:
                if queue is not None:
                    self._ends[place] = message.offset()
            elif error.code() not in PASSING and not error.retriable():
                raise ClientError(f"mirroring {message.topic()}", error)
            else:
                _log.debug("mirroring %s: %s", message.topic(), error)
