"""/readyz of the last of three nodes: not ready while no majority is there, again and again, then ready again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from odradek.node.local_cluster import LocalNode, local_nodes
from support.broker_process import free_port
from support.waiting import wait_until

pytestmark = pytest.mark.stories

WITHIN_S = 60.0
IDS = (1, 2, 3)


class Nodes:
    """Three nodes as processes with HTTP."""

    def __init__(self, folder: Path) -> None:
        self._http = {node_id: f"127.0.0.1:{free_port()}" for node_id in IDS}
        own = {node_id: {"http.listener": address} for node_id, address in self._http.items()}
        self._nodes: dict[int, LocalNode] = {
            node.node_id: node for node in local_nodes(3, folder, "127.0.0.1", 0, {}, own=own)
        }
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            command = [sys.executable, "-m", "odradek.cli", "node", "start"]
            config = ["--config", str(self._nodes[node_id].properties)]
            self._running[node_id] = subprocess.Popen([*command, *config], stdout=subprocess.DEVNULL)
        for node_id in node_ids:
            wait_until(
                lambda node_id=node_id: self.readiness(node_id) == [], f"node {node_id} ready", within_s=WITHIN_S
            )

    def kill(self, *node_ids: int) -> None:
        for node_id in node_ids:
            process = self._running.pop(node_id)
            process.kill()
            process.wait()

    def readiness(self, node_id: int) -> list[str] | None:
        """The reasons why it is not ready; None if it does not answer."""
        try:
            answer = httpx.get(f"http://{self._http[node_id]}/readyz", timeout=10)
        except httpx.TransportError:
            return None
        reasons: list[str] = answer.json()["reasons"]
        assert answer.status_code == (503 if reasons else 200)
        return reasons

    def raft(self, node_id: int, attribute: str) -> object:
        url = f"http://{self._http[node_id]}/jolokia/read/kafka.server:type=raft-metrics/{attribute}"
        return httpx.get(url, timeout=10).json()["value"]

    def close(self) -> None:
        self.kill(*list(self._running))


@contextmanager
def three_nodes(folder: Path) -> Iterator[Nodes]:
    nodes = Nodes(folder)
    try:
        nodes.start(*IDS)
        yield nodes
    finally:
        nodes.close()


@pytest.mark.parametrize("survivor_leads", [False, True])
def test_the_last_node_is_not_ready_until_a_majority_is_back(tmp_path: Path, survivor_leads: bool) -> None:
    with three_nodes(tmp_path) as nodes:
        leader = nodes.raft(1, "current-leader")
        assert isinstance(leader, int)
        last = leader if survivor_leads else next(node_id for node_id in IDS if node_id != leader)
        others = [node_id for node_id in IDS if node_id != last]

        nodes.kill(*others)
        wait_until(lambda: nodes.readiness(last), "the last node reports that it is not ready", within_s=WITHIN_S)

        # Whatever it takes itself for: each attempt to be elected fails, and it follows the dead leader again.
        seen: list[object] = []

        def has_tried_twice() -> bool:
            assert nodes.readiness(last), f"not ready all the time; it was {seen}"
            role = nodes.raft(last, "current-state")
            if role != (seen[-1] if seen else None):
                seen.append(role)
            return seen.count("prospective") >= 2

        wait_until(has_tried_twice, "two attempts to be elected", within_s=WITHIN_S)

        nodes.start(others[0])
        wait_until(lambda: nodes.readiness(last) == [], "the last node is ready again", within_s=WITHIN_S)
