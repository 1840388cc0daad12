"""What a controller function returns: records to append, the answer once they are committed, a sentence for the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from odradek.protocol.schema import Message

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[R]):
    response: R
    records: tuple[Message, ...] = ()
    # Why, for people; empty when nothing was decided.
    sentence: str = ""
    # All records or none after a crash. Only a decision that can be taken again from its middle may be split.
    atomic: bool = True
