"""What the other clients leave behind is not ours to close."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def untidy_clients() -> Iterator[None]:
    """kafka-python forgets sockets with which it could not connect: they go while warnings about them are ignored."""
    yield
    gc.collect()
