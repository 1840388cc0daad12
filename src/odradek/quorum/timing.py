"""The timeouts of the quorum, and the time of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Now(NamedTuple):
    """The time and random number of a step. The core itself uses no clock and no random generator."""

    ms: int
    # In [0, 1), drawn by the shell for this step.
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumTiming:
    """Kafka's `controller.quorum.*`, with its defaults."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    retry_backoff_ms: int = 20

    def election_timeout(self, chance: float) -> int:
        """Between one and two timeouts, so that voters that stood at the same moment do not do so again."""
        return self.election_timeout_ms + int(chance * self.election_timeout_ms)

    @property
    def check_quorum_ms(self) -> int:
        """A leader resigns after this time without fetches of a majority. Longer than the followers' fetch timeout."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_ms(self) -> int:
        return self.fetch_timeout_ms // 2
