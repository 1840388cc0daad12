"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from odradek.console.words import counted, plural


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "0 records"), (1, "1 record"), (1.2, "1 record"), (2, "2 records"), (12345, "12,345 records")],
)
def test_a_noun_agrees_with_the_number_that_is_shown(number: float, told: str) -> None:
    assert counted(number, "record") == told


def test_other_plurals_are_given() -> None:
    assert counted(1, "record waits", "records wait") == "1 record waits"
    assert counted(2, "record waits", "records wait") == "2 records wait"
    assert plural(0, "is", "are") == "are"
