"""One broker for all tests here. Each test has its own connection and topic name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from odradek.testing import Embedded
from traps.wire import Wire

numbers = itertools.count()


@pytest.fixture(scope="session")
def broker() -> Iterator[Embedded]:
    with Embedded() as running:
        yield running


@pytest.fixture
def wire(broker: Embedded) -> Iterator[Wire]:
    with Wire(broker.port) as connection:
        yield connection


@pytest.fixture
def name() -> str:
    """An unused name for a topic or a group."""
    return f"trap-{next(numbers)}"


@pytest.fixture
def topic(wire: Wire, name: str) -> str:
    return wire.create_topic(name)
