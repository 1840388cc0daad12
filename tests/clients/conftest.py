"""A broker process behind a wiretap. After the run, the API versions that each client used are printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker_process import BrokerProcess, free_port
from support.wiretap import Wiretap

SPOKEN: dict[str, set[tuple[str, int]]] = {}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    tap_port = free_port()
    data: Path = tmp_path_factory.mktemp("broker") / "data"
    process = BrokerProcess(data)
    process.config["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{tap_port}"
    process.tap_port = tap_port  # type: ignore[attr-defined]
    with process:
        yield process


@pytest.fixture
def tap(broker: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[Wiretap]:
    with Wiretap(broker.tap_port, broker.port) as wiretap:  # type: ignore[attr-defined]
        yield wiretap
    SPOKEN.setdefault(request.path.stem.removeprefix("test_"), set()).update(wiretap.spoken())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if SPOKEN:
        terminalreporter.section("API versions negotiated")
        for client, spoken in SPOKEN.items():
            versions: dict[str, list[str]] = {}
            for api, version in sorted(spoken):
                versions.setdefault(api, []).append(str(version))
            line = ", ".join(f"{api} v{'/'.join(numbers)}" for api, numbers in versions.items())
            terminalreporter.write_line(f"{client}: {line}")
