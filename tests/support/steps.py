"""Work in steps, done without a rest."""

from __future__ import annotations

from typing import TypeVar

from odradek.base.steps import Finished, Steps, advance

T = TypeVar("T")


def finished(steps: Steps[T]) -> T:
    while not isinstance(step := advance(steps), Finished):
        pass
    return step.result
