"""Long work off the event loop that can be paced: a generator that yields how much it did, and returns its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Steps = Generator[int, None, T]
# Awaited on the event loop after each step, with what the step did.
Rest = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    result: T


def advance(steps: Steps[T]) -> int | Finished[T]:
    """Slow. A StopIteration would not survive the way back to the event loop."""
    try:
        return next(steps)
    except StopIteration as ended:
        return Finished(ended.value)


async def in_steps(blocking: Callable[..., Awaitable[Any]], steps: Steps[T], rest: Rest) -> T:
    """`blocking` makes a slow call off the loop."""
    while True:
        step: int | Finished[T] = await blocking(advance, steps)
        if isinstance(step, Finished):
            return step.result
        await rest(step)
