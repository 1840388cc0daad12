"""The demo's screen: a few lines redrawn in place on a terminal, one line now and then anywhere else."""

from __future__ import annotations

import shutil
import sys
from collections import deque
from dataclasses import dataclass

BARS = "▁▂▃▄▅▆▇█"
HISTORY = 32
FIGURES = 38  # columns for the name and two numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    name: str
    total: int
    note: str = ""


class Screen:
    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._drawn_lines = 0
        self._totals: dict[str, int] = {}
        self._rates: dict[str, deque[float]] = {}
        self._drawn_at_s = 0.0

    @property
    def interval_s(self) -> float:
        return 0.5 if self._live else 2.0

    def draw(self, elapsed_s: float, lines: list[Line]) -> None:
        since_s = max(elapsed_s - self._drawn_at_s, 0.001)
        self._drawn_at_s = elapsed_s
        for line in lines:
            rates = self._rates.setdefault(line.name, deque(maxlen=HISTORY))
            rates.append((line.total - self._totals.get(line.name, 0)) / since_s)
            self._totals[line.name] = line.total
        if self._live:
            self._redraw(elapsed_s, lines)
        else:
            print(f"{elapsed_s:4.0f} s   " + "   ".join(f"{line.name} {line.total:,} {line.note}" for line in lines))

    def say(self, sentence: str) -> None:
        """Stays on the screen, above what is redrawn."""
        self._wipe()
        print(sentence, flush=True)

    def _redraw(self, elapsed_s: float, lines: list[Line]) -> None:
        """A line never wraps, or the next redraw would not find its beginning."""
        self._wipe()
        room = shutil.get_terminal_size().columns - 1 - FIGURES
        bars = max(0, min(HISTORY, room - 4 - max(len(line.note) for line in lines)))
        print(f"\x1b[2m{elapsed_s:5.0f} s{'records':>19}{'per second':>12}\x1b[0m")
        for line in lines:
            rates = self._rates[line.name]
            note = line.note[: max(0, room - bars - 4)]
            figures = f"  {line.name:<13}{line.total:>11,}{rates[-1]:>12,.0f}"
            print(f"{figures}  \x1b[36m{_bars(rates, bars)}\x1b[0m  {note}")
        self._drawn_lines = len(lines) + 1
        sys.stdout.flush()

    def _wipe(self) -> None:
        if self._drawn_lines:
            print(f"\x1b[{self._drawn_lines}A\x1b[J", end="")
        self._drawn_lines = 0


def _bars(rates: deque[float], width: int) -> str:
    top = max(*rates, 1.0)
    bars = [BARS[min(int(rate / top * len(BARS)), len(BARS) - 1)] for rate in rates]
    return "".join(bars[len(bars) - min(width, len(bars)) :]).ljust(width)
