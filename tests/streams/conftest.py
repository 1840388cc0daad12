from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import Row

from odradek.streams import App, Stream
from odradek.streams.api.rows import Rows
from odradek.streams.run.running import RunningApp
from odradek.testing import Embedded
from streams.broker import Topics
from streams.feeding import Feed


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


@pytest.fixture
def feed(spark, tmp_path) -> Callable[..., tuple[Feed, Stream]]:
    """A stream of an application that comes from files: quicker than a topic, and each is one micro-batch's rows."""

    def made(app: App, name: str, schema: str, late: str = "0 seconds") -> tuple[Feed, Stream]:
        feed = Feed(spark, tmp_path / name, schema)
        return feed, app.from_df(lambda _: feed.stream, time="_time", name=name, late=late)

    return made


@pytest.fixture
def kept() -> Callable[[Rows], list[Row]]:
    """The rows of a step, as they come."""

    def keep(rows: Rows, **options: Any) -> list[Row]:
        found: list[Row] = []
        rows.foreach_batch(lambda batch, _: found.extend(batch.collect()), **options)
        return found

    return keep
