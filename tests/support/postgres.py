"""A real PostgreSQL for the tests of a file, from Debian's packages or from PATH."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from glob import glob
from itertools import count
from pathlib import Path
from typing import Self

import psycopg
import pytest

from support.broker_process import free_port
from support.waiting import wait_until

# Durability is not what these tests test.
SETTINGS = {"fsync": "off", "wal_level": "logical", "max_replication_slots": "20", "max_wal_senders": "20"}
LOG_FILE_BYTES = 16 << 20


@dataclass
class Postgres:
    port: int
    folder: Path
    _programs: Path
    _user: dict[str, str]
    _numbers: Iterator[int] = field(default_factory=count)

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Self]:
        programs = _programs()
        if programs is None:
            pytest.skip("PostgreSQL is not installed (Debian, Ubuntu: apt install postgresql)")
        user = {"user": "postgres"} if os.getuid() == 0 else {}
        folder = Path(tempfile.mkdtemp(prefix="odradek-pg-"))
        try:
            if user:
                shutil.chown(folder, "postgres")
            server = cls(free_port(), folder, programs, user)
            data = folder / "data"
            server._run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
            server.start()
            try:
                yield server
            finally:
                if (data / "postmaster.pid").exists():
                    server._run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def start(self) -> None:
        settings = SETTINGS | {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        given = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._run(
            "pg_ctl", "-D", self.folder / "data", "-o", given, "-w", "-t", "120", "-l", self.folder / "log", "start"
        )

    def kill(self) -> None:
        """kill -9. The server's processes end when they notice it; until then it cannot start again."""
        lock = self.folder / "data" / "postmaster.pid"
        pid = int(lock.read_text().split()[0])
        children = [
            int(each) for file in glob(f"/proc/{pid}/task/*/children") for each in Path(file).read_text().split()
        ]
        for each in (pid, *children):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        wait_until(lambda: not any(_is_alive(each) for each in (pid, *children)), within_s=60)
        # Without an init process that reaps zombies, the next server takes the old one for alive.
        for each in (lock, self.folder / f".s.PGSQL.{self.port}.lock"):
            each.unlink(missing_ok=True)

    def skip_log(self, count: int) -> None:
        """Stops the server, and starts it again with a log that is this many bytes further on."""
        with psycopg.connect(self.dsn("postgres")) as connection:
            [(lsn,)] = connection.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint").fetchall()
        data = self.folder / "data"
        self._run("pg_ctl", "-D", data, "-m", "fast", "-w", "stop")
        high, low = divmod((lsn + count) // LOG_FILE_BYTES, (1 << 32) // LOG_FILE_BYTES)
        self._run("pg_resetwal", "-D", data, "-l", f"{1:08X}{high:08X}{low:08X}")
        self.start()

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [self._programs / program, *arguments]
        # Not a pipe: the server inherits it and keeps it open, so a read of its end would wait for ever.
        with (self.folder / "output").open("ab") as output:
            done = subprocess.run(command, check=False, stdout=output, stderr=output, cwd=self.folder, **self._user)
        said = "".join(
            file.read_text()[-2000:] for file in (self.folder / "output", self.folder / "log") if file.exists()
        )
        assert done.returncode == 0, f"{program}: {said}"

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"test{next(self._numbers)}"
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def dsn(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database}"


def has_postgres() -> bool:
    return _programs() is not None


def _is_alive(pid: int) -> bool:
    """A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _programs() -> Path | None:
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    installed = sorted(glob("/usr/lib/postgresql/*/bin/initdb"))
    return Path(installed[-1]).parent if installed else None
