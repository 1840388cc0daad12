"""The error for a client config that is refused: its name, the reason, and a substitute."""

from __future__ import annotations


class RefusedConfig(ValueError):
    def __init__(self, name: str, why: str, instead: str = "") -> None:
        self.name, self.why, self.instead = name, why, instead
        super().__init__(f"the Kafka config {name!r} is refused: {why}" + (f"; instead: {instead}" if instead else ""))
