"""A real MariaDB for the tests of a file, from Debian's packages or from PATH."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self

import pymysql
import pytest

from support.broker_process import free_port
from support.waiting import wait_until

START_S = 60.0
# Durability is not what these tests test.
SETTINGS = {
    "innodb_flush_log_at_trx_commit": "0",
    "innodb_buffer_pool_size": "32M",
    "innodb_log_file_size": "8M",
    "sync_binlog": "0",
    "log_bin": "binlog",
    "server_id": "1",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
}


@dataclass
class MariaDb:
    port: int
    folder: Path
    _numbers: Iterator[int] = field(default_factory=count)

    @classmethod
    @contextmanager
    def started(cls, **settings: str) -> Iterator[Self]:
        programs = {name: _program(name) for name in ("mariadbd", "mariadb-install-db")}
        missing = [name for name, path in programs.items() if path is None]
        if missing:
            pytest.skip(
                f"MariaDB is not installed: {missing[0]} is missing (Debian, Ubuntu: apt install mariadb-server)"
            )
        user = {"user": "mysql"} if os.getuid() == 0 else {}
        folder = Path(tempfile.mkdtemp(prefix="odradek-maria-"))
        try:
            if user:
                shutil.chown(folder, "mysql")
            make = [
                str(programs["mariadb-install-db"]),
                "--no-defaults",
                f"--datadir={folder}/data",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--innodb-log-file-size=8M",
            ]
            subprocess.run(make, check=True, capture_output=True, cwd=folder, **user)
            server = cls(free_port(), folder)
            process = server._start(str(programs["mariadbd"]), settings, user)
            try:
                wait_until(lambda: server._is_up(process), within_s=START_S)
                yield server
            finally:
                process.kill()
                process.wait()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _start(self, program: str, settings: dict[str, str], user: dict[str, Any]) -> subprocess.Popen[bytes]:
        given = (
            SETTINGS
            | settings
            | {
                "datadir": f"{self.folder}/data",
                "bind_address": "127.0.0.1",
                "port": str(self.port),
                "socket": f"{self.folder}/socket",
                "pid_file": f"{self.folder}/pid",
            }
        )
        command = [program, "--no-defaults", *(f"--{name}={value}" for name, value in given.items())]
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **user)

    def _is_up(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, (self.folder / "log").read_text()[-2000:]
        try:
            # A connection to a socket file that refuses it would leave a socket open.
            socket.create_connection(("127.0.0.1", self.port)).close()
            with (
                closing(self.connection(unix_socket=f"{self.folder}/socket")) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("CREATE OR REPLACE USER test@'127.0.0.1'")
                cursor.execute("GRANT ALL ON *.* TO test@'127.0.0.1'")
        except OSError:
            return False
        return True

    def connection(self, database: str | None = None, **more: Any) -> pymysql.Connection[Any]:
        user = "root" if "unix_socket" in more else "test"
        given = {"host": "127.0.0.1", "port": self.port, "user": user, "database": database, "autocommit": True} | more
        return pymysql.connect(**given)

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"test{next(self._numbers)}"
        with closing(self.connection()) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        return f"mariadb://test@127.0.0.1:{self.port}/{name}"


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")
