"""docs/connect/writing.md: its source and its sink, installed as the page says, run by a service."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from docs.pages import DOCS, blocks
from odradek.cli.main import main
from odradek.testing import Embedded
from support.connect_service import connect_service, eventually

PAGE = DOCS / "connect" / "writing.md"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files of the page."""
    source, sink, _, test = blocks(PAGE, "python")
    (about,) = blocks(PAGE, "toml")
    for name, block in (("csv_files", source), ("json_files", sink), ("test_csv_files", test)):
        (tmp_path / f"{name}.py").write_text(block.text)
    (tmp_path / "pyproject.toml").write_text(about.text)
    return tmp_path


def test_the_connectors_of_the_page_run_with_its_commands(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (commands,) = blocks(PAGE, "sh")
    site = project / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(site),
    ]
    subprocess.run([*pip, str(project)], check=True, timeout=120)
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(project)
    (project / "in").mkdir()
    (project / "in" / "a.csv").write_text("name,pieces\nada,1\nbob,2\n")
    with Embedded() as broker, connect_service(broker.bootstrap_servers) as service:
        env = {"ODRADEK_BOOTSTRAP": broker.bootstrap_servers, "ODRADEK_CONNECT": service.url}

        def written() -> list[dict[str, str]]:
            return [row for file in sorted((project / "out").glob("*.json")) for row in json.loads(file.read_text())]

        install, *lines = commands.text.splitlines()
        assert install == "pip install ."
        for line in lines:
            done = CliRunner().invoke(main, shlex.split(line)[1:], env=env)
            assert done.exit_code == 0, (line, done.output)
        eventually(lambda: written() == [{"name": "ada", "pieces": "1"}, {"name": "bob", "pieces": "2"}])
        (project / "in" / "b.csv").write_text("name,pieces\ncy,3\nbroken\n")
        eventually(lambda: len(written()) == 3)

        def trace() -> str:
            tasks = service.http.get("/connectors/rows/status").json()["tasks"]
            return "".join(task.get("trace", "") for task in tasks)

        eventually(lambda: "row 2 of b.csv has another number of fields" in trace())
        other = service.http.get("/connector-plugins/com.example.JsonSink/config").json()
        assert "folder" in {each["name"] for each in other}


def test_the_test_of_the_page_passes(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_csv_files.py"],
        cwd=project, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_schema_of_the_page_is_one() -> None:
    _, _, schema, _ = blocks(PAGE, "python")
    found: dict[str, object] = {}
    exec(schema.text, found)
    assert found["ORDER"].of("note").optional


def test_the_entry_points_of_the_page_are_toml() -> None:
    (about,) = blocks(PAGE, "toml")
    entries = tomllib.loads(about.text)["project"]["entry-points"]["odradek.connectors"]
    assert entries["csv-files"] == "csv_files:CsvFiles"
    assert entries["com.example.JsonSink"] == entries["json-files"]
