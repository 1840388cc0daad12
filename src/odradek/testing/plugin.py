"""pytest fixtures: `odradek` is a broker for one test, `odradek_session` one for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from odradek.testing.embedded import Embedded


@pytest.fixture
def odradek() -> Iterator[Embedded]:
    """A fresh broker in memory."""
    from odradek.testing.embedded import Embedded

    with Embedded() as broker:
        yield broker


@pytest.fixture(scope="session")
def odradek_session() -> Iterator[Embedded]:
    """One broker in memory for all tests of the run: use topic names of your own."""
    from odradek.testing.embedded import Embedded

    with Embedded() as broker:
        yield broker
