"""Errors of pipelines: what is wrong, why, what to write instead, and the line of the user's code that says it."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from pathlib import Path

# Frames in these packages are never user code. The step is in the code that calls them.
_OURS = tuple(f"{Path(__file__).parents[1] / package}{os.sep}" for package in ("pipeline", "streams"))


def is_ours(file: str) -> bool:
    return file.startswith(_OURS)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in the user's code a step was written."""

    file: str
    line: int

    @classmethod
    def here(cls) -> Origin:
        """The innermost line of the call stack outside these packages."""
        frame = sys._getframe(1)  # noqa: SLF001 the traceback module would format every frame
        while is_ours(frame.f_code.co_filename) and frame.f_back is not None:
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
        """Set the line of the step. Without it, an error found at compile time names the line that starts the app."""
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
