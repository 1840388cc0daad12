"""Long work off the event loop that can be throttled: a generator that yields the work done, and returns its result."""

from __future__ import annotations

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
    """Slow. Returns the result as a value: StopIteration cannot be raised into the event loop."""
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
