"""Fetch by followers, and by consumers of followers: up to the log end, divergence, permissions, preferred replica."""

from __future__ import annotations

import asyncio

import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from odradek.protocol.messages.p23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.security.authorizer import Operation
from support.data_broker import batch
from support.replica_brokers import ReplicaBrokers, until

FOREVER_MS = 60_000
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def request(cluster, *, replica=2, replica_epoch=1, offset=0, epoch=0, last_epoch=-1, topic="t", **fields):
    wanted = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
        partition_max_bytes=10**6,
    )
    topic_id = cluster.image.topics[topic].topic_id
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=replica_epoch),
        topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
        **{"max_wait_ms": 0, "min_bytes": 1, **fields},
    )


async def fetch(client, asked, version=17):
    answer = await client.ask(asked, FetchResponse, version)
    (topic,) = answer.responses
    (part,) = topic.partitions
    return part


class Quiet(ReplicaBrokers):
    """No broker fetches by itself: the test does."""

    async def __aenter__(self):
        await super().__aenter__()
        for broker in self.brokers.values():
            await broker.fetchers.stop()
        return self


def test_a_follower_reads_to_the_end_and_thereby_commits(run):
    async def scenario():
        async with Quiet(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            producer, follower = await cluster[1].connect(), await cluster[1].connect()
            await producer.produce("t", batch("a"))
            part = await fetch(follower, request(cluster))
            assert (part.error_code, part.high_watermark, len(part.records)) == (0, 0, len(batch("a")))
            part = await fetch(follower, request(cluster, offset=1, last_epoch=0))
            assert (part.error_code, part.high_watermark, part.records) == (0, 1, b"")

    run(scenario())


def test_a_parked_follower_is_woken_by_an_append_that_is_not_committed(run):
    async def scenario():
        async with Quiet(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            producer, follower = await cluster[1].connect(), await cluster[1].connect()
            follower.send(request(cluster, max_wait_ms=FOREVER_MS), 17)
            await until(lambda: cluster[1].broker.parked_fetches)
            await producer.produce("t", batch("a"))
            _, answer = await follower.receive(FetchResponse, 17)
            assert answer.responses[0].partitions[0].records
            assert cluster[1].partition().high_watermark == 0
            assert not cluster[1].partition().tail_readers

    run(scenario())


def test_a_new_log_start_is_sent_to_the_follower_at_once(run):
    """Until the follower knows the new log start, it cannot join the ISR."""

    async def scenario():
        async with Quiet(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            producer, follower = await cluster[1].connect(), await cluster[1].connect()
            await producer.produce("t", batch("a"))
            cluster[1].partition().log.advance_log_start(1)
            part = await fetch(follower, request(cluster, offset=1, last_epoch=0, max_wait_ms=FOREVER_MS))
            assert (part.error_code, part.log_start_offset, part.records) == (0, 1, b"")

    run(scenario())


def test_a_followers_fetch_answers_the_waiting_producer(run):
    async def scenario():
        async with Quiet(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            producer, follower = await cluster[1].connect(), await cluster[1].connect()
            waiting = asyncio.create_task(producer.produce("t", batch("a"), acks=-1))
            await until(lambda: cluster[1].partition().log.log_end_offset == 1)
            follower.send(request(cluster, offset=1, last_epoch=0, max_wait_ms=FOREVER_MS), 17)
            (produced,) = await waiting
            assert produced.error_code == 0
            assert cluster[1].broker.parked_fetches

    run(scenario())


def test_a_divergence_is_reported_at_once(run):
    async def scenario():
        async with Quiet(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            producer, follower = await cluster[1].connect(), await cluster[1].connect()
            await producer.produce("t", batch("a"))
            cluster.change(leader=1)
            part = await fetch(follower, request(cluster, epoch=1, offset=5, last_epoch=0, max_wait_ms=FOREVER_MS))
            assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset, part.records) == (0, 1, b"")
            part = await fetch(follower, request(cluster, epoch=1, offset=1, last_epoch=0))
            assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (-1, -1)

    run(scenario())


@pytest.mark.parametrize(("fields", "code"), [
    ({"replica": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ({"replica": 9, "epoch": -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ({"replica_epoch": 0}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ({"epoch": 3}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ({"offset": 9}, ErrorCode.OFFSET_OUT_OF_RANGE),
])  # fmt: skip
def test_errors_for_invalid_follower_fetches(run, fields, code):
    async def scenario():
        async with Quiet(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            part = await fetch(await cluster[1].connect(), request(cluster, max_wait_ms=FOREVER_MS, **fields))
            assert part.error_code == code
            assert part.log_start_offset == (0 if code == ErrorCode.OFFSET_OUT_OF_RANGE else -1)

    run(scenario())


def test_only_brokers_may_fetch_as_replicas(run):
    class NoBrokers:
        def authorize(self, _principal, operation, _type, _name):
            return operation is not Operation.CLUSTER_ACTION

    async def scenario():
        async with Quiet(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            cluster[1].broker.authorizer = NoBrokers()
            part = await fetch(await cluster[1].connect(), request(cluster))
            assert part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(scenario())


def test_a_fetch_from_the_wrong_broker_returns_the_current_leader(run):
    async def scenario():
        async with Quiet(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            client = await cluster[2].connect()
            answer = await client.ask(request(cluster, replica=1), FetchResponse, 17)
            leader = answer.responses[0].partitions[0].current_leader
            assert (leader.leader_id, leader.leader_epoch) == (1, 0)
            assert [(node.node_id, node.port) for node in answer.node_endpoints] == [(1, cluster[1].port)]

    run(scenario())


def test_a_consumer_reads_from_a_follower_what_it_knows_to_be_committed(run):
    async def scenario():
        async with ReplicaBrokers(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            producer, consumer = await cluster[1].connect(), await cluster[2].connect()
            consumer.send(consumer.fetch_request("t", {0: 0}, version=12, max_wait_ms=FOREVER_MS), 12)
            await producer.produce("t", batch("a"), acks=-1)
            _, answer = await consumer.receive(FetchResponse, 12)
            part = answer.responses[0].partitions[0]
            assert (part.error_code, part.high_watermark, len(part.records)) == (0, 1, len(batch("a")))
            await cluster[2].fetchers.stop()
            await producer.produce("t", batch("b"))
            assert (await consumer.fetch("t", {0: 2}))[0].error_code == ErrorCode.OFFSET_NOT_AVAILABLE
            assert (await consumer.fetch("t", {0: 1}))[0].records == b""
            assert (await consumer.fetch("t", {0: 0}, version=10))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario())


def test_a_consumer_is_redirected_to_the_replica_in_its_rack(run):
    async def scenario():
        racks = {1: "east", 2: "west", 3: "west"}
        async with ReplicaBrokers(3, racks=racks, replica_selector_class=RACK_AWARE) as cluster:
            cluster.create_topic("t", isr=(1, 3))
            producer = await cluster[1].connect()
            await producer.produce("t", batch("a"), acks=-1)
            for rack, preferred in (("west", 3), ("east", -1), ("north", -1), ("", -1)):
                part = (await producer.fetch("t", {0: 0}, rack_id=rack, max_wait_ms=FOREVER_MS))[0]
                assert (part.preferred_read_replica, bool(part.records)) == (preferred, preferred == -1)
            # Not redirected at an offset that the leader has not sent to the follower yet.
            part = (await producer.fetch("t", {0: 1}, rack_id="west"))[0]
            assert (part.error_code, part.preferred_read_replica) == (0, 3)
            cluster.register(3, fenced=True)
            part = (await producer.fetch("t", {0: 0}, rack_id="west"))[0]
            assert (part.preferred_read_replica, bool(part.records)) == (-1, True)

    run(scenario())


def test_a_consumer_stays_with_a_leader_in_its_rack_or_when_no_follower_has_its_offset(run):
    async def scenario():
        for racks, offset, preferred in (({1: "west", 2: "west"}, 0, -1), ({2: "west"}, 1, 2), ({2: "west"}, 2, -1)):
            async with ReplicaBrokers(2, racks=racks, replica_selector_class=RACK_AWARE) as cluster:
                cluster.create_topic("t", replicas=(1, 2))
                client = await cluster[1].connect()
                await client.produce("t", batch("a"), acks=-1)
                await cluster[2].fetchers.stop()
                await client.produce("t", batch("b"))
                part = (await client.fetch("t", {0: offset}, rack_id="west"))[0]
                assert (part.error_code, part.preferred_read_replica) == (0, preferred)

    run(scenario())


def test_without_a_selector_consumers_read_from_the_leader(run):
    async def scenario():
        async with ReplicaBrokers(2, racks={1: "east", 2: "west"}) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            producer = await cluster[1].connect()
            await producer.produce("t", batch("a"), acks=-1)
            part = (await producer.fetch("t", {0: 0}, rack_id="west"))[0]
            assert (part.preferred_read_replica, bool(part.records)) == (-1, True)

    run(scenario())


@pytest.mark.parametrize("slots", ["0", "1000"])
def test_if_consumers_read_from_followers_a_new_high_watermark_is_sent_at_once(run, slots):
    async def scenario():
        async with ReplicaBrokers(
            2,
            replica_selector_class=RACK_AWARE,
            replica_fetch_wait_max_ms="60000",
            max_incremental_fetch_session_cache_slots=slots,
        ) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            producer = await cluster[1].connect()
            for number in range(3):
                await producer.produce("t", batch("a"), acks=-1)
                await until(lambda: cluster[2].partition().high_watermark == number + 1)  # noqa: B023

    run(scenario())


def test_if_consumers_read_from_followers_each_high_watermark_is_sent_once_without_a_session(run):
    async def scenario():
        async with Quiet(2, replica_selector_class=RACK_AWARE) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            await (await cluster[1].connect()).produce("t", batch("a"))
            follower = await cluster[1].connect()
            waiting = {"max_wait_ms": FOREVER_MS, "last_epoch": 0}
            part = await fetch(follower, request(cluster, offset=1, **waiting))
            assert (part.high_watermark, part.records) == (1, b"")
            follower.send(request(cluster, offset=1, **waiting), 17)
            await until(lambda: cluster[1].broker.parked_fetches)
            # A watermark sent to a follower together with a divergence does not count.
            again = await cluster[1].connect()
            assert (await fetch(again, request(cluster, offset=2, **waiting))).diverging_epoch.end_offset == 1
            assert (await fetch(again, request(cluster, offset=1, **waiting))).high_watermark == 1

    run(scenario())


def test_a_follower_gets_the_watermark_again_that_was_sent_to_its_dead_connection(run):
    """Its former connection is dead, but the leader does not know that yet and answers it first."""

    async def scenario():
        async with Quiet(3, replica_selector_class=RACK_AWARE) as cluster:
            cluster.create_topic("t")
            await (await cluster[1].connect()).produce("t", batch("a"))
            former, present, other = [await cluster[1].connect() for _ in range(3)]
            asked = request(cluster, offset=1, last_epoch=0, max_wait_ms=FOREVER_MS)
            assert (await fetch(former, asked)).high_watermark == 0
            for number, connection in enumerate((former, present), start=1):
                connection.send(asked, 17)
                await until(lambda: len(cluster[1].broker.parked_fetches) == number)  # noqa: B023
            await fetch(other, request(cluster, replica=3, offset=1, last_epoch=0))
            for connection in (former, present):
                _, answer = await connection.receive(FetchResponse, 17)
                assert answer.responses[0].partitions[0].high_watermark == 1

    run(scenario())


def test_a_leader_epoch_ends_where_the_next_one_begins(run):
    async def scenario():
        async with ReplicaBrokers(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            for leader, epoch in ((1, 0), (2, 1), (1, 2), (1, 3), (2, 4)):
                if epoch:
                    cluster.change(leader=leader)
                client = await cluster[leader].connect()
                if epoch != 3:
                    (produced,) = await client.produce("t", batch("a", "b"), acks=-1)
                    assert produced.error_code == 0
            # Epoch 3 wrote nothing; 5 is not known.
            for epoch, end in ((0, (0, 2)), (1, (1, 4)), (2, (2, 6)), (3, (2, 6)), (4, (4, 8)), (5, (-1, -1))):
                wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=4, leader_epoch=epoch)
                asked = OffsetForLeaderEpochRequest(
                    replica_id=1, topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])]
                )
                answer = await client.ask(asked, OffsetForLeaderEpochResponse, 4)
                part = answer.topics[0].partitions[0]
                assert (part.error_code, part.leader_epoch, part.end_offset) == (0, *end)

    run(scenario())
