"""The Rng port, from a seed."""

from __future__ import annotations

from random import Random


class SeededRng:
    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)
