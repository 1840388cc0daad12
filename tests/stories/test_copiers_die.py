"""Copiers and brokers are killed while a topic is copied in transactions: the copy has every record exactly once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.copying.ordeal import in_python, run

pytestmark = [pytest.mark.stories, pytest.mark.timeout(300)]


def test_copy_equals_the_original_when_copiers_and_brokers_die(tell: Callable[[str], None]) -> None:
    run(in_python("confluent_kafka"), seconds=12, seed=1, tell=tell)
