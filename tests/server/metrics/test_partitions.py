"""Metrics of single partitions, only if they are enabled."""

from __future__ import annotations

from dataclasses import replace

from odradek.monitor.catalogue import partitions as catalogue
from odradek.monitor.metric import Metric
from odradek.monitor.registry import Registry
from odradek.server.metrics.partitions import measure_partitions
from support.data_broker import DataBroker, batch


def enable(running, value=True):
    running.broker.config = replace(running.broker.config, metrics_partitions_enable=value)


def values(registry):
    own = [each for each in vars(catalogue).values() if isinstance(each, Metric)]
    return {(each.metric, each.labels): each.value for each in registry.snapshot() if each.metric in own}


def test_leaders_and_followers_have_their_series(run):
    async def scenario():
        registry = Registry(lambda: 0)
        async with DataBroker() as running:
            running.create_topic("t", 2)
            measure_partitions(registry, running.broker)
            assert values(registry) == {}
            enable(running)
            client = await running.connect()
            await client.produce("t", batch("x", "y"))
            running.register(2)
            running.change_partition("t", 0, replicas=[1, 2], isr=[1], leader=1)
            running.change_partition("t", 1, replicas=[1, 2], isr=[1, 2], leader=2)
            running.partition("t", 1).follow_watermarks(7, 0)
            found = values(registry)
            led, followed = ("t", "0"), ("t", "1")
            assert {metric: value for (metric, labels), value in found.items() if labels == led} == {
                catalogue.SIZE: running.partition("t", 0).log.size_bytes,
                catalogue.LOG_START_OFFSET: 0,
                catalogue.LOG_END_OFFSET: 2,
                catalogue.SEGMENTS: 1,
                catalogue.RETENTION_PERCENT: 0,
                catalogue.REPLICAS: 2,
                catalogue.IN_SYNC_REPLICAS: 1,
                catalogue.UNDER_REPLICATED: 1,
                catalogue.UNDER_MIN_ISR: 0,
                catalogue.AT_MIN_ISR: 1,
                catalogue.LAST_STABLE_OFFSET_LAG: 0,
            }
            assert found[catalogue.SIZE, led] > 0
            assert found[catalogue.FOLLOWER_LAG, ("Replica", *followed)] == 7
            assert (catalogue.REPLICAS, followed) not in found
            enable(running, value=False)
            assert values(registry) == {}

    run(scenario())
