"""A broker and a connect service for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.testing import Embedded
from support.connect_service import Service, connect_service
from support.topics import Records


@pytest.fixture(scope="module")
def broker() -> Iterator[Embedded]:
    with Embedded() as broker:
        yield broker


@pytest.fixture(scope="module")
def service(broker: Embedded) -> Iterator[Service]:
    with connect_service(broker.bootstrap_servers) as service:
        yield service


@pytest.fixture
def records(broker: Embedded) -> Records:
    return Records(broker.bootstrap_servers)
