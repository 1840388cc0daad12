"""The trucking application in three systems: how each is built, started and stopped."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from native import OUT
from processes import end_session

from odradek.demo.trucking import app, topics
from odradek.spark.java import find_java

HERE = Path(__file__).resolve().parent
QUIX_STREAMS = "3.28.1"
STOP_WITHIN_S = 30.0

Command = Sequence[str | Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    name: str
    version: Callable[[], str]
    commands: Callable[[str, Path], list[Command]]  # takes the bootstrap address and a folder for state
    environment: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[str] = ()
    is_usual: bool = True  # False: measured when it is named


class Running:
    """The processes of a system, each in its own session."""

    def __init__(self, system: System, bootstrap: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.name = system.name
        self._log = folder / "output"
        self._processes = []
        environment = {**os.environ, **system.environment}
        with self._log.open("ab") as log:
            for number, command in enumerate(system.commands(bootstrap, folder)):
                self._processes.append(
                    subprocess.Popen(
                        command,
                        cwd=folder,
                        env=environment | {"BENCH_PROCESS": str(number)},
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )

    @property
    def sessions(self) -> set[int]:
        return {process.pid for process in self._processes}

    def check(self) -> None:
        for process in self._processes:
            if process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {process.returncode}:\n{self.last_words()}")

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            end_session(process.pid)


def _odradek(bootstrap: str, folder: Path) -> list[Command]:
    run = [sys.executable, "-m", "odradek.cli", "streams", "run", app.__file__]
    return [[*run, "-b", bootstrap, "--state-dir", folder / "state"]]


AT_LEAST_ONCE = """\
import dataclasses

from odradek.demo.trucking.app import app
app.application = dataclasses.replace(app.application, settings=app.settings.over(delivery="at-least-once"))
"""


def _odradek_at_least_once(bootstrap: str, folder: Path) -> list[Command]:
    wrapper = folder / "at_least_once.py"
    wrapper.write_text(AT_LEAST_ONCE)
    run = [sys.executable, "-m", "odradek.cli", "streams", "run", wrapper]
    return [[*run, "-b", bootstrap, "--state-dir", folder / "state"]]


def _odradek_version() -> str:
    import odradek

    return f"{odradek.__version__} on PySpark {importlib.metadata.version('pyspark')}"


def _kafka_streams(bootstrap: str, folder: Path) -> list[Command]:
    built = kafka_streams_jars()
    options = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{built}/trucking.jar:{built}/libs/*"]
    java = find_java() / "bin" / "java"
    return [[java, *options, "bench.Trucking", bootstrap, folder / "state", str(topics.PARTITIONS)]]


def kafka_streams_jars() -> Path:
    """Built with Maven when the sources are newer than the jar."""
    source, out = HERE / "kafka_streams", OUT / "kafka_streams"
    jar = out / "trucking.jar"
    newest = max(file.stat().st_mtime for file in source.rglob("*") if file.is_file())
    if not jar.exists() or jar.stat().st_mtime < newest:
        print("building bench/kafka_streams with Maven", flush=True)
        goals = ["package", "dependency:copy-dependencies", f"-DoutputDirectory={out / 'libs'}"]
        subprocess.run(["mvn", "-q", "-B", "-f", source / "pom.xml", f"-Dout={out}", *goals], check=True, timeout=900)
    return out


def _kafka_streams_version() -> str:
    [jar] = (kafka_streams_jars() / "libs").glob("kafka-streams-*.jar")
    return jar.stem.removeprefix("kafka-streams-")


def _quix(bootstrap: str, folder: Path) -> list[Command]:
    """One process per partition, because a process has one thread for all of its partitions."""
    program = HERE / "quix_streams" / "trucking.py"
    return [[quix_python(), program, bootstrap, folder / f"state-{number}"] for number in range(topics.PARTITIONS)]


def quix_python() -> Path:
    """The Python of a virtual environment with only Quix Streams."""
    folder = OUT / f"quix-{QUIX_STREAMS}"
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        print(f"installing quixstreams {QUIX_STREAMS}", flush=True)
        venv.create(folder, clear=True, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, f"quixstreams=={QUIX_STREAMS}"], check=True, timeout=900)
        done.touch()
    return python


SYSTEMS = (
    System(name="Odradek", version=_odradek_version, commands=_odradek),
    System(name="Odradek at least once", version=_odradek_version, commands=_odradek_at_least_once, is_usual=False),
    System(
        name="Kafka Streams",
        version=_kafka_streams_version,
        commands=_kafka_streams,
        missing=("a join behind a repartition topic may miss partners while it catches up, here at the start",),
    ),
    System(
        name="Quix Streams",
        version=lambda: QUIX_STREAMS,
        commands=_quix,
        environment={"PYTHONPATH": "", "PYTHONWARNINGS": "ignore"},
        missing=(
            "the join of streams is written by hand over a state: its own interval join misses partners that come out "
            "of order, and its left join does not wait",
            "counts are written for each event, not once a second: nothing collects them",
            "no table that can be asked by key from outside",
        ),
    ),
)
