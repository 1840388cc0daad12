"""The examples that need no Spark, against a broker in memory: each does what its docstring says."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from odradek.testing import Embedded

HERE = Path(__file__).parent
NAMES = ("messaging", "activity", "metrics", "log_aggregation", "event_sourcing", "commit_log")


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_queue_and_a_subscription(odradek: Embedded) -> None:
    done = example("messaging").run(odradek.bootstrap_servers)
    every = {f"parcel {number}": 1 for number in range(20)}
    assert done == {"dispatch": every, "billing": every}


def test_activity(odradek: Embedded) -> None:
    activity = example("activity")
    activity.track(odradek.bootstrap_servers)
    visits = activity.last_hour(odradek.bootstrap_servers)
    assert visits == {visitor: [f"/step/{n}" for n in range(5)] for visitor in ("ada", "grace", "linus")}


def test_metrics(odradek: Embedded) -> None:
    averages = asyncio.run(example("metrics").run(odradek.bootstrap_servers))
    assert averages == {f"host-{n}": n + 1.0 for n in range(4)}


def test_log_aggregation(odradek: Embedded) -> None:
    lines = example("log_aggregation").run(odradek.bootstrap_servers)
    assert lines == ["INFO shop: open", "WARNING shop.till: drawer is stuck"]


def test_event_sourcing(odradek: Embedded) -> None:
    sourcing = example("event_sourcing")
    on_monday, now = sourcing.run(odradek.bootstrap_servers)
    assert (on_monday, now) == ({"gregor": 10_000, "grete": 2_500}, {"gregor": 5_800, "grete": 2_200})
    assert sourcing.balances(odradek.bootstrap_servers, at=datetime(2020, 1, 1, tzinfo=UTC)) == {}


def test_commit_log(odradek: Embedded) -> None:
    assert example("commit_log").run(odradek.bootstrap_servers) == {"theme": "light"}


@pytest.mark.parametrize("name", NAMES)
def test_example_runs_as_a_program(odradek_session: Embedded, name: str) -> None:
    program = [sys.executable, str(HERE / f"{name}.py"), odradek_session.bootstrap_servers]
    told = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip()
