"""The clerk: carries out changes of drivers in the database, one after the other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError

from odradek.demo.trucking.database import Database
from odradek.demo.trucking.drivers import Driver

AGAIN_S = 0.5
WAIT_S = 0.1


class Clerk:
    """`done` is called on the clerk's thread with each row that is committed."""

    def __init__(self, database: Database, done: Callable[[Driver], None]) -> None:
        self._database = database
        self._done = done
        self._waiting: queue.Queue[Driver] = queue.Queue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clerk", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def change(self, driver: Driver) -> None:
        self._waiting.put(driver)

    @property
    def waiting(self) -> int:
        """Changes that are not committed yet."""
        return self._waiting.unfinished_tasks

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                driver = self._waiting.get(timeout=WAIT_S)
            except queue.Empty:
                continue
            self._commit(driver)
            self._waiting.task_done()

    def _commit(self, driver: Driver) -> None:
        """Again until it works: a database that is away or locked must not stop the trucks."""
        while not self._stop.is_set():
            try:
                self._database.update(driver)
            except DBAPIError:
                self._stop.wait(AGAIN_S)
            else:
                self._done(driver)
                return
