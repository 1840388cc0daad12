"""Tells the cluster about an application while it runs: what it is, once, and how it does, every few seconds.

It only helps people to look: an application runs as well if the topic cannot be created or written.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from odradek.client.admin import Admin
from odradek.client.java_names import librdkafka_config
from odradek.client.producer import Producer
from odradek.client.records import ClientError
from odradek.pipeline.announcement import (
    EVERY_S,
    STATUS,
    TOPIC,
    TOPIC_CONFIG,
    TOPOLOGY,
    About,
    Announced,
    encoded,
    key_of,
)
from odradek.pipeline.layout import Layout
from odradek.pipeline.recording import AppRecord
from odradek.streams.graph.application import Application
from odradek.streams.graph.repeats import guarantee
from odradek.streams.graph.settings import Settings
from odradek.streams.graph.sinks import DeadLetters, LateRows, Materialize, Sink, TopicSink
from odradek.streams.run.drawing import pictured

logger = logging.getLogger(__name__)

# An application whose status does not change says so less often.
UNCHANGED_S = 20.0
LAST_WORDS_S = 5.0
ENDED = ("stopped", "failed")


@contextmanager
def announcing(app: Application, settings: Settings, metrics: str | None) -> Iterator[None]:
    """For as long as a `with` block lasts. Its last words have the error, if the application ended with one."""
    told = Announcer(app, settings, metrics)
    told.start()
    try:
        yield
    finally:
        told.stop()


class Announcer:
    def __init__(self, app: Application, settings: Settings, metrics: str | None) -> None:
        self._app = replace(app, settings=settings)
        self._settings = settings
        self._layout = Layout(settings.state_dir, app.name)
        self._metrics = metrics
        self._began_s = time.time()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="odradek-announcing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(LAST_WORDS_S)

    def _run(self) -> None:
        clients = librdkafka_config(self._settings.config)
        config: dict[str, Any] = {**clients, "message.timeout.ms": str(int(LAST_WORDS_S * 1000))}
        try:
            Admin(self._settings.bootstrap, librdkafka_config(self._settings.config)).create_topic(
                TOPIC, 1, TOPIC_CONFIG
            )
            with Producer(bootstrap=self._settings.bootstrap, **config) as producer:
                self._tell(lambda key, value: producer.send(TOPIC, value, key).result())
        except (ClientError, ValueError) as refused:
            logger.warning(
                "the console cannot show %s, because its status cannot be written: %s", self._app.name, refused
            )

    def _tell(self, send: Callable[[bytes, bytes], object]) -> None:
        about = self._about()
        send(key_of(TOPOLOGY, self._app.name), encoded(pictured(self._app)))
        last, last_s = None, 0.0
        while True:
            is_over = self._over.wait(EVERY_S if last is not None else 0.0)
            now = self._announced(about)
            if now is not None and (is_over or now != last or time.time() - last_s >= UNCHANGED_S):
                last, last_s = now, time.time()
                send(key_of(STATUS, self._app.name), encoded(replace(now, at_s=last_s)))
            if is_over:
                return
            if last is None:  # the first status is written soon
                self._over.wait(1.0)

    def _announced(self, about: Mapping[str, About]) -> Announced | None:
        """The same at any time, while nothing has changed. None before this run has recorded its status."""
        record = AppRecord.read(self._layout.status)
        if record is None or record.pid != os.getpid() or record.written_s < self._began_s:
            return None
        sinks = self._app.graph.sinks
        return Announced(
            application=self._app.name,
            host=socket.gethostname(),
            pid=record.pid,
            started_s=record.started_s,
            at_s=0.0,
            is_over=bool(record.queries) and all(query.state in ENDED for query in record.queries),
            starts=record.starts,
            state_dir=self._layout.state_dir,
            queries=record.queries,
            about=about,
            dead_letters=tuple(sorted({sink.topic for sink in sinks if isinstance(sink, DeadLetters)})),
            late_rows=tuple(sorted({sink.topic for sink in sinks if isinstance(sink, LateRows)})),
            views={sink.view: sink.topic for sink in sinks if isinstance(sink, Materialize)},
            metrics=self._metrics,
        )

    def _about(self) -> dict[str, About]:
        return {
            query.name: About(
                group=self._layout.group(query.name),
                reads=tuple(sorted(query.reads)),
                writes=tuple(sorted(query.writes)),
                guarantees={_target(sink): guarantee(sink, self._settings) for sink in query.sinks},
            )
            for query in self._app.queries(self._settings)
        }


def forget(cluster: Admin, application: str) -> None:
    """The console shows it no more. Raises ClientError."""
    if TOPIC in cluster.topics(include_internal=True):
        config: dict[str, Any] = {**cluster.config}
        with Producer(bootstrap=cluster.bootstrap, **config) as producer:
            for part in (STATUS, TOPOLOGY):
                producer.send(TOPIC, None, key_of(part, application)).result()


def _target(sink: Sink) -> str:
    match sink:
        case TopicSink() | Materialize() | DeadLetters() | LateRows():
            return sink.topic
    return sink.name
