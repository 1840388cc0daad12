"""Metrics of this process: CPU, memory, file descriptors, start time. Read from Linux's /proc where it exists."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

from odradek.monitor.catalogue.broker import DISK_READ, DISK_WRITTEN
from odradek.monitor.catalogue.process import CPU_SECONDS, MAX_FILES, OPEN_FILES, RESIDENT_BYTES, START_TIME
from odradek.monitor.registry import Registry

_PROC = Path("/proc/self")


def measure_process(registry: Registry) -> None:
    registry.gauge(CPU_SECONDS, _cpu_seconds)
    registry.gauge(MAX_FILES, lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    if _PROC.exists():
        started_s = _start_time_s()
        registry.gauge(OPEN_FILES, lambda: len(os.listdir(_PROC / "fd")))
        registry.gauge(RESIDENT_BYTES, _resident_bytes())
        registry.gauge(START_TIME, lambda: started_s)


def measure_disk_io(registry: Registry) -> None:
    """Measures nothing where the kernel does not count it, as in some containers."""
    if os.access(_PROC / "io", os.R_OK):
        registry.gauge(DISK_READ, lambda: _io("read_bytes"))
        registry.gauge(DISK_WRITTEN, lambda: _io("write_bytes"))


def _io(name: str) -> int:
    lines = (line.partition(": ") for line in (_PROC / "io").read_text().splitlines())
    return next(int(value) for key, _, value in lines if key == name)


def _cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system


def _resident_bytes() -> Callable[[], int]:
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return lambda: int((_PROC / "statm").read_text().split()[1]) * page_bytes


def _start_time_s() -> float:
    """In field 22 of /proc/self/stat, in clock ticks after the machine's start. The process name may have spaces."""
    after_name = (_PROC / "stat").read_text().rpartition(")")[2].split()
    since_boot_s = int(after_name[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot_s
