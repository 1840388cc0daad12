"""Commands that need an extra, on an install without it: one sentence, no traceback."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from odradek.cli.extras import EXTRAS

APP = """
from odradek.streams import App

app = App("fleet")
app.stream("positions", schema="driver string").to("seen", key="driver")
"""
# Python refuses to import a module whose entry is None, with the same error as for one that is not installed.
WITHOUT_EXTRAS = f"import sys; sys.modules.update(dict.fromkeys({list(EXTRAS)})); "
COMMAND_LINE = WITHOUT_EXTRAS + "from odradek.cli.main import main; main(prog_name='odradek')"
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
INSTALL = "pip install 'odradek[spark]'"


def base_install(cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND_LINE, *args], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("args", [["demo"], ["demo", "trucking"]])
def test_a_command_that_needs_an_extra_says_what_to_install(tmp_path: Path, args: list[str]) -> None:
    done = base_install(tmp_path, *args)
    assert done.returncode == 1
    install = "pip install 'odradek[demo]'"
    assert done.stderr == f"Error: this command needs pyspark, which is not installed. Install it with: {install}\n"


@pytest.mark.parametrize("verb", ["run", "describe", "status", "reset", "views"])
def test_an_application_says_that_spark_is_not_installed(tmp_path: Path, verb: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    done = base_install(tmp_path, "streams", verb, "app.py")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert INSTALL in done.stderr


def test_a_missing_module_of_another_package_keeps_its_traceback(tmp_path: Path) -> None:
    hidden = f"import sys; sys.modules['confluent_kafka'] = None; {COMMAND_LINE}"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "topic", "ls"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" in done.stderr


def test_test_fixtures_skip_and_the_driver_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(odradek_test_driver): pass\n")
    pytest_run = WITHOUT_EXTRAS + "import pytest; pytest.main(['-rs', '-q', '-p', 'no:cacheprovider'])"
    skipped = subprocess.run(
        [sys.executable, "-c", pytest_run], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert f"SKIPPED [1] test_it.py:1: PySpark is not installed: {INSTALL}" in skipped.stdout
    imported = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + "from odradek.testing import TestDriver"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert imported.stderr.rstrip().endswith(f"PySpark is not installed: {INSTALL}")


def test_every_package_of_an_extra_is_listed() -> None:
    optional = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    modules = {"protobuf": "google", "pyyaml": "yaml", "mysql-replication": "pymysqlreplication"}
    listed: dict[str, str] = {}
    for extra, packages in optional.items():
        for name in (re.match(r"[\w-]+", package)[0] for package in packages):
            if name != "odradek":
                listed.setdefault(modules.get(name, name), extra)
    assert listed == EXTRAS
