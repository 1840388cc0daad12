"""What the stories share: figures that are shown at the end, and patience with clients that leave things open."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

Tell = Callable[[str], None]


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """A sentence for whoever ran the stories."""
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


@pytest.fixture
def untidy_clients() -> Iterator[None]:
    """kafka-python forgets sockets with which it could not connect: they go while warnings about them are ignored."""
    yield
    gc.collect()
