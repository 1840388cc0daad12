"""A node on this machine, as `serve` runs it."""

from __future__ import annotations

import asyncio

import pytest

from odradek.node.build import Node
from odradek.node.config import NodeConfig
from odradek.node.machine import DirectoryInUse, locked
from odradek.node.process import NodeFailed, serve

CONFIG = NodeConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})


async def fail() -> None:
    raise OSError("the disk is gone")


def test_a_failure_while_the_node_stops_is_not_a_clean_stop(monkeypatch):
    stop = Node.stop

    async def stop_and_fail(node: Node) -> None:
        node._ports.spawner.spawn("last work", fail())
        await stop(node)

    monkeypatch.setattr(Node, "stop", stop_and_fail)

    async def run() -> None:
        stopping = asyncio.Event()
        await serve(CONFIG, None, lambda _: stopping.set(), stopping)

    with pytest.raises(NodeFailed, match="last work: the disk is gone"):
        asyncio.run(run())


def test_a_failed_node_keeps_its_directory_until_nothing_writes_to_it_any_more(monkeypatch, tmp_path):
    free_for_others: list[bool] = []

    def write() -> None:
        try:
            with locked(tmp_path):
                free_for_others.append(True)
        except DirectoryInUse:
            free_for_others.append(False)

    async def write_at_last(node: Node) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await node._ports.spawner.blocking(write)

    async def start_and_fail(node: Node) -> None:
        node._ports.spawner.spawn("last work", write_at_last(node))
        await asyncio.sleep(0)
        await fail()

    monkeypatch.setattr(Node, "start", start_and_fail)
    with pytest.raises(OSError, match="the disk is gone"):
        asyncio.run(serve(CONFIG, tmp_path, lambda _: None, asyncio.Event()))
    assert free_for_others == [False]
