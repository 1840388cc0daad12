"""Whether those who are read from are there: told once when they are not, and once when they are again."""

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
        # librdkafka lost a connection, be it for a moment.
        self.suspicious = False
        self._asked_in_vain = False
        self._missed: str | None = None
        # Where that is, when it is a leader: another may lead before it is back.
        self._missed_at: tuple[str, int] | None = None

    def on_error(self, _error: KafkaError) -> None:
        """For librdkafka's `error_cb`: it says each second what it lost, and never that it is back."""
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
        """librdkafka may have asked a broker that died: while another one accepts connections, it is asked again."""
        if self._asked_in_vain or refusals(parse_addresses(self._bootstrap)):
            self._miss(self._bootstrap, "does not answer")
        self._asked_in_vain = self.suspicious = True

    def _look_for_leaders(self, known: ClusterMetadata, assigned: dict[tuple[str, int], None]) -> None:
        led: dict[int, list[str]] = {}
        for topic, index in assigned:
            # A topic that was made anew may have fewer partitions.
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
            told = f"{self._missed} is back" if is_back else f"others lead instead of {self._missed}"
            click.echo(f"{told}: reading on", err=True)
            self._missed = self._missed_at = None

    def _miss(self, who: str, why: str) -> None:
        self.suspicious = True
        if self._missed is None:
            click.echo(f"Warning: {who} {why}; waiting until that changes, Ctrl-C stops", err=True)
            self._missed = who
