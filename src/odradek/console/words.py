"""Nouns and numbers that agree: 1 record, 12,345 records."""

from __future__ import annotations


def plural(number: float, one: str, several: str = "") -> str:
    """`one` if the number is shown as 1, otherwise `several`: by default with an s."""
    return one if f"{number:.0f}" == "1" else several or f"{one}s"


def counted(number: float, one: str, several: str = "") -> str:
    return f"{number:,.0f} {plural(number, one, several)}"
