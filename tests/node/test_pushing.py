"""A node pushes its metrics to the collectors of its configuration."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from odradek.base.errors import KafkaError
from odradek.monitor.registry import Registry
from odradek.node.config import NodeConfig
from odradek.node.pushing import pushed_metrics
from odradek.web.process_metrics import measure_process


def test_node_pushes_by_dogstatsd():
    registry = Registry(time.monotonic_ns)
    measure_process(registry)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(30)
        config = NodeConfig.parse(
            {
                "node.id": "3",
                "metrics.dogstatsd.address": f"127.0.0.1:{agent.getsockname()[1]}",
                "metrics.push.interval.ms": "1000",
                "metrics.push.labels": "env=test,zone=a",
            }
        )

        async def scenario():
            async with pushed_metrics(config, registry):
                return await asyncio.to_thread(agent.recv, 65536)

        lines = asyncio.run(scenario()).decode().split("\n")
    (files,) = [line for line in lines if line.startswith("process_open_fds:")]
    assert files.endswith("|g|#service:odradek,instance:3,env:test,zone:a")


def test_nothing_is_started_without_a_destination():
    async def scenario():
        async with pushed_metrics(NodeConfig.parse(), Registry(time.monotonic_ns)):
            return asyncio.all_tasks()

    assert len(asyncio.run(scenario())) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metrics.otlp.endpoint", "collector:4318"),
        ("metrics.dogstatsd.address", "agent:http"),
        ("metrics.push.labels", "prod"),
    ],
)
def test_bad_destination_names_its_key(key, value):
    with pytest.raises(KafkaError, match=f"{key}: .*: write"):
        NodeConfig.parse({key: value})
