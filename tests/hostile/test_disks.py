"""A full or read-only disk: a clear error, no damage, and the broker continues when the disk works again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode
from support.broker_process import BrokerProcess
from support.log_audit import audit_partition
from support.waiting import wait_until
from traps.wire import Wire, batch, records_of

DISK_BYTES = 32 << 20
PATIENCE_S = 60.0

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


class Diary:
    """The replies to one producer, and a check that acknowledged records are stored."""

    def __init__(self, port: int, topic: str) -> None:
        self._port, self._topic = port, topic
        self.acknowledged: list[bytes] = []
        self._number = 0

    def write(self) -> ErrorCode:
        self._number += 1
        value = b"%010d" % self._number + bytes(50_000)
        with Wire(self._port) as wire:
            code = ErrorCode(wire.produce(self._topic, batch(value)).error_code)
        if code is ErrorCode.NONE:
            self.acknowledged.append(value)
        return code

    def write_until(self, wanted: ErrorCode) -> None:
        wait_until(lambda: self.write() is wanted, f"{wanted.name} for a record", within_s=PATIENCE_S, every_s=0.001)

    def everything(self) -> list[bytes]:
        found: list[bytes] = []
        offset = 0
        with Wire(self._port) as wire:
            while True:
                part = wire.fetch(self._topic, {0: offset})[0]
                assert part.error_code == ErrorCode.NONE
                if offset >= part.high_watermark:
                    return found
                for record in records_of(part.records):
                    found.append(record.value)
                    offset = record.offset + 1

    def require_all(self) -> None:
        stored = self.everything()
        assert [value for value in stored if value in set(self.acknowledged)] == self.acknowledged


def test_full_disk_returns_storage_errors_until_there_is_space_and_loses_nothing(small_disk: Path) -> None:
    with BrokerProcess(small_disk / "data") as broker:
        with Wire(broker.port) as wire:
            wire.create_topic("t")
        diary = Diary(broker.port, "t")
        assert diary.write() is ErrorCode.NONE
        balloon = small_disk / "balloon"
        with balloon.open("wb") as file:
            while True:
                try:
                    file.write(bytes(100_000))
                    file.flush()
                except OSError:
                    break
        diary.write_until(ErrorCode.KAFKA_STORAGE_ERROR)
        assert "was written only in part" in broker.output or "No space left on device" in broker.output
        balloon.unlink(missing_ok=True)
        diary.write_until(ErrorCode.NONE)
        diary.require_all()
        assert broker.stop() == 0
    audit_partition(small_disk / "data" / "t-0")


def test_start_on_a_read_only_disk_fails_with_a_clear_error(small_disk: Path) -> None:
    """The start fails with a one-line error, and the files do not change."""
    with BrokerProcess(small_disk / "data") as broker:
        with Wire(broker.port) as wire:
            wire.create_topic("t")
        diary = Diary(broker.port, "t")
        diary.write_until(ErrorCode.NONE)
    before = {path: path.read_bytes() for path in (small_disk / "data").rglob("*") if path.is_file()}
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    command = [
        sys.executable,
        "-m",
        "odradek.cli",
        "up",
        "--no-console",
        "--data",
        str(small_disk / "data"),
        "--port",
        "0",
    ]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    assert "Read-only file system" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert {path: path.read_bytes() for path in before} == before
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    with BrokerProcess(small_disk / "data") as broker:
        again = Diary(broker.port, "t")
        assert again.everything() == diary.acknowledged
