"""The conditions of a measurement: machine, time, and commit."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import kafka_jars

SOURCE = Path(__file__).resolve().parent.parent / "src"


def conditions() -> dict[str, str]:
    return {
        "date": date(),
        "commit": commit(),
        "machine": machine(),
        "python": platform.python_version() + (" with uvloop" if importlib.util.find_spec("uvloop") else ""),
        "kafka": kafka_jars.version(),
        "java": java_version(),
    }


def date() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def machine() -> str:
    cpu = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    gigabytes = int(memory[1]) / 1e6 if memory else 0
    return (
        f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, {gigabytes:.0f} GB, "
        f"Linux {platform.release()}"
    )


def commit(source: Path = SOURCE) -> str:
    """The commit of the working tree that contains `source`."""
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=source, capture_output=True, text=True, check=False
    )
    dirty = subprocess.run(
        ["git", "status", "--porcelain", "."], cwd=source, capture_output=True, text=True, check=False
    )
    return (head.stdout.strip() or "unknown") + (" with changes" if dirty.stdout.strip() else "")


def java_version() -> str:
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', said)
    return found[1] if found else "unknown"
