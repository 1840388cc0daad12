"""pytest fixtures: brokers (`odradek`, `odradek_session`), a Spark session, and `odradek_test_driver` for pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odradek.streams import App
    from odradek.testing.embedded import Embedded
    from odradek.testing.test_driver import TestDriver


@pytest.fixture
def odradek() -> Iterator[Embedded]:
    """A fresh broker in memory. Clients of odradek.client that a test leaves open are closed before it stops."""
    from odradek.client.abandoned import end_all
    from odradek.testing.embedded import Embedded

    with Embedded() as broker:
        yield broker
        end_all(broker.bootstrap_servers)


@pytest.fixture(scope="session")
def odradek_session() -> Iterator[Embedded]:
    """One broker in memory for all tests of the run: use unique topic names."""
    from odradek.testing.embedded import Embedded

    with Embedded() as broker:
        yield broker


@pytest.fixture(scope="session")
def odradek_spark() -> SparkSession:
    """One local Spark session for all tests of the run. Tests are skipped without PySpark or Java."""
    from odradek.spark.java import NoJava, find_java
    from odradek.spark.session import NoSpark, require_pyspark

    try:
        require_pyspark()
        find_java()
    except (NoJava, NoSpark) as missing:
        pytest.skip(str(missing))
    from odradek.testing.test_driver import warm_session

    return warm_session()


@pytest.fixture
def odradek_test_driver(odradek_spark: SparkSession) -> Callable[[App], TestDriver]:
    """`with odradek_test_driver(app) as t:` runs a Streams application between topics that the test fills and reads."""
    from odradek.testing.test_driver import TestDriver

    return lambda app: TestDriver(app, session=odradek_spark)
