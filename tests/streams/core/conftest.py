from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from odradek.streams import App
from odradek.streams.running import RunningApp
from odradek.testing import Embedded
from streams.core.broker import Topics


@pytest.fixture(scope="session")
def _streams_broker() -> Iterator[Embedded]:
    with Embedded() as broker:
        yield broker


@pytest.fixture
def topics(_streams_broker) -> Topics:
    return Topics(_streams_broker.bootstrap_servers)


@pytest.fixture
def process(spark, topics, tmp_path) -> Callable[[App], RunningApp]:
    """Runs an application over what is in its topics; called again, over what has come since."""

    def run(app: App) -> RunningApp:
        return app.start(
            session=spark, bootstrap=topics.bootstrap, state_dir=str(tmp_path / "state"), trigger_available_now=True
        )

    return run


@pytest.fixture
def live(spark, topics, tmp_path) -> Iterator[Callable[[App], RunningApp]]:
    """Starts an application, which is stopped at the end of the test."""
    running: list[RunningApp] = []

    def start(app: App) -> RunningApp:
        running.append(app.start(session=spark, bootstrap=topics.bootstrap, state_dir=str(tmp_path / "state")))
        return running[-1]

    yield start
    for one in running:
        one.stop()
