"""One broker for all tests of the console that need no cluster of several nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.testing import Embedded


@pytest.fixture(scope="session")
def broker() -> Iterator[Embedded]:
    config = {"auto.create.topics.enable": False, "group.initial.rebalance.delay.ms": 0}
    with Embedded(config=config | {"offsets.topic.num.partitions": 2}) as broker:
        yield broker
