"""Every command and snippet of the README runs unchanged."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from docs.pages import broker_on_the_usual_port
from odradek.testing import Embedded

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_make_targets_of_the_readme_exist() -> None:
    targets = re.findall(r"^make (\w+)", README, flags=re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), target


@pytest.fixture(scope="module")
def broker_on_9092() -> Iterator[Embedded]:
    with broker_on_the_usual_port() as broker:
        yield broker


def test_terminal_session_of_the_readme_works(broker_on_9092: Embedded) -> None:
    [session] = [block for block in blocks("sh") if "odradek topic" in block]
    scripts = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-euc", session],
        capture_output=True,
        text=True,
        env={"PATH": f"{scripts}:/usr/bin:/bin"},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d@0 alice: 2 apples", done.stdout)
    assert re.search(r"^orders +\d +1 +1 +0 ", done.stdout, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def plain_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with only the packages of `pip install -e .` and `pip install pytest`."""
    home = tmp_path_factory.mktemp("plain")
    venv.create(home, symlinks=True)
    [site] = home.glob("lib/python*/site-packages")
    for each in needed_by("odradek", "pytest"):
        tops = {Path(file).parts[0] for file in each.files or []} - {"..", "__pycache__"}
        for top in sorted(tops):
            (site / top).symlink_to(each.locate_file(top))
    return home / "bin" / "python"


def needed_by(*names: str) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    wanted = list(names)
    while wanted:
        name = canonicalize_name(wanted.pop())  # typing-extensions and typing_extensions are one
        if name not in found:
            found[name] = distribution(name)
            needed = [Requirement(text) for text in found[name].requires or []]
            wanted += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return list(found.values())


@pytest.mark.parametrize("snippet", [snippet for snippet in blocks("python") if "odradek.streams" not in snippet])
def test_python_snippets_need_only_the_package(broker_on_9092: Embedded, plain_python: Path, snippet: str) -> None:
    subprocess.run([plain_python, "-c", snippet], check=True, timeout=60)


def test_pipeline_of_the_readme_equals_the_example() -> None:
    [pipeline] = [snippet for snippet in blocks("python") if "odradek.streams" in snippet]
    assert pipeline == (ROOT / "examples" / "streams_first.py").read_text()
    subprocess.run([sys.executable, "-c", pipeline], check=True, timeout=60)


def test_example_test_needs_only_the_package_and_pytest(plain_python: Path) -> None:
    example = str(ROOT / "examples" / "test_orders.py")
    subprocess.run([plain_python, "-m", "pytest", "-q", example], check=True, timeout=120, cwd=ROOT)
