"""A node in a process: what it leaves behind when it cannot start or fails."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from odradek.base.invariants import invariant
from odradek.node.config import NodeConfig
from odradek.node.local_cluster import local_nodes
from odradek.node.machine import new_event_loop
from odradek.node.process import NodeFailed, serve
from support.loops import WITHIN_S
from support.waiting import until


def open_files(directory):
    """Open files of this process under `directory`."""
    targets = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue
    return [target for target in targets if target.startswith(str(directory))]


def config(port=0):
    return NodeConfig.parse({"listeners": f"PLAINTEXT://127.0.0.1:{port}"})


def test_a_start_that_fails_leaves_no_file_open(tmp_path):
    async def scenario(port):
        await serve(config(port), tmp_path, lambda _: None, asyncio.Event())

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        asyncio.run(scenario(taken.getsockname()[1]))
    assert open_files(tmp_path) == []


def test_a_node_that_fails_closes_its_connections_and_files(tmp_path):
    async def fail():
        raise RuntimeError("as if the metadata log had failed")

    async def scenario():
        started = asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(serve(config(), tmp_path, started.set_result, asyncio.Event()))
        node = await started
        reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
        node._ports.spawner.spawn("metadata log", fail())
        with pytest.raises(NodeFailed, match="as if"):
            await serving
        async with asyncio.timeout(WITHIN_S):
            assert await reader.read() == b""
        writer.close()

    asyncio.run(scenario())
    assert open_files(tmp_path) == []


async def outcome_of(callback):
    """Runs `callback` on a node's loop. Stops the node if the callback has not ended it."""
    started, stopping = asyncio.get_running_loop().create_future(), asyncio.Event()
    serving = asyncio.ensure_future(serve(config(), None, started.set_result, stopping))
    await started
    asyncio.get_running_loop().call_later(0, callback)
    await asyncio.wait({serving}, timeout=0.1)
    stopping.set()
    await serving


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, new_event_loop])
def test_an_exception_in_a_callback_ends_the_node(new_loop):
    def fail():
        invariant(False, "as if a timer had met what cannot be")

    with asyncio.Runner(loop_factory=new_loop) as runner, pytest.raises(NodeFailed, match="as if a timer"):
        runner.run(outcome_of(fail))


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, new_event_loop])
def test_connection_errors_do_not_end_the_node(new_loop, caplog):
    def fail():
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "of a transport", "exception": RuntimeError("as if")})
        loop.call_soon(None.__getattribute__, "as if of a library")
        raise ConnectionResetError("as if the other side were gone")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(outcome_of(fail))
        assert runner.get_loop().get_exception_handler() is None
    assert "of a transport" in caplog.text
    assert "as if the other side were gone" in caplog.text


def test_a_node_that_waits_for_a_majority_can_be_stopped(tmp_path):
    """The only node of three voters that was started."""
    nodes = local_nodes(3, tmp_path, "127.0.0.1", 0, {})
    lonely = NodeConfig.from_properties(nodes[0].properties.read_text())

    async def scenario():
        stopping = asyncio.Event()
        serving = asyncio.ensure_future(serve(lonely, nodes[0].data, lambda _: None, stopping))
        async with asyncio.timeout(WITHIN_S):
            await until_listening(nodes[0].controllers.port)
            assert not serving.done()
            stopping.set()
            await serving

    asyncio.run(scenario())
    assert open_files(tmp_path) == []


async def until_listening(port):
    def is_listening() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    await until(is_listening, f"a listener on port {port}")


def test_a_failure_during_a_start_ends_it(tmp_path):
    nodes = local_nodes(3, tmp_path, "127.0.0.1", 0, {})
    lonely = NodeConfig.from_properties(nodes[0].properties.read_text())
    found = []

    async def fail():
        raise RuntimeError("as if the metadata log had failed")

    def remember(ports):
        found.append(ports)
        return ports

    async def scenario():
        serving = asyncio.ensure_future(serve(lonely, nodes[0].data, lambda _: None, asyncio.Event(), around=remember))
        async with asyncio.timeout(WITHIN_S):
            await until_listening(nodes[0].controllers.port)
            found[0].spawner.spawn("metadata log", fail())
            with pytest.raises(NodeFailed, match="as if"):
                await serving

    asyncio.run(scenario())
    assert open_files(tmp_path) == []
