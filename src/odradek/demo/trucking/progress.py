"""What the terminal tells: a line for each step with the time it came, and below them how things are."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence

from odradek.demo.trucking.page_state import PartState

QUIET_EVERY_S = 10.0  # where nothing can be redrawn, as in a log


class Progress:
    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._redraws = sys.stdout.isatty()
        self._status_shown = False
        self._status_at = 0.0

    def say(self, who: str, what: str) -> None:
        self._wipe()
        print(f"{self._seconds():5.1f} s  {who:<7} {what}", flush=True)

    def status(self, figures: Mapping[str, int], parts: Sequence[PartState]) -> None:
        """Who is not there yet comes first: a narrow terminal cuts the end off."""
        absent = [
            f"{part.name} {part.state}" + (f": {part.detail}" if part.detail else "")
            for part in parts
            if part.state != "alive"
        ]
        text = "  ".join([*absent, *(f"{name} {figure:,}" for name, figure in figures.items())])
        if self._redraws:
            self._wipe()
            width = shutil.get_terminal_size().columns - 1
            print(f"{self._seconds():5.1f} s  {text}"[:width], end="", flush=True)
            self._status_shown = True
        elif time.monotonic() - self._status_at >= QUIET_EVERY_S:
            self._status_at = time.monotonic()
            print(f"{self._seconds():5.1f} s  {text}", flush=True)

    def end(self) -> None:
        self._wipe()

    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _wipe(self) -> None:
        if self._status_shown:
            print("\r\x1b[K", end="")
        self._status_shown = False
