"""Where, when and of what a measurement was taken."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import kafka_jars


def conditions() -> dict[str, str]:
    cpu = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "machine": f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, "
        f"{int(memory[1]) / 1e6 if memory else 0:.0f} GB, Linux {platform.release()}",
        "python": platform.python_version() + (" with uvloop" if importlib.util.find_spec("uvloop") else ""),
        "kafka": kafka_jars.version(),
        "java": java_version(),
    }


def commit() -> str:
    here = Path(__file__).parent
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=False
    )
    dirty = subprocess.run(
        ["git", "status", "--porcelain", "../src"], cwd=here, capture_output=True, text=True, check=False
    )
    return (head.stdout.strip() or "unknown") + (" with changes" if dirty.stdout.strip() else "")


def java_version() -> str:
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', said)
    return found[1] if found else "unknown"
