"""What all tests share: one warm Spark session, and the mark on the tests that use it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A busy machine is not a failure.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# The quick compiler alone and one thread for garbage: a quarter less work for as many queries as tests start.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Brokers that tests start with `odradek up` need no console; tests/console has its own.
os.environ.setdefault("ODRADEK_CONSOLE", "0")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started with `&` by a script: processes that tests start must still react to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"spark", "odradek_spark"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from odradek.spark.java import NoJava, find_java
    from odradek.spark.session import local_session

    try:
        find_java()
    except NoJava as missing:
        pytest.skip(str(missing))
    session = local_session("tests", master="local[2]")
    yield session
    session.stop()
