"""Suggests the name that a user probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question to append to a sentence; empty if no known name is similar."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    return f' Did you mean "{near[0]}"?' if near else ""
