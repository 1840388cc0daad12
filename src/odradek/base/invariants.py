"""Assertions that stay on in production."""

from __future__ import annotations


class InvariantBroken(Exception):
    """A state the design rules out. The process must not go on as if nothing happened."""


def invariant(holds: bool, what: str) -> None:
    if not holds:
        raise InvariantBroken(what)
