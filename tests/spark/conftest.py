"""A broker for the tests of a file, which create and fill topics themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.client.admin import Admin
from odradek.spark import consumers, raw_fetching, task_producer
from odradek.testing import Embedded
from support.topics import Records


@pytest.fixture(autouse=True)
def no_client_outlives_its_test() -> Iterator[None]:
    """Close the clients that tasks keep for later tasks: they would reconnect to a port that another broker may get."""
    yield
    task_producer._PRODUCERS.clear()
    raw_fetching.close_idle()
    while consumers._idle:
        consumers._idle.popitem()[1].kafka.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[Embedded]:
    with Embedded(config={"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
def cluster(broker: Embedded) -> Admin:
    return Admin(broker.bootstrap_servers)


@pytest.fixture
def records(broker: Embedded) -> Records:
    return Records(broker.bootstrap_servers)
