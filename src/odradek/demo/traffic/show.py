"""`odradek demo traffic`: a broker process, live traffic through a topic, two consumer groups, and a screen for it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from odradek.demo.ports import free_port, listens
from odradek.demo.traffic.screen import Line, Screen
from odradek.demo.traffic.visits import PARTITIONS, QUIET, RECORDS_PER_S, TOPIC, GroupView, Reader, Visits

HTTP_PORT = 9644
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 20.0
CATCH_UP_TIMEOUT_S = 20.0


class DemoFailed(Exception):
    """What the demo showed was not right."""


def show(duration_s: float | None, port: int) -> None:
    """Run until Ctrl-C, or for `duration_s` and then check that what was shown was right."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    http = f"127.0.0.1:{free_port(HTTP_PORT)}"
    with _broker(_free(port), http) as bootstrap:
        admin = AdminClient(QUIET | {"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(10)
        _introduce(bootstrap, http)
        _Scene(bootstrap).play(stopping, duration_s)


def _free(wanted: int) -> int:
    port = free_port(wanted)
    if port != wanted:
        print(f"port {wanted} is taken; using {port}")
    return port


@contextmanager
def _broker(port: int, http: str) -> Iterator[str]:
    """A broker process of its own, in its own session so that Ctrl-C reaches the demo first and the broker last."""
    data = Path(tempfile.mkdtemp(prefix="odradek-demo-"))
    command = [sys.executable, "-m", "odradek.cli", "up", "--no-console", "--data", str(data), "--port", str(port)]
    command += ["-c", "group.initial.rebalance.delay.ms=0", "-c", f"http.listener={http}"]
    with (data / "broker.out").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)  # noqa: S603
    try:
        _wait_until_listening(process, port, data / "broker.out")
        yield f"127.0.0.1:{port}"
    finally:
        _stop(process)
        if process.returncode != 0:
            print(f"the broker ended with {process.returncode}:\n{(data / 'broker.out').read_text()}", file=sys.stderr)
        shutil.rmtree(data)
    if process.returncode != 0:
        raise DemoFailed("the broker did not stop cleanly")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, out: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise DemoFailed(f"the broker did not start:\n{out.read_text()}")
        if listens(port):
            return
        time.sleep(0.02)
    raise DemoFailed(f"the broker did not listen within {START_TIMEOUT_S:.0f} s")


def _introduce(bootstrap: str, http: str) -> None:
    odradek = "odradek" if shutil.which("odradek") == shutil.which(sys.argv[0]) else sys.argv[0]
    print(
        f"""
  broker    {bootstrap}, records in a temporary directory
  metrics   http://{http}/metrics for Prometheus
  topic     {TOPIC}: {PARTITIONS} partitions, {RECORDS_PER_S} page views per second by visitor
  groups    dashboard: two members share the partitions; archive: one reads all

  try, in another terminal:
    {odradek} consume {TOPIC} -b {bootstrap} -f '%k %v\\n' -n 5
    {odradek} group describe dashboard -b {bootstrap}
    {odradek} topic describe {TOPIC} -b {bootstrap}
  or point any Kafka client at {bootstrap}
"""
    )


class _Scene:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._screen = Screen()
        self._visits = Visits(bootstrap, seed=1)
        self._views = {name: GroupView(name) for name in ("dashboard", "archive")}
        self._readers = [
            self._reader("dashboard", "dashboard-a"),
            self._reader("dashboard", "dashboard-b"),
            self._reader("archive", "archive-a"),
        ]

    def _reader(self, group: str, name: str) -> Reader:
        return Reader(self._bootstrap, group, name, self._views[group].seen)

    def play(self, stopping: threading.Event, duration_s: float | None) -> None:
        self._visits.start()
        for reader in self._readers:
            reader.start()
        started = time.monotonic()
        left = False
        while not stopping.wait(self._screen.interval_s):
            elapsed = time.monotonic() - started
            self._screen.draw(elapsed, self._lines())
            if duration_s is not None and not left and elapsed > duration_s / 2:
                self._member_leaves()
                left = True
            if duration_s is not None and elapsed >= duration_s:
                break
        self._visits.stop()
        try:
            if duration_s is not None and not stopping.is_set():
                self._check()
        finally:
            for reader in self._readers:
                reader.stop()
        print("stopped")

    def _member_leaves(self) -> None:
        leaving = self._readers.pop(0)
        leaving.stop()
        self._screen.say(f"{leaving.name} left its group: the other member takes over its partitions")

    def _lines(self) -> list[Line]:
        return [
            Line(name=f"{TOPIC}", total=self._visits.acknowledged.total(), note="acknowledged"),
            *(Line(name=name, total=view.count, note=self._owners(name)) for name, view in self._views.items()),
        ]

    def _owners(self, group: str) -> str:
        readers = [reader for reader in self._readers if reader.name.startswith(group)]
        return "  ".join(f"{reader.name}: {','.join(map(str, reader.partitions)) or '-'}" for reader in readers)

    def _check(self) -> None:
        """Every acknowledged view reached each group, in each visitor's order, none twice."""
        acknowledged = self._visits.acknowledged
        deadline = time.monotonic() + CATCH_UP_TIMEOUT_S
        while any(view.missing(acknowledged) for view in self._views.values()) and time.monotonic() < deadline:
            time.sleep(0.05)
        problems = [f"not acknowledged: {failure}" for failure in self._visits.failures]
        for view in self._views.values():
            problems += [f"{view.name}: {problem}" for problem in view.disordered]
            if missing := view.missing(acknowledged):
                problems.append(f"{view.name}: {missing} acknowledged records were not read")
            if view.repeated:
                problems.append(f"{view.name}: {view.repeated} records were read twice")
        if not acknowledged:
            problems.append("nothing was acknowledged")
        if problems:
            raise DemoFailed("\n".join(problems[:10]))
        print(f"checked: {acknowledged.total():,} acknowledged records, each read once and in order by both groups")
