"""`odradek demo trucking`: a broker, trucks, an application on Spark, a page; and in the end, was everything right?"""

from __future__ import annotations

import importlib.util
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Message

from odradek.client.admin import Admin
from odradek.demo.ports import free_port, listens
from odradek.demo.trucking import topics
from odradek.demo.trucking.checking import Results, problems
from odradek.demo.trucking.fleet import Fleet, Record
from odradek.demo.trucking.follower import BehindWatch, Follower
from odradek.demo.trucking.page import Buttons, Page
from odradek.demo.trucking.page_state import PageState, PartState
from odradek.demo.trucking.parts import Part, PartFailed
from odradek.demo.trucking.progress import Progress
from odradek.demo.trucking.simulator import Simulator
from odradek.demo.trucking.truth import truth_of
from odradek.spark.java import NoJava, find_java

APPLICATION = "trucking"
BROKER_HTTP_PORT, METRICS_PORT = 9644, 9464
TICK_S = 0.5
BROKER_START_S, SPARK_START_S = 2.0, 35.0
BROKER_TIMEOUT_S, SPARK_TIMEOUT_S = 30.0, 240.0
CATCH_UP_TIMEOUT_S = 90.0
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
    scene = _Scene(wishes, data, stopping)
    try:
        scene.play()
    except PartFailed as failed:
        raise DemoFailed(str(failed)) from failed
    except _Stopped:
        scene.say_stopping()
    finally:
        last_words = scene.close()
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
        broker_http, spark_metrics = (f"127.0.0.1:{free_port(wanted)}" for wanted in (BROKER_HTTP_PORT, METRICS_PORT))
        self._metrics = [f"http://{address}/metrics" for address in (broker_http, spark_metrics)]
        self._state_dir = str(data / "streams")
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
                *("--state-dir", self._state_dir, "--metrics", spark_metrics),
            ],
            data / "spark.out",
            lambda: len(self._topics_written()) == len(topics.STEADY),
            self._spark_detail,
            SPARK_START_S,
            {"SPARK_SUBMIT_OPTS": QUICK_JAVA},
        )
        fleet = Fleet(
            seed=wishes.seed, start_ms=int(time.time() * 1000), trucks=wishes.trucks, events_per_s=wishes.events_per_s
        )
        self._simulator = Simulator(bootstrap, fleet, self._records.append if self._checked else _forget)
        buttons = Buttons(
            kill={"broker": self._broker.kill, "spark": self._spark.kill}, change_driver=self._simulator.change_driver
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
        self._create_topics()
        self._spark.start()
        self._simulator.start()
        self._follower.start()
        self._watch.start()
        started = time.monotonic()
        self._progress.say("trucks", f"{self._wishes.trucks} on the road; {', '.join(topics.INPUTS)}")
        self._progress.say("note", "a violation is an event that is not Normal, such as Overspeed or Lane Departure")
        self._progress.say("note", "an alert is 5 or more violations of one driver within 10 seconds")
        self._progress.say("spark", "starting Java and the application")
        self._wait(self._spark, SPARK_TIMEOUT_S)
        written = ", ".join(topics.OUTPUTS)
        self._progress.say("live", f"{self._page.server.url}  the application writes {written}")
        self._progress.say("metrics", f"{' and '.join(self._metrics)} for Prometheus")
        self._suggest()
        end = started + self._wishes.duration_s if self._wishes.duration_s else float("inf")
        while time.monotonic() < end:
            self._tick()
        self._simulator.stop()
        self._check()

    def _suggest(self) -> None:
        command = "odradek" if shutil.which("odradek") else sys.argv[0]
        place = f"-b {self._bootstrap}"
        for line in (
            f"{command} consume {topics.ALERTS} {place}",
            f"{command} group ls {place}",
            f"{command} streams status {APPLICATION} {place} --state-dir {self._state_dir}",
            f"{command} streams describe {_application_file()} {place}",
        ):
            self._progress.say("try", line)

    def say_stopping(self) -> None:
        self._progress.say("stop", "the application, then the broker")

    def close(self) -> str:
        """What the broker said if it did not end well. The processes first: no failure may leave one behind."""
        self._spark.stop()
        ended_well = not self._broker.stop()
        self._watch.stop()
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
        parts = (self._broker.state(), self._simulator_state(), self._spark.state())
        new_second = now - self._ticked_at >= 1
        behind = self._watch.behind

        def news(state: PageState) -> None:
            state.tell_parts(parts)
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
        if self._checked:
            with self._results_lock:
                for message in messages:
                    if message.topic() in topics.OUTPUTS:
                        self._results.see(message.topic(), message.value())

    def _simulator_state(self) -> PartState:
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
                found = problems(truth, self._results, restarted=restarted) + self._simulator.failures
            if left := self._simulator.on_their_way():
                found.append(f"{left} records were not acknowledged")
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

    def _repetitions(self) -> str:
        restarts = self._broker.restarts + self._spark.restarts
        if not restarts:
            return "no part was restarted, and no record was written twice"
        return f"records written twice because of {restarts} restarts: {self._results.repeated}"


def _last_words(part: Part) -> str:
    return f"The last words of {part.name}, after {part.restarts} restarts:\n{part.last_words()}"


def _application_file() -> str:
    """Found without importing it: Spark is for the process that runs it."""
    return importlib.util.find_spec("odradek.demo.trucking.app").origin  # type: ignore[union-attr, return-value]


def _forget(_record: Record) -> None:
    """A demo without an end keeps no list of what it sent."""
