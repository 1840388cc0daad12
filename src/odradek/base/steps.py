"""Long work in steps: a generator that yields the work done by each step, and returns its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Steps = Generator[int, None, T]
# Awaited on the event loop after each step, with the amount of work that it did.
Rest = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    result: T


def advance(steps: Steps[T]) -> int | Finished[T]:
    """Returns the result as a value: StopIteration cannot be raised into the event loop."""
    try:
        return next(steps)
    except StopIteration as ended:
        return Finished(ended.value)


async def in_steps(blocking: Callable[..., Awaitable[Any]], steps: Steps[T], rest: Rest) -> T:
    """`blocking` runs a slow call off the event loop."""
    while True:
        step: int | Finished[T] = await blocking(advance, steps)
        if isinstance(step, Finished):
            return step.result
        await rest(step)


async def in_slices(steps: Steps[T], pause_s: float) -> T:
    """For steps so short that they may run on the event loop, with a pause after each."""
    while True:
        step: int | Finished[T] = advance(steps)
        if isinstance(step, Finished):
            return step.result
        await asyncio.sleep(pause_s)
