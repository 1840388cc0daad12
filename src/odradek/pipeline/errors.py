"""Errors of pipelines: what is wrong, why, what to write instead, and the line of the user's code that says it."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from pathlib import Path

# Code here is never the user's: a step is written by whoever calls it.
_OURS = tuple(f"{Path(__file__).parents[1] / package}{os.sep}" for package in ("pipeline", "streams"))


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in the user's code a step was written."""

    file: str
    line: int

    @classmethod
    def here(cls) -> Origin:
        """The innermost line of the call stack outside these packages."""
        frame = sys._getframe(1)  # noqa: SLF001 the traceback module would format what is thrown away
        while frame.f_code.co_filename.startswith(_OURS) and frame.f_back is not None:
            frame = frame.f_back
        return cls(frame.f_code.co_filename, frame.f_lineno)

    @property
    def code(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class StreamsError(Exception):
    """The root of all errors of pipelines."""


class PipelineError(StreamsError):
    """A pipeline that cannot run as it is written."""

    def __init__(self, what: str, *, why: str = "", instead: str = "", origin: Origin | None = None) -> None:
        self.what, self.why, self.instead = what, why, instead
        self.origin = origin or Origin.here()
        self._knows_its_step = origin is not None
        super().__init__(what, why, instead)

    def locate(self, origin: Origin) -> None:
        """For what is found when a step is compiled: the line of the step, not the one that starts the application."""
        if not self._knows_its_step:
            self.origin, self._knows_its_step = origin, True

    def __str__(self) -> str:
        lines = [f"{self.what}", f"  at     {self.origin}"]
        if self.origin.code:
            lines.append(f"         {self.origin.code}")
        if self.why:
            lines.append(f"  why    {_indented(self.why)}")
        if self.instead:
            lines.append(f"  write  {_indented(self.instead)}")
        return "\n".join(lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n         ")
