"""What a user's function asks for, by the annotations of its parameters."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from odradek.pipeline.errors import PipelineError
from odradek.streams.compile.state.states import ListState, MapState, State, Timers
from odradek.streams.compile.state.values import ValueCodec


@dataclass(frozen=True, slots=True)
class Declared:
    """A parameter that takes state. Its types are resolved here and now: in a worker their module may be missing."""

    text: str
    kind: type  # State, ListState or MapState
    codecs: tuple[ValueCodec, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Parameters:
    states: dict[str, Declared] = field(default_factory=dict)

    timers: str | None = None
    """The name of the parameter that takes the timers."""


def halves(
    function: Callable[..., Any] | Any,  # noqa: ANN401 or a class, or an object of one, with on_rows
    on_timer: Callable[..., Any] | None,
) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """What is called with rows, and what with timers."""
    both = function() if isinstance(function, type) else function
    return getattr(both, "on_rows", both), on_timer or getattr(both, "on_timer", None)


def parameters(function: Callable[..., Any]) -> Parameters:
    """All but the first two, which are the key and the rows (or the time)."""
    names = list(inspect.signature(function).parameters)[2:]
    try:
        hints = typing.get_type_hints(function)
    except NameError as unknown:
        raise PipelineError(
            f"{unknown}, which an annotation of {function.__qualname__} uses",
            why="types of state are looked up where the function was written",
            instead="a type defined at the top of the module",
        ) from unknown
    states, timers = {}, None
    for name in names:
        kind = typing.get_origin(hints.get(name)) or hints.get(name)
        if kind is Timers:
            timers = name
        elif kind in (State, ListState, MapState) and typing.get_args(hints[name]):
            codecs = tuple(ValueCodec(hint, f"state {name}") for hint in typing.get_args(hints[name]))
            states[name] = Declared(str(hints[name]), kind, codecs)
        else:
            raise PipelineError(
                f"parameter {name} of {function.__qualname__} does not say what it is",
                why="after the key and the rows come states and timers, and their annotations are the schema",
                instead=f"{name}: State[int], ListState[str], MapState[str, float] or Timers",
            )
    return Parameters(states, timers)
