"""Two connect services of one group as processes: the active one is killed, the other one takes over."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx

from support.waiting import wait_until

TESTS = Path(__file__).parents[1]
START_S = 180.0


class ServiceProcess:
    """`on_spark`: `odradek connect serve`. Otherwise tasks run in threads, and the service starts in two seconds."""

    def __init__(self, bootstrap: str, folder: Path, name: str, *, on_spark: bool) -> None:
        self._url_file, self._log = folder / f"{name}.url", folder / f"{name}.log"
        if on_spark:
            command = ["odradek.cli", "connect", "serve", "-b", bootstrap, "--port", "0", "--group-id", "killed"]
        else:
            command = ["support.connect_process", bootstrap, str(self._url_file), "killed"]
        self._output = self._log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=TESTS, stdout=self._output, stderr=subprocess.STDOUT
        )
        self.http = httpx.Client(timeout=60)

    @property
    def is_ready(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        if self._url_file.exists():
            self.http.base_url = self._url_file.read_text()
            return True
        told = [line for line in self._log.read_text().splitlines() if line.startswith("connect is ready: ")]
        if told:
            self.http.base_url = told[0].rpartition(" ")[2]
        return bool(told)

    @property
    def is_active(self) -> bool:
        with suppress(httpx.TransportError):
            return "active" in self.http.get("/health").json()["message"]
        return False

    def end(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait()
        self.http.close()
        self._output.close()


class KilledServices:
    def __init__(self, bootstrap: str, folder: Path, *, count: int, on_spark: bool) -> None:
        self._bootstrap, self._folder, self._on_spark = bootstrap, folder, on_spark
        self._started = 0
        self.kills = 0
        self.services = [self._new() for _ in range(count)]
        for service in self.services:
            wait_until(lambda service=service: service.is_ready, within_s=START_S)

    def _new(self) -> ServiceProcess:
        self._started += 1
        return ServiceProcess(self._bootstrap, self._folder, f"service-{self._started}", on_spark=self._on_spark)

    def active(self) -> ServiceProcess:
        def found() -> ServiceProcess | None:
            return next((each for each in self.services if each.is_ready and each.is_active), None)

        service = wait_until(found, within_s=START_S)
        assert service is not None
        return service

    def kill_active(self) -> None:
        """kill -9, and another process in its place."""
        service = next((each for each in self.services if each.is_active), self.services[0])
        self.services.remove(service)
        service.end()
        self.kills += 1
        self.services.append(self._new())

    def logs(self) -> str:
        return "\n".join(f"--- {each.name}\n{each.read_text()[-6000:]}" for each in sorted(self._folder.glob("*.log")))


@contextmanager
def killed_services(bootstrap: str, *, count: int, on_spark: bool) -> Iterator[KilledServices]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ending:
        services = KilledServices(bootstrap, Path(folder), count=count, on_spark=on_spark)
        ending.callback(lambda: [each.end() for each in services.services])
        yield services
