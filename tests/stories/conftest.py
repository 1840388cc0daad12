"""Shared by the stories: figures that are shown at the end, and a filter for sockets that clients leave open."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
Tell = Callable[[str], None]


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """Adds a sentence to the summary of the stories."""
    return lambda sentence: record_property("told", sentence)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = [
        value
        for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
        for name, value in report.user_properties
        if name == "told" and report.when == "call"
    ]
    if told:
        terminalreporter.section("what was measured")
        for sentence in told:
            terminalreporter.write_line(str(sentence))


# kafka-python does not close sockets that failed to connect: the garbage collector warns about them in any story.
FORGOTTEN = "unclosed <socket"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings(f"ignore:{FORGOTTEN}:ResourceWarning"))


def pytest_unconfigure() -> None:
    warnings.filterwarnings("ignore", FORGOTTEN, ResourceWarning)
