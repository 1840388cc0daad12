"""`odradek demo trucking`: a database, a broker, trucks, an application on Spark, a page; and was everything right?"""

from __future__ import annotations

import importlib.util
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Message
from sqlalchemy.exc import DBAPIError

from odradek.client.admin import Admin
from odradek.demo.ports import free_port, listens
from odradek.demo.trucking import topics
from odradek.demo.trucking.chain import Chain
from odradek.demo.trucking.checking import Results, problems, uncaptured
from odradek.demo.trucking.database import DatabaseUnusable
from odradek.demo.trucking.drivers import roster
from odradek.demo.trucking.fleet import Fleet, Record
from odradek.demo.trucking.follower import BehindWatch, Follower
from odradek.demo.trucking.page import Buttons, Page
from odradek.demo.trucking.page_state import PageState, PartState
from odradek.demo.trucking.parts import Part, PartFailed
from odradek.demo.trucking.progress import Progress
from odradek.demo.trucking.simulator import Simulator
from odradek.demo.trucking.trail import STATIONS, Trail
from odradek.demo.trucking.truth import truth_of
from odradek.spark.java import NoJava, find_java

APPLICATION = "trucking"
BROKER_HTTP_PORT, METRICS_PORT, CONNECT_PORT = 9644, 9464, 8083
TICK_S = 0.5
BROKER_START_S, SPARK_START_S = 2.0, 35.0
BROKER_TIMEOUT_S, SPARK_TIMEOUT_S = 120.0, 300.0
CATCH_UP_TIMEOUT_S = 180.0
# The trucks drive off when their drivers are known. A connector that fails must not stop the demo.
DRIVERS_TIMEOUT_S = SPARK_TIMEOUT_S
# A change shows in the next alert of its driver.
CHANGE_TIMEOUT_S = 180.0
# The quick compiler alone and one thread for garbage: a third less work until the first results, and a demo is short.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PROBLEMS_TOLD = 12


class _Stopped(Exception):
    """The demo received Ctrl-C or SIGTERM."""


class DemoFailed(Exception):
    """The demo could not be shown, or what it showed was not right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    duration_s: float | None = None
    port: int = 9092
    page_port: int = 8080
    trucks: int = 30
    events_per_s: float = 1.0
    seed: int = 1
    database: str | None = None  # the URL of an empty database; None: a file of SQLite


def show(wishes: Wishes) -> None:
    """Until Ctrl-C, or for a while and then a check."""
    try:
        find_java()
    except NoJava as missing:
        raise DemoFailed(f"{missing}\nWithout Java there is `odradek demo traffic`.") from missing
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    data = Path(tempfile.mkdtemp(prefix="odradek-trucking-"))
    try:
        scene = _Scene(wishes, data, stopping)
        try:
            scene.play()
        except _Stopped:
            scene.say_stopping()
        finally:
            last_words = scene.close()
    except (PartFailed, DatabaseUnusable) as failed:
        raise DemoFailed(str(failed)) from failed
    finally:
        shutil.rmtree(data, ignore_errors=True)
    if last_words:
        raise DemoFailed(f"the broker did not stop cleanly:\n{last_words}")


class _Scene:
    def __init__(self, wishes: Wishes, data: Path, stopping: threading.Event) -> None:
        self._wishes = wishes
        self._stopping = stopping
        self._progress = Progress()
        self._records: list[Record] = []
        self._results = Results()  # filled on the follower's thread, checked on ours
        self._results_lock = threading.Lock()
        self._checked = wishes.duration_s is not None
        port = free_port(wishes.port)
        bootstrap = f"127.0.0.1:{port}"
        self._bootstrap = bootstrap
        wanted_ports = (BROKER_HTTP_PORT, METRICS_PORT, CONNECT_PORT)
        broker_http, spark_metrics, connect = (f"127.0.0.1:{free_port(wanted)}" for wanted in wanted_ports)
        self._metrics = [f"http://{address}/metrics" for address in (broker_http, spark_metrics)]
        self._state_dir = str(data / "streams")
        self._chain = Chain(data, wishes.database, f"http://{connect}")
        odradek = [sys.executable, "-m", "odradek.cli"]
        self._broker = Part(
            "broker",
            [
                *odradek,
                "up",
                "--no-console",
                "--data",
                str(data / "broker"),
                "--port",
                str(port),
                "-c",
                f"http.listener={broker_http}",
            ],
            data / "broker.out",
            lambda: listens(port),
            lambda: bootstrap,
            BROKER_START_S,
        )
        self._spark = Part(
            "spark",
            [
                *(*odradek, "streams", "run", _application_file(), "-b", bootstrap),
                *("--state-dir", self._state_dir, "--metrics", spark_metrics, "--connect", connect),
            ],
            data / "spark.out",
            lambda: len(self._topics_written()) == len(topics.STEADY),
            self._spark_detail,
            SPARK_START_S,
            {"SPARK_SUBMIT_OPTS": QUICK_JAVA},
        )
        self._simulator: Simulator | None = None  # until the trucks drive off
        buttons = Buttons(
            kill={"broker": self._broker.kill, "spark": self._spark.kill}, change_driver=self._change_driver
        )
        self._page = Page(PageState(), buttons, free_port(wishes.page_port))
        self._follower = Follower(bootstrap, self._see)
        self._watch = BehindWatch(bootstrap, APPLICATION)
        self._ticked_at = 0.0

    def play(self) -> None:
        self._page.server.start()
        self._progress.say("page", f"{self._page.server.url}  (open it now: it shows how the rest starts)")
        self._broker.start()
        self._wait(self._broker, BROKER_TIMEOUT_S)
        self._progress.say("broker", f"listening on {self._bootstrap}")
        self._begin()
        self._watch.start()
        self._progress.say("spark", "starting Java, the application and its connectors")
        self._wait_for_drivers()
        self._drive_off()
        started = time.monotonic()
        self._progress.say("trucks", f"{self._wishes.trucks} on the road; {', '.join(topics.INPUTS)}")
        self._progress.say("note", "a violation is an event that is not Normal, such as Overspeed or Lane Departure")
        self._progress.say("note", "an alert is 5 or more violations of one driver within 10 seconds")
        self._wait(self._spark, SPARK_TIMEOUT_S)
        written = ", ".join(topics.OUTPUTS)
        self._progress.say("live", f"{self._page.server.url}  the application writes {written}")
        self._progress.say("metrics", f"{' and '.join(self._metrics)} for Prometheus")
        self._suggest()
        end = started + self._wishes.duration_s if self._wishes.duration_s else float("inf")
        if self._checked:
            self._change_a_driver()
        while time.monotonic() < end:
            self._tick()
        self._driving.stop()
        self._check()

    def _begin(self) -> None:
        """Everything beside the broker, except the trucks."""
        self._create_topics()
        self._chain.create(roster(self._wishes.trucks, random.Random(self._wishes.seed)))  # noqa: S311 (as the fleet)
        self._spark.start()
        self._follower.start()
        self._chain.start()

    def _wait_for_drivers(self) -> None:
        """Until every row of the table is in its topic: the first events then find their drivers."""
        deadline = time.monotonic() + DRIVERS_TIMEOUT_S
        while self._follower.counts[topics.DRIVERS] < self._wishes.trucks:
            if time.monotonic() > deadline or self._chain.connectors.state().state == "stopped":
                why = self._chain.connectors.state().detail
                self._progress.say("note", f"the drivers are not in {topics.DRIVERS}, events have no names: {why}")
                return
            self._tick()
        self._progress.say("drivers", f"captured from {self._chain.database.described} into {topics.DRIVERS}")

    def _drive_off(self) -> None:
        wishes, now_ms = self._wishes, int(time.time() * 1000)
        fleet = Fleet(seed=wishes.seed, start_ms=now_ms, trucks=wishes.trucks, events_per_s=wishes.events_per_s)
        sent = self._records.append if self._checked else _forget
        self._simulator = Simulator(self._bootstrap, fleet, sent, self._chain.change)
        self._simulator.start()

    @property
    def _driving(self) -> Simulator:
        if self._simulator is None:
            raise RuntimeError("the trucks have not driven off")
        return self._simulator

    def _change_driver(self, driver_id: int) -> None:
        if self._simulator is None:
            raise KeyError(driver_id)
        self._simulator.change_driver(driver_id, self._chain.follow)

    def _change_a_driver(self) -> None:
        """As a visitor of the page would, and until an alert shows it."""
        driver = self._page.read(lambda state: state.worst_driver())
        if driver is None:
            raise DemoFailed(f"{topics.STATISTICS} names no driver with violations")
        self._change_driver(driver)
        deadline = time.monotonic() + CHANGE_TIMEOUT_S
        while (trail := self._chain.trail) is not None and not trail.is_complete:
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"a change of {trail.driver} did not arrive everywhere within {CHANGE_TIMEOUT_S:.0f} s: "
                    f"{trail.reached}. Connectors: {self._chain.connectors.states}. {_last_words(self._spark)}"
                )
            self._tick()

    def _suggest(self) -> None:
        command = "odradek" if shutil.which("odradek") else sys.argv[0]
        place = f"-b {self._bootstrap}"
        for line in (
            f"{command} consume {topics.ALERTS} {place}",
            f"{command} group ls {place}",
            f"{command} streams status {APPLICATION} {place} --state-dir {self._state_dir}",
            f"{command} streams describe {_application_file()} {place}",
            f"{command} connect status --url {self._chain.connectors.url}",
        ):
            self._progress.say("try", line)

    def say_stopping(self) -> None:
        self._progress.say("stop", "the application, then the broker")

    def close(self) -> str:
        """What the broker said if it did not end well. The processes first: no failure may leave one behind."""
        self._spark.stop()
        ended_well = not self._broker.stop()
        self._watch.stop()
        try:
            self._chain.rest()
        except DBAPIError as failed:
            self._progress.say("note", f"the demo's tables and its slot may still be in the database: {failed.orig}")
        self._page.server.stop()
        self._progress.end()
        return "" if ended_well else self._broker.last_words()

    def _create_topics(self) -> None:
        cluster = Admin(self._bootstrap)
        for name in topics.INPUTS + topics.OUTPUTS:
            config = {"cleanup.policy": "compact"} if name in topics.COMPACTED else {}
            cluster.create_topic(name, topics.PARTITIONS, config)

    def _wait(self, part: Part, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not part.alive:
            if time.monotonic() > deadline:
                raise DemoFailed(f"{part.name} was not ready within {timeout_s:.0f} s. {_last_words(part)}")
            self._tick()

    def _tick(self) -> None:
        """Twice a second: look after the parts, tell the page, tell the terminal."""
        if self._stopping.wait(TICK_S):
            raise _Stopped
        self._broker.watch()
        self._spark.watch()
        now = time.monotonic()
        connect = self._chain.connectors.state()
        parts = (self._broker.state(), self._simulator_state(), self._spark.state(), connect)
        chain = self._chain.state()
        new_second = now - self._ticked_at >= 1
        behind = self._watch.behind

        def news(state: PageState) -> None:
            state.tell_parts(parts)
            state.tell_chain(chain)
            state.tell_behind(behind.seconds if behind else None)
            if new_second:
                state.tick(now)

        self._page.tell(news)
        self._page.publish()
        if new_second:
            self._ticked_at = now
            self._progress.status(self._page.read(lambda state: state.summary()), parts)

    def _see(self, messages: list[Message]) -> None:
        def news(state: PageState) -> None:
            for message in messages:
                state.see(message.topic(), message.value(), dict(message.headers() or ()))

        self._page.tell(news)
        self._chain.see(messages)
        if self._checked:
            with self._results_lock:
                for message in messages:
                    if message.topic() in (topics.DRIVERS, *topics.OUTPUTS):
                        self._results.see(message.topic(), message.value())

    def _simulator_state(self) -> PartState:
        if self._simulator is None:
            return PartState(name="simulator", state="waiting", detail="for the drivers")
        if self._simulator.waiting:
            return PartState(name="simulator", state="alive", detail="trucks wait for the broker")
        return PartState(name="simulator", state="alive", detail=f"{self._wishes.trucks} trucks")

    def _spark_detail(self) -> str:
        if self._spark.alive:
            return "running"
        written = self._topics_written()
        return f"{len(written)} of {len(topics.STEADY)} topics written" if written else "Java and the session"

    def _topics_written(self) -> list[str]:
        """By the application as it was started last."""
        seen_at = self._follower.seen_at
        return [topic for topic in topics.STEADY if seen_at.get(topic, 0.0) > self._spark.started_at]

    def _check(self) -> None:
        """Wait until nothing is wrong any more, or for so long that something is."""
        self._progress.say("check", "the trucks have stopped; waiting for the application to finish")
        truth = truth_of(self._records)
        restarted = bool(self._broker.restarts or self._spark.restarts)
        deadline = time.monotonic() + CATCH_UP_TIMEOUT_S
        while True:
            with self._results_lock:
                found = problems(truth, self._results, restarted=restarted) + self._driving.failures
                found += uncaptured(truth, self._results)
                alerts = [row for rows in self._results.alerts.values() for row in rows]
            found += self._chain.landed.problems(alerts)
            if left := self._driving.on_their_way():
                found.append(f"{left} records were not acknowledged")
            if left := self._chain.uncommitted:
                found.append(f"{left} changes of drivers are not in the database")
            behind = self._watch.behind
            if not found and behind and not any(behind.records.values()):
                break
            if time.monotonic() > deadline:
                found = found or [f"the application is still behind: {behind}"]
                told = "\n".join(f"  {problem}" for problem in found[:PROBLEMS_TOLD])
                raise DemoFailed(f"{len(found)} things were wrong:\n{told}\n{_last_words(self._spark)}")
            self._tick()
        self._progress.say(
            "check",
            f"right: {truth.events.total():,} positions counted by driver and kind, "
            f"{len(truth.violations):,} violations with speed and driver, {len(self._results.alerts)} alerts, "
            f"{truth.malformed.total()} dead letters; {self._repetitions()}",
        )
        self._progress.say(
            "check",
            f"right: {len(alerts)} alerts in the SQL table and in Parquet, each once; "
            f"{sum(map(len, self._results.rows.values()))} rows of drivers captured in order; "
            f"{_told(self._chain.trail)}",
        )

    def _repetitions(self) -> str:
        restarts = self._broker.restarts + self._spark.restarts
        if not restarts:
            return "no part was restarted, and no record was written twice"
        return f"records written twice because of {restarts} restarts: {self._results.repeated}"


def _last_words(part: Part) -> str:
    return f"The last words of {part.name}, after {part.restarts} restarts:\n{part.last_words()}"


def _told(trail: Trail | None) -> str:
    if trail is None:
        return "no driver was changed"
    stations = ", ".join(f"in {station} after {trail.reached[station]:.1f} s" for station in STATIONS[1:])
    return f"a change of {trail.driver.driverName} was {stations}"


def _application_file() -> str:
    """Found without importing it: Spark is for the process that runs it."""
    return importlib.util.find_spec("odradek.demo.trucking.app").origin  # type: ignore[union-attr, return-value]


def _forget(_record: Record) -> None:
    """A demo without an end keeps no list of what it sent."""
