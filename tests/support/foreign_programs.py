"""Programs in other languages that tests run: compiled or fetched once, into bench/out/interop."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from support.quick_java import QUICK_JAVA

SOURCES = Path(__file__).parents[1] / "interop"
OUT = Path(__file__).parents[2] / "bench" / "out" / "interop"


def java(main: str, *arguments: str, classpath: Iterable[Path | str]) -> list[str]:
    """The command that runs `main`, a class of tests/interop/java or a similar folder."""
    return ["java", "-Xmx512m", *QUICK_JAVA["JAVA_TOOL_OPTIONS"].split(), "-cp", _joined(classpath), main, *arguments]


def compiled(folder: str, classpath: Iterable[Path | str]) -> Path:
    """The classes of tests/interop/<folder>."""
    sources = sorted((SOURCES / folder).glob("*.java"))
    classes = OUT / "classes" / folder
    if not _is_newer(classes / "compiled", sources):
        shutil.rmtree(classes, ignore_errors=True)
        classes.mkdir(parents=True)
        command = ["javac", "-nowarn", "-d", str(classes), "-cp", _joined(classpath), *map(str, sources)]
        subprocess.run(command, check=True, timeout=300)
        (classes / "compiled").touch()
    return classes


def node_folder(name: str = "kafkajs") -> Path:
    """A copy of tests/interop/<name> with its npm packages."""
    source, folder = SOURCES / name, OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = source / "package.json"
    if not _is_newer(folder / "node_modules" / "fetched", [wanted]):
        shutil.copy(wanted, folder)
        print(f"fetching the packages of {name} with npm (once)", flush=True)
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(["npm", "install", *quiet], check=True, timeout=300, cwd=folder)
        (folder / "node_modules" / "fetched").touch()
    for script in (*source.glob("*.js"), *source.glob("*.mjs")):
        shutil.copy(script, folder)
    return folder


def go_program(folder: str) -> Path:
    """The program of tests/interop/<folder>, built."""
    source = SOURCES / folder
    program = OUT / folder
    if not _is_newer(program, [*source.glob("*.go"), source / "go.mod"]):
        OUT.mkdir(parents=True, exist_ok=True)
        print(f"building {folder} with Go (once)", flush=True)
        build = ["go", "build", "-mod=readonly", "-o", str(program), "."]
        subprocess.run(build, check=True, timeout=600, cwd=source, env=os.environ | {"CGO_ENABLED": "0"})
    return program


def _joined(classpath: Iterable[Path | str]) -> str:
    return ":".join(f"{each}/*" if _has_jars(each) else str(each) for each in classpath)


def _has_jars(path: Path | str) -> bool:
    return any(Path(path).glob("*.jar"))


def _is_newer(made: Path, sources: Iterable[Path]) -> bool:
    return made.exists() and all(source.stat().st_mtime <= made.stat().st_mtime for source in sources)
