"""One broker for all traps; each test has a connection and a topic name of its own."""

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
    """A name that nobody else has used, for a topic or a group."""
    return f"trap-{next(numbers)}"


@pytest.fixture
def topic(wire: Wire, name: str) -> str:
    return wire.create_topic(name)
