"""One seed, many independent streams.

Each purpose draws from its own stream, so that one more draw for the disk does not change what the network does.
"""

from __future__ import annotations

from random import Random


class Streams:
    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, purpose: str) -> Random:
        return Random(f"{self.seed}:{purpose}")  # seeding with text hashes it with SHA-512: the same in every process


class SimRng:
    """The Rng port on a stream."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def bytes(self, count: int) -> bytes:
        return self._rng.randbytes(count)

    def below(self, bound: int) -> int:
        return self._rng.randrange(bound)
