"""One broker for all client tests, and a topic for each test."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from client import threads
from odradek.client import Admin
from odradek.testing import Embedded


@pytest.fixture(scope="session")
def broker() -> Iterator[Embedded]:
    with Embedded() as broker:
        yield broker


@pytest.fixture(autouse=True)
def know_earlier_threads() -> None:
    threads.earlier = set(threading.enumerate())


@pytest.fixture
def bootstrap(broker: Embedded) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """With three partitions."""
    name = "".join(letter if letter.isalnum() else "-" for letter in f"{request.path.stem}-{request.node.name}")[:200]
    Admin(bootstrap).create_topic(name, 3)
    return name
