"""Tests wait for conditions with `support.waiting`, and do not sleep for a fixed time."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]

# A sleep costs nothing on the virtual clock of the simulation.
ON_VIRTUAL_TIME = {
    "coordinator/test_runtime.py",
    "server/metrics/test_node.py",
    "server/network/test_peers.py",
    "server/test_dynamic_configs.py",
    "server/test_group_apis.py",
    "sim/test_loop.py",
    "sim/test_net.py",
}
MAY_SLEEP = {
    "support/waiting.py": "the shared wait",
    "chaos/cluster.py": "a program of its own, not a test",
    "chaos/nemesis.py": "the time between faults",
    "client/test_producer.py": "slows threads down to provoke a race",
    "crash/test_kill_under_load.py": "kills at seeded moments",
    "docs/pages.py": "retries a port that another test holds",
    "interop/prometheus/hindered_node.py": "an fsync that takes long",
    "interop/prometheus/observed_cluster.py": "lets a broker fill its disk",
    "interop/test_burrow.py": "Burrow evaluates in real time",
    "interop/test_telemetry.py": "Kafka enforces its push interval in real time",
    "streams/every_verb.py": "a sink that blocks in a worker of Spark",
    "support/chromium.py": "polls a browser",
    "support/copying/ordeal.py": "kills at seeded moments",
    "support/other_traffic.py": "the rate of a load generator",
}


def sleeps(path: Path) -> list[int]:
    """Lines that sleep. `asyncio.sleep(0)` only gives other tasks a turn."""
    name = str(path.relative_to(TESTS))
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ("time.sleep", "asyncio.sleep", "sleep"):
            continue
        is_turn = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
        is_virtual = ast.unparse(node.func) == "asyncio.sleep" and name in ON_VIRTUAL_TIME
        if not is_turn and not is_virtual:
            found.append(node.lineno)
    return found


def test_tests_wait_for_conditions_instead_of_sleeping() -> None:
    sleeping = {str(path.relative_to(TESTS)): lines for path in sorted(TESTS.rglob("*.py")) if (lines := sleeps(path))}
    new = {name: lines for name, lines in sleeping.items() if name not in MAY_SLEEP}
    assert not new, f"use wait_until or until of support.waiting: {new}"
    assert not MAY_SLEEP.keys() - sleeping.keys(), "these no longer sleep: remove them from MAY_SLEEP"
