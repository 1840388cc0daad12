"""Runs a connect service: Spark, the steward, and the REST API, until it is closed."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from odradek.connect.catalogue import Catalogue
from odradek.connect.rest.routes import Api
from odradek.connect.service.jobs import Ended, Jobs, SparkJobs
from odradek.connect.service.requests import Requests
from odradek.connect.service.settings import Settings
from odradek.connect.service.steward import Steward
from odradek.pipeline.session import session_for
from odradek.web.listening import listening
from odradek.web.server import HttpServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tasks mostly wait for other systems, so more of them run at once than there are cores.
SLOTS_PER_CORE = 8

# Runs are long. Spark would keep the Python workers of finished runs, with about 50 MB each.
CONF = {"spark.python.worker.reuse": "false"}

WORKER_MODULES = ("odradek.connect.tasks.running", "odradek.connect.connectors")


def master_for(asked: str | None) -> str:
    """`local[*]` has one slot for each core, which suits computations, not tasks that wait."""
    if asked in (None, "local[*]"):
        return f"local[{SLOTS_PER_CORE * (os.cpu_count() or 1)}]"
    return str(asked)


@contextlib.contextmanager
def serving(settings: Settings, session: SparkSession | None = None) -> Iterator[tuple[str, Steward]]:
    """The URL of the service and its steward. A session that is given is not stopped."""
    listener = listening(settings.host, settings.port)  # a taken port is found before Spark starts
    spark = session or session_for("odradek-connect", master_for(settings.master), CONF, None, WORKER_MODULES)
    try:
        with serving_on(listener, settings, lambda ended: SparkJobs(spark, ended)) as service:
            yield service
    finally:
        if session is None:
            spark.stop()


@contextlib.contextmanager
def serving_on(
    listener: socket.socket, settings: Settings, jobs: Callable[[Ended], Jobs]
) -> Iterator[tuple[str, Steward]]:
    """The same, with the socket and the place where tasks run."""
    settings = replace(settings, port=listener.getsockname()[1])
    catalogue = Catalogue()
    catalogue.prepare()
    steward = Steward(settings, jobs)
    steward.start()
    try:
        api = Api(Requests(steward), steward.admin.cluster_id(), catalogue)
        with HttpServer(api.application(), settings.host, listener=listener) as server:
            yield server.url, steward
    finally:
        steward.close()
