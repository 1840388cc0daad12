"""A connect service beside other work in one process and one Spark session, such as a Streams application.

It starts while Spark starts: its topics and its group take seconds, too. Tasks that are launched before the session
exists wait for it.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING

from odradek.client.records import ClientError
from odradek.connect.service.jobs import Ended, SparkJobs
from odradek.connect.service.settings import Settings
from odradek.connect.serving import WORKER_MODULES, serving_on
from odradek.connect.storage.topic_log import StorageFailed
from odradek.connect.tasks.spec import Ending, Outcome, TaskSpec
from odradek.web.listening import CannotListen, listening

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("odradek.connect")

WATCH_S = 0.2
AGAIN_S = 5.0
# Tasks have these slots of Spark for themselves, so they cannot take those of the queries.
SLOTS = 4
# Spark keeps the Python workers of a shared session, so a task that leaves early would free nothing.
LINGER_S = 30.0


class SharedSessionJobs:
    """Runs of tasks in a session that may still be starting."""

    def __init__(self, session: Future[SparkSession], slots: int, ended: Ended) -> None:
        self._session = session
        self._slots = slots
        self._ended = ended
        self._lock = threading.Lock()
        self._waiting: set[str] = set()  # runs that wait for the session

    @property
    def slots(self) -> int:
        return self._slots

    def launch(self, spec: TaskSpec) -> None:
        self._waiting.add(spec.run)
        threading.Thread(target=self._launch, args=[spec], name=f"launch-{spec.run}", daemon=True).start()

    def kill(self, run: str) -> None:
        if self._taken(run):
            self._ended(run, Outcome(ending=Ending.LOST, trace="Spark had not started yet"))
        elif not self._session.cancelled():
            SparkJobs(self._session.result(), self._ended).kill(run)

    def _launch(self, spec: TaskSpec) -> None:
        try:
            session = self._session.result()
        except CancelledError:
            self.kill(spec.run)
        else:
            if self._taken(spec.run):
                SparkJobs(session, self._ended).launch(spec)

    def _taken(self, run: str) -> bool:
        """Whether the run was waiting. Only one caller gets True."""
        with self._lock:
            was_waiting = run in self._waiting
            self._waiting.discard(run)
            return was_waiting


class HostedService:
    """One connect service. `prepare` before the session is created, `use` with it, `leave` before it is stopped."""

    slots = SLOTS
    worker_modules: Sequence[str] = WORKER_MODULES

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session: Future[SparkSession] = Future()
        self._stop = threading.Event()
        self._listener: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="connect-hosted", daemon=True)

    def prepare(self) -> None:
        """Raises CannotListen. Later errors are logged: the other work of the process does not depend on connectors."""
        self._listener = listening(self._settings.host, self._settings.port)
        self._thread.start()

    def use(self, session: SparkSession) -> None:
        self._session.set_result(session)

    def leave(self) -> None:
        """Stops the tasks, then the service."""
        self._stop.set()
        self._session.cancel()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def url(self) -> str:
        return f"http://{self._settings.worker_id}"

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._serve()
            except (StorageFailed, ClientError, CannotListen) as failed:
                _log.error("connect does not run, and is started again in %.0f s: %s", AGAIN_S, failed)
            self._stop.wait(AGAIN_S)

    def _serve(self) -> None:
        listener, self._listener = self._listener, None
        wanted = self._settings
        listener = listener or listening(wanted.host, wanted.port)
        with (
            listener,
            serving_on(listener, wanted, lambda ended: SharedSessionJobs(self._session, self.slots, ended)) as (_, run),
        ):
            while not run.has_ended and not self._stop.wait(WATCH_S):
                pass
