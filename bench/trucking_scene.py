"""The trucking demo without its page: the same processes, started the same way, and every result with its time.

The command line, environment and topics of the application are taken from the demo itself.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import spark_progress
from confluent_kafka import Message
from processes import end_session
from trucking_latency import Seen
from visible import Visibility

from odradek.client.admin import Admin
from odradek.demo.trucking import show, topics
from odradek.demo.trucking.fleet import Record
from odradek.demo.trucking.parts import Part

LOOK_EVERY_S = 0.2
# `_JAVA_OPTIONS` has the highest precedence, above the Java options of the session.
LAST_JAVA_OPTIONS = "_JAVA_OPTIONS"
WITH_CONF = """\
import dataclasses

from odradek.demo.trucking.app import app
app.application = dataclasses.replace(
    app.application, settings=app.settings.over(conf={{**app.settings.conf, **{conf!r}}}, delivery={delivery!r})
)
"""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM."""


class Scene(show._Scene):  # noqa: SLF001 (the demo has no other door, and a copy would not follow its changes)
    def __init__(self, wishes: show.Wishes, folder: Path, stopping: threading.Event) -> None:
        super().__init__(wishes, folder, stopping)
        self.folder = folder
        self.results: list[Seen] = []
        self._seen: list[tuple[str, int, int, bytes]] = []
        self.started_ms = 0
        self.live_s: float | None = None  # from the start of the application until every steady topic is written
        self.written_s: dict[str, float] = {}  # topic -> the same, until its first record
        logging = Path(show.__file__).parents[2] / "spark" / "log4j2.properties"
        self._give(LAST_JAVA_OPTIONS, spark_progress.java_option(folder, logging))

    @property
    def broker_session(self) -> int:
        return _session(self._broker)

    @property
    def application_session(self) -> int:
        return _session(self._spark)

    @property
    def sent(self) -> list[Record]:
        return self._records

    def set_java_options(self, options: str) -> None:
        """Replace the Java options of the demo."""
        self._spark._environment["SPARK_SUBMIT_OPTS"] = options  # noqa: SLF001

    def add_java_options(self, options: str) -> None:
        self._give("SPARK_SUBMIT_OPTS", options)

    def _give(self, variable: str, more: str) -> None:
        environment = self._spark._environment  # noqa: SLF001
        environment[variable] = f"{environment.get(variable, '')} {more}".strip()

    def set_application(self, conf: Mapping[str, str], delivery: str | None) -> None:
        """Override the settings of the application and the session. A generated file then loads the application."""
        wrapper = self.folder / "app_with_conf.py"
        wrapper.write_text(WITH_CONF.format(conf=dict(conf), delivery=delivery))
        shipped = show._application_file()  # noqa: SLF001
        self._spark._command = [str(wrapper) if word == shipped else word for word in self._spark._command]  # noqa: SLF001

    def described(self) -> str:
        environment = self._spark._environment  # noqa: SLF001
        return f"SPARK_SUBMIT_OPTS={environment['SPARK_SUBMIT_OPTS']!r} " + shlex.join(self._spark._command)  # noqa: SLF001

    def start(self) -> None:
        self._broker.start()
        self._wait(self._broker, show.BROKER_TIMEOUT_S)
        self._begin()
        self.started_ms = int((time.time() - (time.monotonic() - self._spark.started_at)) * 1000)
        self._wait_for_drivers()
        self._drive_off()

    def run(self, seconds: float) -> None:
        """Runs for a time from the start of the application. A process that ends is an error; it is not restarted."""
        end = self._spark.started_at + seconds
        while time.monotonic() < end:
            self._tick()
        self._driving.stop()
        visible = Visibility(self.folder / "broker")
        self.results = [Seen(topic, value, visible.ms(topic, *place)) for topic, *place, value in list(self._seen)]

    def shut(self) -> None:
        """Stop every process, whatever happened before."""
        for part in (self._spark, self._broker):
            session = _session(part)
            part.stop()
            end_session(session)
        if self._follower._thread.is_alive():  # noqa: SLF001
            self._follower.stop()
        self._chain.rest()

    def _create_topics(self) -> None:
        super()._create_topics()
        cluster = Admin(self._bootstrap)
        for name in topics.OUTPUTS:
            cluster.set_topic_config(name, **{"message.timestamp.type": "LogAppendTime"})

    def _tick(self) -> None:
        if self._stopping.wait(LOOK_EVERY_S):
            raise Interrupted
        for part in (self._broker, self._spark):
            part.watch()
            if part.restarts:
                raise show.DemoFailed(f"{part.name} ended during the measurement:\n{part.last_words()}")
        if self.live_s is None and self._spark.alive:
            self.live_s = time.monotonic() - self._spark.started_at

    def _see(self, messages: list[Message]) -> None:
        for message in messages:
            if message.topic() in topics.OUTPUTS:
                _, appended_ms = message.timestamp()
                self.written_s.setdefault(message.topic(), (appended_ms - self.started_ms) / 1000)
                self._seen.append((message.topic(), message.partition(), message.offset(), message.value()))


def _session(part: Part) -> int:
    """The session of a started part, which is the leader of its own session."""
    process = part._process  # noqa: SLF001
    return process.pid if process is not None else -1
