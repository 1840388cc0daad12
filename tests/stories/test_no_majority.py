"""Two of three nodes die: the last one has no metadata majority, reports that, and serves the partitions it leads."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from odradek.testing import Embedded
from support.onlooker import WITHIN_S, await_whole, controller, create, eventually, odradek, partitions
from support.traffic import Writer, everything, nothing_is_lost

pytestmark = pytest.mark.stories


def write(cluster: Embedded, topic: str, number: int, **config: object) -> object:
    """The error, if there is one."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **config})
    producer.produce(topic, str(number), partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WITHIN_S) == 0
    return errors[0]


def in_sync(cluster: Embedded, topic: str) -> list[list[int]]:
    """The ISR of each partition; empty while no broker answers."""
    return [sorted(seen.in_sync) for seen in partitions(cluster, topic).values()]


def await_health(cluster: Embedded, sentence: str) -> str:
    """The output of `odradek cluster health`, once it contains the sentence."""
    said = ""

    def says_it() -> bool:
        nonlocal said
        said = odradek(cluster, "cluster", "health").output
        return sentence in said

    eventually(says_it, f"nobody says: {sentence}")
    return said


def test_without_a_majority_the_survivor_serves_its_partitions_and_one_peer_restores_the_cluster() -> None:
    with Embedded(brokers=3) as cluster:
        last = controller(cluster)
        peer, third = (node_id for node_id in (1, 2, 3) if node_id != last)
        create(cluster, "t", [[last, peer, third]], {"min.insync.replicas": "2"})
        with Writer(cluster.bootstrap_servers, "t", 1) as writer:
            writer.await_more()
        before = len(writer.acknowledged)

        cluster.nodes[peer].kill()
        cluster.nodes[third].kill()

        said = await_health(cluster, "no metadata majority (1 of 3)")
        assert f"nodes {peer} and {third} cannot be reached" in said
        # Acknowledged records can be read, and acks=1 writes succeed.
        # Without a metadata majority the ISR cannot shrink: acks=all writes time out.
        nothing_is_lost(writer, cluster.bootstrap_servers)
        assert write(cluster, "t", before, acks=1) is None
        assert write(cluster, "t", before, **{"message.timeout.ms": 1000}) is not None
        assert len(everything(cluster.bootstrap_servers, "t", 1)) == before
        with pytest.raises(KafkaException):
            create(cluster, "never", 1, within_s=1)

        cluster.nodes[peer].start()

        eventually(lambda: in_sync(cluster, "t") == [sorted((last, peer))], "the peer is not back")
        assert write(cluster, "t", before + 1, acks="all") is None
        with Writer(cluster.bootstrap_servers, "t", 1) as writer_again:
            writer_again.await_more()
        create(cluster, "more", 1, copies=2)
        await_health(cluster, "2 of 3 do, and no other may fail")
        found = everything(cluster.bootstrap_servers, "t", 1)
        assert writer.acknowledged.items() <= found.items()
        assert found[0, before] == before

        cluster.nodes[third].start()
        await_whole(cluster, "t")
        await_health(cluster, "healthy: 3 of 3 brokers alive")
