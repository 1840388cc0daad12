"""Assertions that stay on in production."""

from __future__ import annotations


class InvariantBroken(Exception):
    """A state that the design rules out. The process must not continue."""


def invariant(holds: bool, what: str) -> None:
    if not holds:
        raise InvariantBroken(what)
