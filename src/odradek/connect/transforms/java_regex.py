"""Java's regular expressions and replacements in Python's spelling."""

from __future__ import annotations

import re
from collections.abc import Callable

_REFERENCE = re.compile(r"\\(.)|\$\{(\w+)\}|\$(\d)", re.DOTALL)


def java_pattern(text: str) -> re.Pattern[str]:
    """Raises ValueError. Named groups are `(?<name>…)` in Java."""
    try:
        return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", text))
    except re.error as wrong:
        raise ValueError(f"{text!r} is not a regular expression: {wrong}") from None


def is_java_pattern(text: str) -> str | None:
    """What is wrong with a pattern, as a check of an option."""
    try:
        java_pattern(text)
    except ValueError as wrong:
        return f"is refused: {wrong}"
    return None


def java_replacement(pattern: re.Pattern[str], text: str) -> Callable[[re.Match[str]], str]:
    """A function for `pattern.sub`. `$1` and `${name}` are groups, a backslash quotes. Raises ValueError."""

    def group(match: re.Match[str]) -> str | int | None:
        if match[1] is not None:
            return None
        return match[2] if match[2] is not None else int(match[3])

    for each in _REFERENCE.finditer(text):
        wanted = group(each)
        known = pattern.groupindex if isinstance(wanted, str) else range(pattern.groups + 1)
        if wanted is not None and wanted not in known:
            raise ValueError(f"the replacement {text!r} refers to the group {wanted}, which the pattern does not have")

    def replaced(found: re.Match[str]) -> str:
        def one(match: re.Match[str]) -> str:
            wanted = group(match)
            return match[1] if wanted is None else found[wanted] or ""

        return _REFERENCE.sub(one, text)

    return replaced
