"""All three brokers are restarted, one after another, under clients of three libraries that do not notice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from odradek.testing import Embedded
from support.onlooker import await_whole, create, eventually
from support.other_traffic import AioKafkaReader, AioKafkaWriter, KafkaPythonReader, KafkaPythonWriter
from support.traffic import GroupReader, Writer, nothing_is_lost

pytestmark = pytest.mark.stories

PARTITIONS = 3
CLIENTS = {
    "confluent-kafka": (Writer, GroupReader),
    "kafka-python": (KafkaPythonWriter, KafkaPythonReader),
    "aiokafka": (AioKafkaWriter, AioKafkaReader),
}


def test_clients_do_not_notice_a_rolling_restart(tell: Callable[[str], None]) -> None:
    with Embedded(brokers=3) as cluster, ExitStack() as clients:
        pairs = {}
        for name, (writer, reader) in CLIENTS.items():
            create(cluster, name, PARTITIONS, {"min.insync.replicas": "2"})
            pairs[name] = (
                clients.enter_context(writer(cluster.bootstrap_servers, name, PARTITIONS)),
                clients.enter_context(reader(cluster.bootstrap_servers, name, f"readers of {name}")),
            )

        began_at = time.monotonic()
        for node_id in (1, 2, 3):
            for writer, _ in pairs.values():
                writer.await_more(30)
            cluster.nodes[node_id].restart()
            for name in CLIENTS:
                await_whole(cluster, name)

        for writer, _ in pairs.values():
            writer.await_more(30)
            writer.__exit__(None, None, None)
        gap_s = pairs["confluent-kafka"][0].longest_gap_s(began_at)
        tell(f"restarted three brokers, one after another: no acknowledgement for {gap_s:.2f} s at most")
        for name, (writer, reader) in pairs.items():
            nothing_is_lost(writer, cluster.bootstrap_servers)
            try:
                eventually(
                    lambda reader=reader, writer=writer: len(set(reader.seen)) >= len(writer.acknowledged), "not all"
                )
            finally:
                missed = Counter(partition for partition, _ in writer.acknowledged.keys() - dict(reader.seen).keys())
                assert (reader.errors, dict(missed)) == ([], {}), f"what the reader of {name} missed of each partition"
            assert dict(reader.seen) == writer.acknowledged
            again = [place for place, count in Counter(place for place, _ in reader.seen).items() if count > 1]
            assert not again, f"{name} saw {len(again)} records twice"
