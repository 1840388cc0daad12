"""The application of the demo runs unchanged on a Spark cluster, with only `--master` set."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Message

from cluster.spark_cluster import SparkCluster
from odradek.client.admin import Admin
from odradek.demo.trucking import app, topics
from odradek.demo.trucking.checking import Results, problems
from odradek.demo.trucking.fleet import Fleet, Record
from odradek.demo.trucking.follower import Follower
from odradek.demo.trucking.simulator import Simulator
from odradek.demo.trucking.truth import truth_of
from odradek.spark.java import NoJava, find_java
from support.broker_process import BrokerProcess
from support.quick_java import QUICK_JAVA
from support.waiting import wait_until

pytestmark = pytest.mark.cluster

TIMEOUT_S = 300.0
POLL_S = 0.2
# The fleet's day began this long ago. Earlier events are sent at once, later events in real time.
HISTORY_MS = 45_000


@pytest.fixture(autouse=True)
def _java() -> None:
    try:
        find_java()
    except NoJava as missing:
        pytest.skip(str(missing))


@pytest.mark.timeout(3 * TIMEOUT_S)
def test_trucking_application_runs_on_two_workers_with_only_master_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[Record] = []
    results, lock = Results(), threading.Lock()

    def see(messages: list[Message]) -> None:  # in the thread of the follower
        with lock:
            for message in messages:
                if message.topic() in topics.OUTPUTS:
                    results.see(message.topic(), message.value())

    def wrong() -> list[str]:
        with lock:
            return problems(truth, results, restarted=False)

    with BrokerProcess(tmp_path / "broker") as broker, SparkCluster(tmp_path, workers=2) as spark:
        create_topics(broker.bootstrap)
        fleet = Fleet(seed=1, start_ms=int(time.time() * 1000) - HISTORY_MS)
        simulator, follower = Simulator(broker.bootstrap, fleet, sent.append), Follower(broker.bootstrap, see)
        simulator.start()
        follower.start()
        application = run_application(spark.url, broker.bootstrap, tmp_path)
        try:
            until(lambda: results.statistics and results.alerts, application, lambda: "the first results")
            simulator.stop()
            truth = truth_of(sent)
            until(lambda: not wrong(), application, lambda: "\n".join(wrong()))
        finally:
            stop(application)
            follower.stop()
        tasks = spark.finished_tasks()
    assert all(tasks.values()), f"a worker had no tasks: {tasks}"
    levels = list(tmp_path.glob("state/trucking/*/shards/level-*"))
    shards = {level.name: len(list(level.glob("shard-*.db"))) for level in levels}
    assert shards
    assert set(shards.values()) == {topics.PARTITIONS}, f"as many as the topics' partitions: {shards}"
    with capsys.disabled():
        print(
            f"\n{truth.events.total():,} positions of {len(truth.events)} drivers, {len(truth.violations):,} "
            f"violations with speed and driver, {len(results.alerts)} alerts: all right; tasks: {tasks}"
        )


def create_topics(bootstrap: str) -> None:
    cluster = Admin(bootstrap)
    for name in topics.INPUTS + topics.OUTPUTS:
        cluster.create_topic(name, topics.PARTITIONS)


def run_application(master: str, bootstrap: str, place: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "odradek.cli", "streams", "run", app.__file__, "--master", master]
    command += ["--bootstrap-server", bootstrap, "--state-dir", str(place / "state")]
    with (place / "application.out").open("wb") as out:
        return subprocess.Popen(command, env=os.environ | QUICK_JAVA, cwd=place, stdout=out, stderr=subprocess.STDOUT)


def stop(application: subprocess.Popen[bytes]) -> None:
    application.terminate()
    application.wait(60)


def until(condition: Callable[[], object], application: subprocess.Popen[bytes], what: Callable[[], str]) -> None:
    def checked() -> object:
        assert application.poll() is None, "the application ended"
        return condition()

    wait_until(checked, what, within_s=TIMEOUT_S, every_s=POLL_S)
