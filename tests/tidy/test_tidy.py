"""Project rules that a linter does not check."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "odradek"
SOURCES = sorted(SRC.rglob("*.py"))

# Packages outside the simulation, which may use the operating system directly.
OUTSIDE = {
    "adapters",
    "export",
    "node",
    "client",
    "web",
    "spark",
    "pipeline",
    "lake",
    "streams",
    "connect",
    "cli",
    "testing",
    "demo",
    "sim",
    "watch",
    "console",
}
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 700

BANNED_MODULES = {
    "time": "the Clock port",
    "datetime": "the Clock port",
    "random": "the Rng port",
    "secrets": "the Rng port",
    "uuid": "the Rng port",
    "os": "the Disk port",
    "pathlib": "the Disk port",
    "shutil": "the Disk port",
    "threading": "the Spawner port",
    "subprocess": "the Spawner port",
    "socket": "the Net port",
    "pickle": "a schema",
}
BANNED_CALLS = {
    "open": "the Disk port",
    "eval": "plain code",
    "create_task": "the Spawner port",
    "ensure_future": "the Spawner port",
    "run_in_executor": "the Spawner port",
}
# Several threads make slow calls on one data directory: locks protect what they record, and changing file names.
MAY_LOCK = {"log/directory.py", "log/deleted.py"}
# The codec compiler turns schema tables into straight-line code: the only place that generates code from text.
MAY_EXEC = {"protocol"}


def room_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0]


def called_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id, node.lineno
            elif isinstance(node.func, ast.Attribute) and node.func.attr != "open":
                yield node.func.attr, node.lineno


def imported_modules(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").split(".")[0], node.lineno


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if room_of(path) not in OUTSIDE], ids=lambda path: str(path.relative_to(SRC))
)
def test_modules_use_ports_instead_of_the_operating_system(path: Path) -> None:
    tree = ast.parse(path.read_text())
    broken = [
        f"{line}: import {name}: use {BANNED_MODULES[name]}"
        for name, line in imported_modules(tree)
        if name in BANNED_MODULES and not (name == "threading" and str(path.relative_to(SRC)) in MAY_LOCK)
    ]
    broken += [
        f"{line}: {name}(): use {BANNED_CALLS[name]}" for name, line in called_names(tree) if name in BANNED_CALLS
    ]
    broken += [
        f"{line}: {name}(): write the code out"
        for name, line in called_names(tree)
        if name == "exec" and room_of(path) not in MAY_EXEC
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SRC)))
def test_files_and_functions_are_not_too_long(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    too_long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not too_long
    assert len(text.splitlines()) <= FILE_LINES_MAX


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SRC)))
def test_source_uses_invariant_instead_of_assert(path: Path) -> None:
    asserts = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]
    assert not asserts, f"lines {asserts}: `python -O` strips assert; use base.invariants.invariant"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SRC)))
def test_every_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "a module must begin with a docstring"


def test_every_module_is_imported_somewhere() -> None:
    imported = {
        name for path in SOURCES for node in ast.walk(ast.parse(path.read_text())) for name in _imported_files(node)
    }
    doors = {  # loaded by name
        "odradek.cli.main",
        "odradek.testing.plugin",
        "odradek.spark.daemon",
        "odradek.streams.formats",  # imported by users
        "odradek.streams.views",
        "odradek.connect.arrow",  # imported by authors of connectors
        *_entry_points(),
    }
    modules = {
        ".".join(("odradek", *path.relative_to(SRC).with_suffix("").parts))
        for path in SOURCES
        if path.stem not in ("__init__", "__main__")
    }
    assert not sorted(modules - imported - doors)


def _entry_points() -> set[str]:
    """Modules that plug-ins of this project name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {place.partition(":")[0] for group in project["entry-points"].values() for place in group.values()}


def _imported_files(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value.startswith("odradek."):
            yield node.value.split(":")[0]
        elif re.fullmatch(r"p\d\d_\w+", node.value):  # a row of a table of APIs
            yield f"odradek.server.api.{node.value}"


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("docs/**/*.md")) + sorted(ROOT.glob("*.md")), ids=lambda path: path.name
)
def test_page_has_one_title_and_its_links_exist(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    assert len(re.findall(r"^# ", text, flags=re.MULTILINE)) == 1
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("docs/**/*.md")) + sorted(ROOT.glob("*.md")), ids=lambda path: path.name
)
def test_tests_named_by_a_page_exist(path: Path) -> None:
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", path.read_text()):
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), flags=re.MULTILINE), f"{file}::{name}"


def test_contributing_lists_the_targets_of_make_test_first() -> None:
    parts = re.search(r"^PARTS := (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)[1].split()
    text = (ROOT / "CONTRIBUTING.md").read_text()
    listed = re.findall(r"^\| `make ([a-z]+)", text, flags=re.MULTILINE)
    assert sorted(listed[: len(parts)]) == sorted(parts)
    numbers = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    assert f"`make test` runs the first {numbers[len(parts) - 1]} targets" in text


def test_no_file_contains_markers_of_a_merge() -> None:
    texts = [each for folder in ("src", "tests", "docs", "tools") for each in (ROOT / folder).rglob("*.*")]
    texts = [each for each in texts if each.suffix in (".py", ".css", ".js", ".html", ".md")]
    marker = re.compile(r"^(<{7} |={7}$|>{7} )", flags=re.MULTILINE)
    assert [str(each.relative_to(ROOT)) for each in texts if marker.search(each.read_text())] == []
