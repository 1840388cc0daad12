"""The result of a controller function: records to append, the response once they are committed, a log sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from odradek.protocol.schema import Message

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[R]):
    response: R
    records: tuple[Message, ...] = ()
    # The log message; empty when nothing was decided.
    sentence: str = ""
    # All records or none survive a crash. False only for a decision that can be repeated after a part of it.
    atomic: bool = True
