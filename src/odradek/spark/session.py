"""Creates a Spark session with settings for one machine, and keeps the settings of a cluster.

`_everywhere` and `_on_one_machine` list the settings and their reasons. Precedence, highest first: `conf`,
spark-submit, these settings.
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
"""An environment variable of every Python process of an application: the application's name, which is also the consumer
group that shows its progress."""

WORKER_MODULES = "ODRADEK_WORKER_MODULES"
"""An environment variable: more modules that the workers of an application need, separated by commas."""

LOGGING = Path(__file__).with_name("log4j2.properties")
LOOPBACK = re.compile(r"spark://(127\.|localhost\b)")
NOTHING: Mapping[str, str] = MappingProxyType({})
GIB = 1 << 30


class NoSpark(ImportError):
    """PySpark is not installed. It is an extra, because a broker does not need it."""

    def __init__(self) -> None:
        super().__init__("PySpark is not installed: pip install 'odradek[spark]'")


def require_pyspark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise NoSpark


def local_session(app_name: str, *, master: str | None = None, conf: Mapping[str, str] = NOTHING) -> SparkSession:
    """A Spark session on this machine, or on the cluster that `master` names.

    Without `master`, the session uses spark-submit's master if there is one, else all cores of this machine.
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
    # Spark discovers the source by itself, with two problems. If the JVM was started before this process, Spark starts
    # the source without APPLICATION. If another package with a source cannot be imported, Spark finds no source at all.
    session.dataSource.register(OdradekDataSource)
    _quieten(session.sparkContext._accumulatorServer)  # noqa: SLF001 (there is no public access)
    return session


def with_more_slots(master: str | None, conf: Mapping[str, str], more: int) -> tuple[str | None, dict[str, str]]:
    """Master and settings of a session on one machine that runs `more` tasks at once beside those of its queries.

    The number of shuffle partitions stays. A cluster and a session of spark-submit keep the slots that they have.
    """
    asked = master or {**_submitted(), **conf}.get("spark.master", "local[*]")
    if not re.fullmatch(r"local(\[[*\d]+\])?", asked) or "PYSPARK_GATEWAY_PORT" in os.environ:
        return master, dict(conf)
    cores = _cores(asked)
    return f"local[{cores + more}]", {"spark.sql.shuffle.partitions": str(cores), **conf}


def _quieten(server: socketserver.BaseServer) -> None:
    """Spark closes connections when it stops a query. Without this the accumulator server would print a traceback."""
    tell = type(server).handle_error

    def handle_error(request: Any, client_address: Any) -> None:  # noqa: ANN401
        if not isinstance(sys.exception(), EOFError):
            tell(server, request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]


def settings(app_name: str, master: str, given: Mapping[str, str]) -> dict[str, str]:
    """All settings of the session. `given` are the settings of the user, which win."""
    return _everywhere(app_name) | (_on_one_machine(master) if _is_local(master) else {}) | dict(given)


def _everywhere(app_name: str) -> dict[str, str]:
    return {
        f"spark.executorEnv.{APPLICATION}": app_name,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A loopback TCP connection to the Python worker costs 40 ms per task, a Unix socket 2 ms.
        "spark.python.unix.domain.socket.enabled": "true",
        # transformWithState needs RocksDB. With a changelog a micro-batch uploads only changes, not the whole state.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # All micro-batches of a query have the same plan and the same generated code. With the default of 100 cache
        # entries, an application with several queries compiles its code repeatedly.
        "spark.sql.codegen.cache.maxEntries": "5000",
        # How often an idle query asks the brokers for new offsets. Spark's 10 ms takes a tenth of a core.
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
    }


def _on_one_machine(master: str) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        # Adaptive execution is for large jobs: it plans each stage of a micro-batch a second time.
        "spark.sql.adaptive.enabled": "false",
        # Spark builds plan descriptions for its UI in each micro-batch.
        "spark.sql.maxPlanStringLength": "1000",
        "spark.python.daemon.module": "odradek.spark.daemon",
        "spark.driver.memory": f"{_driver_memory_mib()}m",
        # Each partition costs a stateful micro-batch about 10 ms. Spark's default of 200 is meant for a cluster.
        "spark.sql.shuffle.partitions": str(_cores(master)),
        # Renames in a local file system are atomic. A commit then takes a quarter of the default's time.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
    }


def _prepare_environment(app_name: str, master: str, given: Mapping[str, str]) -> None:
    """Set what Spark reads only from the environment. The JVM and its Python workers inherit it."""
    os.environ[APPLICATION] = app_name
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # otherwise a JVM runs already
        os.environ["JAVA_HOME"] = str(find_java())
    if _is_local(master) or LOOPBACK.match(master):
        # Otherwise the driver announces the host name of this machine, which may not resolve to it.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if _is_local(master) or master.startswith("spark://"):
        # Spark would use python3 from PATH. That is a different Python if the virtual environment is not activated.
        os.environ.setdefault("PYSPARK_PYTHON", given.get("spark.pyspark.python", sys.executable))


def _submitted() -> dict[str, str]:
    """The configuration of spark-submit, if it started this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001 (there is no public call for a JVM without a context)
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
    """A quarter of the machine's or container's memory, 1 to 4 GiB. Local executors run inside the driver."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and (text := limit.read_text().strip()).isdigit():
        memory = min(memory, int(text))
    return min(max(memory // 4, GIB), 4 * GIB) >> 20
