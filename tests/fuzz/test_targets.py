"""The targets of the fuzzer, with its seed inputs and with randomly damaged ones."""

from __future__ import annotations

import random

import pytest

from fuzz.targets import TARGETS, seeds


@pytest.mark.parametrize("name", TARGETS)
def test_valid_and_damaged_input_raises_nothing(name: str) -> None:
    chance = random.Random(name)
    for seed in seeds(name):
        TARGETS[name](seed)
        damaged = bytearray(seed)
        for _ in range(3):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            TARGETS[name](bytes(damaged[: chance.randrange(len(damaged) + 1)]))
            TARGETS[name](bytes(damaged))
