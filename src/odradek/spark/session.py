"""One call to a Spark session that is fast and right on one machine, and leaves a cluster's own settings alone.

What is set, and why, is in `_everywhere` and `_on_one_machine`. What the caller gives in `conf` or gave to
spark-submit wins.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socketserver
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from odradek.spark.java import find_java
from odradek.spark.java_voice import start_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION = "ODRADEK_SPARK_APPLICATION"
"""In the environment of every Python process of an application: its name, and the group that shows its progress."""

WORKER_MODULES = "ODRADEK_WORKER_MODULES"
"""In the environment: more modules that the workers of an application need, with commas between them."""

LOGGING = Path(__file__).with_name("log4j2.properties")
LOOPBACK = re.compile(r"spark://(127\.|localhost\b)")
NOTHING: Mapping[str, str] = MappingProxyType({})
GIB = 1 << 30


class NoSpark(ImportError):
    """PySpark is an extra: a broker needs none."""

    def __init__(self) -> None:
        super().__init__("PySpark is not installed: pip install 'odradek[spark]'")


def require_pyspark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise NoSpark


def local_session(app_name: str, *, master: str | None = None, conf: Mapping[str, str] = NOTHING) -> SparkSession:
    """A Spark session on this machine, or on the cluster that `master` names.

    Without a master, the one given to spark-submit is used, else all cores of this machine.
    """
    require_pyspark()
    given = {**_submitted(), **conf}
    master = master or given.get("spark.master", "local[*]")
    _prepare_environment(app_name, master, given)

    from pyspark.sql import SparkSession

    from odradek.spark.source import OdradekDataSource

    conf = settings(app_name, master, given) | {"spark.master": master, "spark.app.name": app_name}
    start_java(conf)
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # Spark finds the source by itself, but then starts it without APPLICATION when the JVM was there before us, and
    # finds none at all when any other package with a source in it cannot be imported.
    session.dataSource.register(OdradekDataSource)
    _quieten(session.sparkContext._accumulatorServer)  # noqa: SLF001 (it has no other door)
    return session


def _quieten(server: socketserver.BaseServer) -> None:
    """Spark stops a query by hanging up; the server that takes its accumulators would show a traceback of that."""
    tell = type(server).handle_error

    def handle_error(request: Any, client_address: Any) -> None:  # noqa: ANN401
        if not isinstance(sys.exception(), EOFError):
            tell(server, request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]


def settings(app_name: str, master: str, given: Mapping[str, str]) -> dict[str, str]:
    """All that Spark is told, of which `given` is what the user said."""
    return _everywhere(app_name) | (_on_one_machine(master) if _is_local(master) else {}) | dict(given)


def _everywhere(app_name: str) -> dict[str, str]:
    return {
        f"spark.executorEnv.{APPLICATION}": app_name,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A loopback TCP connection to the Python worker costs 40 ms per task, a Unix socket 2 ms.
        "spark.python.unix.domain.socket.enabled": "true",
        # transformWithState needs RocksDB; with a changelog a micro-batch uploads what changed, not the whole state.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # The plan of a query is the same for each micro-batch, and so is the code that Spark generates for it; with the
        # default of 100 entries an application of several queries compiles all of it again and again.
        "spark.sql.codegen.cache.maxEntries": "5000",
        # How often an idle query asks the brokers for news; at Spark's 10 ms that alone takes a tenth of a core.
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
    }


def _on_one_machine(master: str) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        # Made for large jobs: it plans each stage of a micro-batch once more.
        "spark.sql.adaptive.enabled": "false",
        # Descriptions of plans are for the user interface, and are made for each micro-batch.
        "spark.sql.maxPlanStringLength": "1000",
        "spark.python.daemon.module": "odradek.spark.daemon",
        "spark.driver.memory": f"{_driver_memory_mib()}m",
        # Each stateful micro-batch pays about 10 ms for every one of these; Spark's 200 is meant for a cluster.
        "spark.sql.shuffle.partitions": str(_cores(master)),
        # Renames in a local file system are atomic: a quarter of the time of the default for each commit.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
    }


def _prepare_environment(app_name: str, master: str, given: Mapping[str, str]) -> None:
    """What Spark takes from the environment alone; the JVM and its Python workers inherit it."""
    os.environ[APPLICATION] = app_name
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # otherwise a JVM runs already
        os.environ["JAVA_HOME"] = str(find_java())
    if _is_local(master) or LOOPBACK.match(master):
        # Else the driver announces the name of this machine, which need not lead to it.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if _is_local(master) or master.startswith("spark://"):
        # Spark would take python3 from PATH, which in a virtual environment that is not activated is another Python.
        os.environ.setdefault("PYSPARK_PYTHON", given.get("spark.pyspark.python", sys.executable))


def _submitted() -> dict[str, str]:
    """What spark-submit was told, when it started this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001 (no public way asks a JVM that has no context yet)
    return dict(SparkConf().getAll())


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _cores(master: str) -> int:
    """`local`, `local[4]`, `local[*]`, `local[4, 2]` (the second number is how often a task may fail).

    `local-cluster[2, 1, 1024]`: processes, cores of each, megabytes of each.
    """
    if processes := re.match(r"local-cluster\[(\d+),\s*(\d+)", master):
        return int(processes[1]) * int(processes[2])
    asked = re.match(r"local\[([*\d]+)", master)
    if asked is None:
        return 1
    return (os.cpu_count() or 1) if asked[1] == "*" else int(asked[1])


def _driver_memory_mib() -> int:
    """A quarter of the machine's or container's memory, from one to four GiB: local executors live in the driver."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and (text := limit.read_text().strip()).isdigit():
        memory = min(memory, int(text))
    return min(max(memory // 4, GIB), 4 * GIB) >> 20
