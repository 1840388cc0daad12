"""Requirements and timeouts of the tests here. Prints and stores the API versions that each client used."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.foreign_programs import OUT
from support.tapped_broker import listed

ALL_NEED = ("java", "mvn")
ALSO_NEEDED = {
    "test_client_scripts.py": ("javac", "node", "npm", "go"),
    "test_command_line.py": ("javac",),
    "test_cluster_tools.py": ("javac",),
    "test_hello.py": ("node", "npm", "go"),
    "test_otlp_collector.py": ("go",),
    "test_rolling_restart.py": ("javac", "node", "npm"),
    "test_storm.py": ("javac",),
    "test_transaction_tools.py": ("javac",),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.interop)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))
            needed = (*ALL_NEED, *ALSO_NEEDED.get(item.path.name, ()))
            missing = [program for program in needed if shutil.which(program) is None]
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"needs {' and '.join(missing)}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = listed()
    if not lines:
        return
    terminalreporter.section("API versions negotiated")
    for line in lines:
        terminalreporter.write_line(line)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "versions.txt").write_text("".join(f"{line}\n" for line in lines))
