"""Faults while windows are counted and streams joined: afterwards every record is there, and none twice.

In each round, clicks are sent, a process is killed at a seeded moment, and the application recovers. Then the clicks
end, and all records of the output are compared with the input. One application runs through all rounds, so a later
round also finds damage of an earlier one.

`make faults ROUNDS=20` is the long form. The seed decides everything in a round; `SEED=n` starts with that seed.
A third of the rounds kill inside a micro-batch: Spark's progress log has its offsets but not its commit. A third kill
when such a batch has already written results, which must not be written again. The rest kill between two batches, while
no clicks are sent.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from faults.application import Application, Process, kill
from faults.clicking import Clicks
from faults.counting import BAD, CLICKS, FINAL, NEWEST, ORDERS, PEOPLE, SOLD
from faults.results import PARTITIONS, Results
from odradek.client.admin import Admin
from odradek.spark.java import NoJava, find_java
from support.broker_process import BrokerProcess
from support.waiting import wait_until

T = TypeVar("T")
pytestmark = pytest.mark.faults

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SEED = int(os.environ.get("SEED", "0"))
FAULTS = ("executor", "broker", "driver", "workers")
AIMS = ("batch", "idle", "written")
EXECUTORS = 2
# Batches take a few hundred milliseconds on an idle machine. The timeout is for busy machines.
TIMEOUT_S = 300.0
POLL_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a seed: after how many chunks of clicks, at which moment, which process, for how long."""

    seed: int
    fault: str
    chunks: int
    aim: str
    depth: float  # the moment in a batch, as a fraction of its duration
    victim: int
    away_s: float

    @classmethod
    def of(cls, seed: int) -> Plan:
        rng = random.Random(seed)
        return cls(
            seed=seed,
            fault=FAULTS[seed % len(FAULTS)],
            chunks=rng.randint(5, 25),
            aim=AIMS[(seed + seed // len(FAULTS)) % len(AIMS)],  # twelve seeds have all combinations of fault and aim
            depth=rng.random(),
            victim=rng.randrange(2),
            away_s=rng.uniform(0, 2),
        )

    @property
    def moment(self) -> str:
        when = {"batch": f"{self.depth:.0%} of a batch", "written": "results written", "idle": "idle"}
        return f"chunk {self.chunks}, {when[self.aim]}"


class Story:
    def __init__(self, place: Path) -> None:
        self.broker = BrokerProcess(place / "broker").start()
        cluster = Admin(self.broker.bootstrap)
        for topic in (CLICKS, ORDERS, PEOPLE, NEWEST, FINAL, SOLD, BAD):
            cluster.create_topic(topic, PARTITIONS)
        self.clicks = Clicks(self.broker.bootstrap)
        self.results = Results(self.broker.bootstrap)
        self.application = Application(self.broker.bootstrap, place)
        self.application.start()

    def close(self) -> None:
        self.results.close()
        self.application.stop()
        self.broker.stop()

    def play(self, plan: Plan) -> str:
        began = time.time()
        self.clicks.begin(plan.seed)
        self._until(lambda: self.application.has_recovered_since(began), "first counts")
        self._until(lambda: self.clicks.chunks >= plan.chunks, "clicks")
        victims = self._until(lambda: self._victims(plan), "a process to kill")
        if plan.aim == "idle":
            self.clicks.pause()
        self._until(lambda: self._is_the_moment(plan), plan.moment)
        struck = time.time()
        inside = self._strike(plan, victims)
        self.clicks.resume()
        self._until(lambda: self.application.has_recovered_since(struck), "recovery")
        recovered_s = time.time() - struck
        self.clicks.end()
        self._until(self._all_is_right, lambda: "\n".join(self.results.differences(self.clicks)[:10]))
        where = f"inside {inside}" if inside else "between batches"
        return f"{plan.seed:4}  {plan.fault:8}  {plan.moment:26}  {where:40}  {recovered_s:5.1f} s"

    def _victims(self, plan: Plan) -> list[Process]:
        """The processes to kill. Looked up in advance, because the lookup takes longer than the kill."""
        match plan.fault:
            case "broker":
                return [Process(self.broker.pid, 0, "odradek up")]
            case "driver":
                return self.application.processes()
        executors = self.application.executors()
        if len(executors) < EXECUTORS:
            return []  # one was killed in an earlier round, and its replacement is still starting
        workers = self.application.python_workers(executors[plan.victim])
        return [executors[plan.victim], *workers] if plan.fault == "executor" else workers

    def _strike(self, plan: Plan, victims: list[Process]) -> str:
        """Kill, and return the batches that were open both before and after. For the driver, only after."""
        before = self._open()
        kill(victims)
        if plan.fault == "driver":
            self.application.kill_the_rest()
            before = self._open()
        after = self._open()
        if plan.fault == "driver":
            self.application.start()
        elif plan.fault == "broker":
            self.broker.kill()
            deadline = time.monotonic() + plan.away_s
            self._until(lambda: time.monotonic() > deadline, "time")
            self.broker.start()
        return " and ".join(batch for batch in before if batch in after)

    def _open(self) -> list[str]:
        return [str(batch) for batch in self.application.open_batches()]

    def _is_the_moment(self, plan: Plan) -> bool:
        if plan.aim == "written":
            self.results.read(POLL_S)
        batches = self.application.open_batches()
        match plan.aim:
            case "batch":
                return any(batch.depth >= plan.depth for batch in batches)
            case "written":
                return any(
                    self.results.last_written[topic] > batch.opened for batch in batches for topic in batch.writes
                )
        return not batches

    def _all_is_right(self) -> bool:
        self.results.read(POLL_S)
        return not self.results.differences(self.clicks)

    def _until(self, condition: Callable[[], T], what: str | Callable[[], str]) -> T:
        def checked() -> T:
            self.application.check()
            return condition()

        return wait_until(checked, what, within_s=TIMEOUT_S, every_s=POLL_S)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    try:
        find_java()
    except NoJava as missing:
        pytest.skip(str(missing))
    story = Story(tmp_path)
    yield story
    story.close()


@pytest.mark.timeout(TIMEOUT_S * (3 * ROUNDS + 1))
def test_every_record_is_written_once_whatever_process_is_killed(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = 0
    with capsys.disabled():
        print(f"\nseed  {'fault':8}  {'moment':26}  {'at the kill':40}  recovered in")
        for seed in range(SEED, SEED + ROUNDS):
            line = story.play(Plan.of(seed))
            inside += "inside" in line
            print(line, flush=True)
        print(
            f"{ROUNDS} faults, {inside} inside a micro-batch; {story.clicks.sent:,} clicks in "
            f"{len(story.clicks.counts):,} windows, {len(story.clicks.sales):,} orders: {story.results.records:,} "
            f"records compared, {story.results.written_twice} written twice"
        )
    assert story.results.written_twice == 0
    assert inside >= ROUNDS // 4
