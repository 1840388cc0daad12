"""The examples of docs/clients.md in Java, JavaScript and Go run unchanged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client import Admin
from odradek.testing import Embedded
from support.foreign_programs import SOURCES, java, node_folder
from support.kafka_process import jars

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with Embedded() as broker:
        Admin(broker.bootstrap_servers).create_topic("hello")
        yield broker.bootstrap_servers


def written(language: str, file: Path, bootstrap: str) -> str:
    [text] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert "127.0.0.1:9092" in text
    file.write_text(text.replace("127.0.0.1:9092", bootstrap))
    return str(file)


def says(greeting: str, command: list[str], **options: object) -> bool:
    """Whether the program prints this line. A program that keeps reading is then ended."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as program:
        try:
            return any(line.rstrip("\n") == greeting for line in program.stdout)
        finally:
            program.terminate()


def test_java_example_of_the_clients_page_runs(bootstrap: str, tmp_path: Path) -> None:
    source = written("java", tmp_path / "Hello.java", bootstrap)
    assert says("java Hello from Java", java(source, classpath=[jars()]))


def test_javascript_example_of_the_clients_page_runs(bootstrap: str, tmp_path: Path) -> None:
    source = written("javascript", tmp_path / "hello.js", bootstrap)
    modules = {"NODE_PATH": str(node_folder() / "node_modules")}
    assert says("javascript Hello from JavaScript", ["node", source], env=os.environ | modules)


def test_go_example_of_the_clients_page_runs(bootstrap: str, tmp_path: Path) -> None:
    written("go", tmp_path / "main.go", bootstrap)
    for file in ("go.mod", "go.sum"):
        shutil.copy(SOURCES / "franz" / file, tmp_path)
    build = ["go", "build", "-mod=readonly", "-o", "hello", "."]
    subprocess.run(build, check=True, timeout=200, cwd=tmp_path, env=os.environ | {"CGO_ENABLED": "0"})
    assert says("go Hello from Go", [str(tmp_path / "hello")])
