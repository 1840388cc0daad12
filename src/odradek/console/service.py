"""Builds a console and runs it: the thread that reads the cluster, and HTTP."""

from __future__ import annotations

import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from odradek.console.application import ConsoleApplication
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.collector import Collector
from odradek.console.collecting.node_figures import NodeReader
from odradek.console.frame import Console
from odradek.console.pages import PAGES
from odradek.console.security import require_password
from odradek.console.settings import ConsoleSettings
from odradek.monitor.lag.settings import LagSettings
from odradek.watch.watched_cluster import ClusterSettings, WatchedCluster
from odradek.web.listening import CannotListen, listening
from odradek.web.server import HttpServer

LOG_ENDS_EVERY_S = 5
TOPICS_EVERY_S = 10
OBJECTS_PER_COLLECTION = 50_000


@contextmanager
def running(settings: ConsoleSettings) -> Iterator[tuple[Console, HttpServer]]:
    """A console that serves on a thread for as long as a `with` block lasts."""
    require_password(settings)
    listener = _listener(settings)
    cluster = Cluster(settings.bootstrap)
    watched = WatchedCluster(
        ClusterSettings(
            name="console",
            servers=settings.bootstrap,
            offset_refresh_s=LOG_ENDS_EVERY_S,
            topic_refresh_s=TOPICS_EVERY_S,
        ),
        LagSettings(),
    )
    nodes = NodeReader(cluster, settings.nodes_http)
    collector = Collector(cluster, watched, nodes)
    console = Console(settings, cluster=cluster, watched=watched, collector=collector, nodes=nodes, pages=PAGES)
    app = ConsoleApplication(console, PAGES).app
    watched.start()
    collector.start()
    try:
        with HttpServer(app, settings.host, names=settings.names, listener=listener) as server:
            yield console, server
    finally:
        collector.stop()
        watched.stop()
        nodes.close()
        console.connectors.close()
        cluster.close()


def serve(settings: ConsoleSettings, on_ready: Callable[[str], None], until: Callable[[], object]) -> None:
    """Until `until` returns. `on_ready` gets the URL."""
    gc.freeze()
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    with running(settings) as (_, server):
        on_ready(f"{server.url}{settings.prefix}/")
        until()


def ended(stream: BinaryIO) -> threading.Event:
    """Set when the stream is at its end: the parent process, which never writes to it, is gone."""
    over = threading.Event()

    def watch() -> None:
        # Without the stream's buffer: while a thread waits in it, the interpreter cannot end.
        while os.read(stream.fileno(), 1):
            pass
        over.set()

    threading.Thread(target=watch, name="odradek-console-parent", daemon=True).start()
    return over


def _listener(settings: ConsoleSettings) -> socket.socket:
    try:
        return listening(settings.host, settings.port, "Choose another port with --port; 0 picks a free one")
    except CannotListen:
        if not settings.or_any_port:
            raise
        return listening(settings.host, 0)
