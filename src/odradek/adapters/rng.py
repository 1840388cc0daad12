"""Random numbers from the operating system, suitable for ids that must not be guessed."""

from __future__ import annotations

import os
import secrets


class SystemRng:
    __slots__ = ()

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)
