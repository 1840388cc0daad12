"""Settings of the evaluation, with Burrow's names and defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSettings:
    intervals: int = 10  # commits of a partition that are kept, and samples of its log end
    min_distance_s: int = 0  # a commit that follows the previous one faster than this replaces it
    expire_group_s: int = 604_800
    minimum_complete: float = 0.0  # the share of a full window below which a partition is OK
    allowed_lag: int = 0
    group_allowlist: re.Pattern[str] | None = None
    group_denylist: re.Pattern[str] | None = None

    def accepts(self, group: str) -> bool:
        if self.group_allowlist is not None and not self.group_allowlist.search(group):
            return False
        return self.group_denylist is None or not self.group_denylist.search(group)
