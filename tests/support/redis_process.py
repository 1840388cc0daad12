"""A real Redis, from Debian's package or from PATH."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from support.broker_process import free_port
from support.waiting import wait_until


@contextmanager
def redis_process(folder: Path) -> Iterator[redis.Redis]:
    """A client of a new server."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("Redis is not installed: redis-server is missing (Debian, Ubuntu: apt install redis-server)")
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    client = redis.Redis(port=port, decode_responses=True)
    try:
        wait_until(lambda: _answers(client), within_s=60)
        yield client
    finally:
        client.close()
        process.kill()
        process.wait()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
