"""Several nodes as processes. A fake node reports that it is ready, and ends as its file says."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from odradek.node.listeners import Endpoint
from odradek.node.local_cluster import LocalNode
from odradek.node.supervisor import Patience, Supervisor
from support.processes import runs
from support.waiting import wait_until

STAND_IN = """
import os, signal, sys, time
name, behaviour = sys.argv[1:]
def stop(*_):
    print(name, "stops", file=sys.stderr, flush=True)
    sys.exit(0)
if behaviour != "stubborn":
    signal.signal(signal.SIGTERM, stop)
else:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if behaviour == "broken":
    print("x" * 200_000, file=sys.stderr)
    sys.exit(7)
print("ready", flush=True)
print("listening", file=sys.stderr, flush=True)
if behaviour == "group":
    print("in a group of its own:", os.getpgrp() == os.getpid(), file=sys.stderr, flush=True)
if behaviour == "dying":
    sys.exit(3)
os.read(0, 1)
"""


class World:
    def __init__(self, tmp_path: Path, behaviours: list[str], **options: object) -> None:
        self.said: list[str] = []
        self.logged: list[str] = []
        self._script = tmp_path / "node.py"
        self._script.write_text(STAND_IN)
        self._behaviours = behaviours
        self._options = options
        self.changed = asyncio.Event()

    def _node(self, node_id: int) -> LocalNode:
        where = Endpoint(host="127.0.0.1", port=9091 + node_id)
        return LocalNode(
            node_id=node_id, clients=where, controllers=where, data=Path(), properties=Path(f"{node_id}.properties")
        )

    def _command(self, properties: Path) -> list[str]:
        behaviour = self._behaviours[int(properties.stem) - 1]
        return [sys.executable, "-S", str(self._script), properties.stem, behaviour]

    def _heard(self, where: list[str], line: str) -> None:
        where.append(line)
        self.changed.set()

    def supervisor(self) -> Supervisor:
        return Supervisor(
            [self._node(index) for index, _ in enumerate(self._behaviours, 1)],
            command=self._command,
            tell=lambda line: self._heard(self.said, line),
            log=lambda node_id, line: self._heard(self.logged, f"{node_id} | {line}"),
            **self._options,
        )

    async def until(self, line: str, times: int = 1) -> None:
        async with asyncio.timeout(20):
            while (self.said + self.logged).count(line) < times:
                self.changed.clear()
                await self.changed.wait()


def test_nodes_start_and_stop_one_after_another(tmp_path):
    async def scenario():
        world = World(tmp_path, ["good", "good", "good"])
        supervisor = world.supervisor()
        running = asyncio.ensure_future(supervisor.run())
        await world.until("Odradek is ready on 127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094. Ctrl-C stops it.")
        for node_id in (1, 2, 3):
            await world.until(f"{node_id} | listening")
        supervisor.stop()
        assert await running
        assert sorted(world.said[:3]) == [f"node {n} is ready on 127.0.0.1:{9091 + n}" for n in (1, 2, 3)]
        assert world.logged[-3:] == ["1 | 1 stops", "2 | 2 stops", "3 | 3 stops"]

    asyncio.run(scenario())


def test_a_dead_node_is_reported_and_the_others_continue(tmp_path):
    async def scenario():
        world = World(tmp_path, ["good", "dying", "broken"])
        supervisor = world.supervisor()
        running = asyncio.ensure_future(supervisor.run())
        await world.until("node 2 ended with status 3")
        await world.until("node 3 ended with status 7")
        await world.until("1 | listening")
        assert not running.done()
        supervisor.stop()
        assert not await running
        assert world.logged[-1] == "1 | 1 stops"
        assert sum(len(line) - 4 for line in world.logged if line.startswith("3 | ")) == 200_000

    asyncio.run(scenario())


def test_the_supervisor_ends_when_no_node_is_left(tmp_path):
    async def scenario():
        world = World(tmp_path, ["dying", "broken"])
        assert not await world.supervisor().run()

    asyncio.run(scenario())


def test_with_restart_the_pause_grows_with_each_failed_start(tmp_path):
    async def scenario():
        patience = Patience(restart_first_s=0.01, restart_last_s=0.04)
        world = World(tmp_path, ["good", "broken"], restart=True, patience=patience)
        supervisor = world.supervisor()
        running = asyncio.ensure_future(supervisor.run())
        await world.until("node 2 ended with status 7", times=5)
        supervisor.stop()
        await running
        pauses = [line for line in world.said if "restarts in" in line]
        assert pauses[:4] == [f"node 2 restarts in {s} s" for s in ("0.01", "0.02", "0.04", "0.04")]

    asyncio.run(scenario())


def test_a_node_that_does_not_stop_is_killed(tmp_path):
    async def scenario():
        world = World(tmp_path, ["stubborn", "good"], patience=Patience(stop_s=2))
        supervisor = world.supervisor()
        running = asyncio.ensure_future(supervisor.run())
        await world.until("1 | listening")
        await world.until("2 | listening")
        supervisor.stop()
        assert not await running
        assert world.said[-2:] == ["node 1 has not stopped within 2 s", "node 1 was ended by SIGKILL"]
        assert world.logged[-1] == "2 | 2 stops"

    asyncio.run(scenario())


def test_a_second_stop_does_not_wait_for_nodes(tmp_path):
    async def scenario():
        world = World(tmp_path, ["stubborn"])
        supervisor = world.supervisor()
        running = asyncio.ensure_future(supervisor.run())
        await world.until("1 | listening")
        supervisor.stop()
        supervisor.stop()
        assert not await running

    asyncio.run(scenario())


@pytest.mark.parametrize("turns", range(6))
def test_a_stop_during_the_start_leaves_no_node_behind(tmp_path, turns):
    async def scenario():
        world = World(tmp_path, ["good", "good"])
        supervisor = world.supervisor()
        running = asyncio.ensure_future(supervisor.run())
        for _ in range(turns):
            await asyncio.sleep(0)
        supervisor.stop()
        assert await asyncio.wait_for(running, 20)

    asyncio.run(scenario())


def test_a_node_that_was_ready_restarts_after_the_first_pause(tmp_path):
    async def scenario():
        patience = Patience(restart_first_s=0.01, restart_last_s=100)
        world = World(tmp_path, ["dying"], restart=True, patience=patience)
        supervisor = world.supervisor()
        running = asyncio.ensure_future(supervisor.run())
        await world.until("node 1 restarts in 0.01 s", times=3)
        supervisor.stop()
        await running

    asyncio.run(scenario())


def test_ctrl_c_at_the_terminal_reaches_only_the_supervisor(tmp_path):
    """Otherwise all nodes would stop at once, and no node could take over the leadership."""

    async def scenario():
        world = World(tmp_path, ["group"])
        supervisor = world.supervisor()
        running = asyncio.ensure_future(supervisor.run())
        await world.until("1 | in a group of its own: True")
        supervisor.stop()
        assert await running

    asyncio.run(scenario())


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at /proc")
def test_nodes_stop_when_the_supervisor_is_killed(tmp_path):
    script = textwrap.dedent(f"""
        import asyncio, pathlib, sys
        sys.path[:0] = {sys.path!r}
        from node.test_supervisor import World
        world = World(pathlib.Path({str(tmp_path)!r}), ["good", "stubborn"])
        asyncio.run(world.supervisor().run())
    """)
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as supervisor:
        children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children")
        wait_until(lambda: len(children.read_text().split()) == 2, "both nodes run")
        nodes = children.read_text().split()
        supervisor.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(runs(int(pid)) for pid in nodes), "the nodes end with their supervisor")
