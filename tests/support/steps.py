"""Runs work in steps, without pauses between them."""

from __future__ import annotations

from typing import TypeVar

from odradek.base.steps import Finished, Steps, advance

T = TypeVar("T")


def finished(steps: Steps[T]) -> T:
    while not isinstance(step := advance(steps), Finished):
        pass
    return step.result
