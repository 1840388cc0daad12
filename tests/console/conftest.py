"""One broker and one console for all tests that need no cluster of several nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.testing import Embedded
from support.consoles import Running


@pytest.fixture(scope="session")
def broker() -> Iterator[Embedded]:
    config = {"auto.create.topics.enable": False, "group.initial.rebalance.delay.ms": 0}
    with Embedded(config=config | {"offsets.topic.num.partitions": 2}) as broker:
        yield broker


@pytest.fixture(scope="session")
def console(broker: Embedded) -> Iterator[Running]:
    with running(ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0)) as (console, server):
        console.collector.wait_for_first(60)
        yield Running(console, server.url)
