"""The C programs of the bench: compiled on first use, kept until their source changes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
OUT = BENCH / "out"


def compiled(name: str, *options: str) -> Path:
    binary, source = OUT / name, BENCH / f"{name}.c"
    inputs = [source, *BENCH.glob("*.h")]
    if not binary.exists() or binary.stat().st_mtime < max(path.stat().st_mtime for path in inputs):
        OUT.mkdir(exist_ok=True)
        subprocess.run(["gcc", "-O2", "-march=native", "-Wall", "-Wextra", *options, "-o", binary, source], check=True)
    return binary


def loadgen(mode: str, **options: Any) -> dict[str, float]:
    """One run of the load generator. Option `batch_bytes=16384` becomes `--batch-bytes 16384`."""
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    done = subprocess.run(
        [compiled("loadgen"), mode, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        raise RuntimeError(f"loadgen {mode} {' '.join(arguments)}: {done.stderr.strip()}")
    report: dict[str, float] = json.loads(done.stdout)
    return report


def touch_memory(gigabytes: float) -> None:
    """Call before a run that fills the page cache: in a virtual machine the first use of a page is slow."""
    loadgen("touch", gigabytes=gigabytes)
