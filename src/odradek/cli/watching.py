"""Reports once when a broker that `consume` reads from is gone, and once when it is back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from odradek.cli.asking import is_reachable
from odradek.cli.remote import require_topics
from odradek.client.addresses import parse_addresses
from odradek.client.knocking import refusals

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError
    from confluent_kafka.admin import ClusterMetadata

LOOK_TIMEOUT_S = 2.0


class Watch:
    def __init__(self, bootstrap: str, topics: tuple[str, ...]) -> None:
        self._bootstrap = bootstrap
        self._topics = [topic for topic in topics if not topic.startswith("^")]
        # librdkafka reported a lost connection, possibly a short one.
        self.suspicious = False
        self._asked_in_vain = False
        self._missed: str | None = None
        # The address of a missing leader: another broker may lead before it is back.
        self._missed_at: tuple[str, int] | None = None

    def on_error(self, _error: KafkaError) -> None:
        """For librdkafka's `error_cb`, which reports a lost connection each second, and never that it is back."""
        self.suspicious = True

    def look(self, consumer: Consumer) -> None:
        from confluent_kafka import KafkaException

        try:
            known = consumer.list_topics(timeout=LOOK_TIMEOUT_S)
        except KafkaException:
            self._unanswered()
            return
        self._asked_in_vain = False
        # librdkafka waits in silence for a topic that was deleted.
        require_topics(self._topics, known.topics)
        if self.suspicious:
            self._look_for_leaders(known, {(tp.topic, tp.partition): None for tp in consumer.assignment()})

    def _unanswered(self) -> None:
        """Reports the second unanswered request, or the first if no address accepts connections.

        librdkafka may have sent the first one to a dead broker.
        """
        if self._asked_in_vain or refusals(parse_addresses(self._bootstrap)):
            self._miss(self._bootstrap, "does not answer")
        self._asked_in_vain = self.suspicious = True

    def _look_for_leaders(self, known: ClusterMetadata, assigned: dict[tuple[str, int], None]) -> None:
        led: dict[int, list[str]] = {}
        for topic, index in assigned:
            # A topic that was deleted and created again may have fewer partitions.
            if topic in known.topics and index in known.topics[topic].partitions:
                led.setdefault(known.topics[topic].partitions[index].leader, []).append(f"{topic}-{index}")
        for leader, partitions in sorted(led.items()):
            broker = known.brokers.get(leader)
            if broker is None:
                self._miss(f"the leader of {', '.join(partitions)}", "is missing")
                return
            if not is_reachable(broker.host, broker.port):
                where = f"broker {leader} at {broker.host}:{broker.port}"
                self._miss(where, f"does not answer, and it leads {', '.join(partitions)}")
                self._missed_at = (broker.host, broker.port)
                return
        self.suspicious = False
        if self._missed is not None:
            is_back = self._missed_at is None or is_reachable(*self._missed_at)
            told = f"{self._missed} is back" if is_back else f"other brokers lead instead of {self._missed}"
            click.echo(f"{told}: consuming continues", err=True)
            self._missed = self._missed_at = None

    def _miss(self, who: str, why: str) -> None:
        self.suspicious = True
        if self._missed is None:
            click.echo(f"Warning: {who} {why}. Retrying; press Ctrl-C to stop", err=True)
            self._missed = who
