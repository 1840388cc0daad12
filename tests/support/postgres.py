"""A real PostgreSQL for the tests of a file, from Debian's packages or from PATH."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from glob import glob
from itertools import count
from pathlib import Path
from typing import Self

import psycopg
import pytest

# Durability is not what these tests test.
SETTINGS = {"fsync": "off", "wal_level": "logical", "max_replication_slots": "20", "max_wal_senders": "20"}


@dataclass
class Postgres:
    port: int
    folder: Path
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
            data = folder / "data"
            make = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8"]
            subprocess.run(make, check=True, capture_output=True, cwd=folder, **user)
            server = cls(_free_port(), folder)
            server._start(programs, user)
            try:
                yield server
            finally:
                stop = [programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"]
                subprocess.run(stop, check=True, capture_output=True, cwd=folder, **user)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _start(self, programs: Path, user: dict[str, str]) -> None:
        settings = SETTINGS | {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        given = " ".join(f"-c {name}={value}" for name, value in settings.items())
        start = [programs / "pg_ctl", "-D", self.folder / "data", "-o", given, "-w", "-l", self.folder / "log", "start"]
        subprocess.run(start, check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **user)

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"test{next(self._numbers)}"
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def dsn(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database}"


def _programs() -> Path | None:
    if found := shutil.which("initdb"):
        return Path(found).parent
    installed = sorted(glob("/usr/lib/postgresql/*/bin/initdb"))
    return Path(installed[-1]).parent if installed else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
