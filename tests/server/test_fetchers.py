"""Brokers that follow each other over sockets: catching up, elections, long polls, fsync before the next fetch."""

from __future__ import annotations

import asyncio

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p00_produce import ProduceResponse
from support.data_broker import batch
from support.replica_brokers import ReplicaBrokers, until
from support.waiting import let_others_run


def ends(cluster, topic="t", index=0):
    return [broker.partition(topic, index).log.log_end_offset for broker in cluster.brokers.values()]


def watermarks(cluster, topic="t", index=0):
    return [broker.partition(topic, index).high_watermark for broker in cluster.brokers.values()]


def test_acks_all_waits_for_followers_and_followers_learn_of_the_commit(run):
    async def scenario():
        async with ReplicaBrokers() as cluster:
            cluster.create_topic("t")
            client = await cluster[1].connect()
            for number in range(20):
                (answer,) = await client.produce("t", batch(f"v{number}"), acks=-1)
                assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, number)
            assert ends(cluster) == [20] * 3
            await until(lambda: watermarks(cluster) == [20] * 3)

    run(scenario())


def test_a_follower_catches_up_with_many_partitions(run):
    async def scenario():
        async with ReplicaBrokers(2, replica_fetch_response_max_bytes="2000") as cluster:
            cluster.create_topic("t", replicas=(1, 2), isr=(1,), partitions=30)
            client = await cluster[1].connect()
            for index in range(30):
                for _ in range(3):
                    await client.produce("t", (index, batch("x" * 300)))
            await until(lambda: all(ends(cluster, index=index) == [3, 3] for index in range(30)))
            await until(lambda: len(cluster[1].proposals) == 30)

    run(scenario())


def test_a_parked_produce_is_answered_when_its_leader_is_deposed(run):
    async def scenario():
        async with ReplicaBrokers(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            await cluster[2].fetchers.stop()
            client = await cluster[1].connect()
            client.send(client.produce_request("t", batch("x"), acks=-1), 9)
            await until(lambda: cluster[1].partition().log.log_end_offset == 1)
            cluster.change(leader=2, isr=[2])
            _, answer = await client.receive(ProduceResponse, 9)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario())


def test_after_an_election_the_old_leader_fetches_from_the_new_one(run):
    async def scenario():
        async with ReplicaBrokers() as cluster:
            cluster.create_topic("t")
            client = await cluster[1].connect()
            await client.produce("t", batch("a"), acks=-1)
            cluster.change(leader=2)
            successor = await cluster[2].connect()
            (answer,) = await successor.produce("t", batch("b"), acks=-1)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
            assert ends(cluster) == [2] * 3
            for broker in cluster.brokers.values():
                followed = [
                    leader_id
                    for leader_id, fetcher in broker.fetchers._fetchers.items()
                    if fetcher._fetching.follows(broker.partition())
                ]
                assert followed == ([] if broker is cluster[2] else [2])

    run(scenario())


def test_an_election_does_not_wait_for_a_long_poll(run):
    """The new leader is already followed for another partition, to which nothing is written for a minute."""

    async def scenario():
        async with ReplicaBrokers(2, replica_fetch_wait_max_ms="60000") as cluster:
            cluster.create_topic("idle", replicas=(2, 1))
            cluster.create_topic("t", replicas=(1, 2), partitions=3)
            await until(lambda: cluster[2].broker.parked_fetches)
            for leader in (2, 1, 2):
                for index in range(3):
                    cluster.change(index=index, leader=leader)
                client = await cluster[leader].connect()
                (produced,) = await client.produce("t", (1, batch("x")), acks=-1)
                assert produced.error_code == ErrorCode.NONE

    run(scenario())


def test_a_follower_has_one_fetch_session_per_leader_however_many_partitions_it_follows(run):
    """Also when the next topic is created before the fetch for the last one was answered with records."""

    async def scenario():
        async with ReplicaBrokers(2, replica_fetch_wait_max_ms="60000") as cluster:
            for number in range(5):
                cluster.create_topic(f"t{number}", replicas=(1, 2))
                await until(lambda: cluster[1].partition(f"t{number}").tail_readers)  # noqa: B023
            assert len(cluster[1].broker.fetch_sessions) == 1

    run(scenario())


def test_a_former_leader_truncates_records_that_its_successor_never_had(run):
    async def scenario():
        async with ReplicaBrokers(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2), isr=(1,))
            client = await cluster[1].connect()
            await client.produce("t", batch("a"))
            await until(lambda: ends(cluster) == [1, 1])
            cluster[1].partition().tail_readers.clear()
            cluster[1].partition().append(memoryview(batch("b", "c")), 1, cluster[1].clock.wall_ms())
            cluster.change(leader=2, isr=[2])
            successor = await cluster[2].connect()
            await successor.produce("t", batch("d"))
            await until(lambda: ends(cluster) == [2, 2])
            await until(lambda: cluster[1].partition().log.leader_epochs.entries() == [(0, 0), (1, 1)])

    run(scenario())


def test_the_next_fetch_waits_for_the_fsync(run):
    """A follower's fetch offset acknowledges all records before it: with flush.messages they must be on disk."""

    async def scenario():
        async with ReplicaBrokers(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2), flush_messages="1")
            client = await cluster[1].connect()
            (answer,) = await client.produce("t", batch("a"), acks=-1)
            assert answer.error_code == ErrorCode.NONE
            assert cluster[2].partition().log.recovery_point == 1

            commits = cluster[2].commits
            await commits.idle()
            commits._running = asyncio.create_task(asyncio.Event().wait())
            client.send(client.produce_request("t", batch("b"), acks=-1), 9)
            await until(lambda: ends(cluster) == [2, 2])
            await until(lambda: cluster[1].partition().log.recovery_point == 2)
            assert watermarks(cluster)[0] == 1
            commits._running.cancel()
            commits._running = None
            commits._run_if_idle()
            _, answer = await client.receive(ProduceResponse, 9)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    run(scenario())


def test_a_follower_fetches_from_the_next_leader_only_after_the_fsync_of_earlier_records(run):
    async def scenario():
        async with ReplicaBrokers(3) as cluster:
            cluster.create_topic("t", flush_messages="1")
            commits = cluster[3].commits
            commits._running = asyncio.create_task(asyncio.Event().wait())
            client = await cluster[1].connect()
            await client.produce("t", batch("a"), acks=1)
            await until(lambda: ends(cluster) == [1, 1, 1])
            cluster.change(leader=2, isr=[2, 3])
            await until(lambda: cluster[2].partition().is_synced(0))
            await let_others_run(1000)
            assert (cluster[3].partition().log.recovery_point, watermarks(cluster)[1]) == (0, 0)
            commits._running.cancel()
            commits._running = None
            commits._run_if_idle()
            await until(lambda: watermarks(cluster) == [1, 1, 1])

    run(scenario())


def test_a_follower_fetches_again_from_a_leader_that_was_gone_for_a_while(run):
    async def scenario():
        async with ReplicaBrokers(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2), isr=(1,))
            client = await cluster[1].connect()
            await client.produce("t", batch("a"))
            await until(lambda: ends(cluster) == [1, 1])
            for connection in list(cluster[1].listener._connections):
                connection.abort()
            client = await cluster[1].connect()
            await client.produce("t", batch("b"))
            await until(lambda: ends(cluster) == [2, 2])

    run(scenario())


def test_a_deleted_topic_is_no_longer_fetched(run):
    async def scenario():
        async with ReplicaBrokers(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            cluster.create_topic("u", replicas=(1, 2))
            client = await cluster[1].connect()
            await client.produce("t", batch("a"), acks=-1)
            cluster.delete_topic("t")
            (answer,) = await client.produce("u", batch("a"), acks=-1)
            assert answer.error_code == ErrorCode.NONE

    run(scenario())


def test_a_replica_that_moves_away_is_removed(run):
    async def scenario():
        async with ReplicaBrokers(3) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            client = await cluster[1].connect()
            await client.produce("t", batch("a"), acks=-1)
            cluster.change(replicas=[1, 3], isr=[1])
            assert cluster[2].partition() is None
            assert not [name for name in cluster[2].disk.listdir("") if name == "t-0"]
            await until(lambda: cluster[3].partition().log.log_end_offset == 1)
            await until(lambda: bool(cluster[1].proposals))
            cluster.decide(1)
            (answer,) = await client.produce("t", batch("b"), acks=-1)
            assert answer.error_code == ErrorCode.NONE

    run(scenario())


def test_a_follower_that_stops_fetching_leaves_the_isr_and_rejoins_later(run):
    async def scenario():
        async with ReplicaBrokers(2) as cluster:
            cluster.create_topic("t", replicas=(1, 2))
            client = await cluster[1].connect()
            await client.produce("t", batch("a"), acks=-1)
            await cluster[2].fetchers.stop()
            await client.produce("t", batch("b"), acks=1)
            await until(lambda: cluster[1].partitions.tick(cluster[1].clock.monotonic_ms()) or cluster[1].proposals)
            cluster.decide(1)
            assert (cluster[1].partition().isr, watermarks(cluster)[0]) == ((1,), 2)
            cluster[2].fetchers._stopping = False
            cluster[2].fetchers.follow(cluster[2].partition())
            await until(lambda: cluster[1].proposals)
            cluster.decide(1)
            assert cluster[1].partition().isr == (1, 2)

    run(scenario())
