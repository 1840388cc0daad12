"""The embedded broker and the pytest plug-in: a real broker inside a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.testing.embedded import Embedded

__all__ = ["Embedded"]


def __getattr__(name: str) -> type[Embedded]:
    """pytest loads the plug-in in every run: the broker itself is imported only when a test asks for it."""
    if name != "Embedded":
        raise AttributeError(f"module 'odradek.testing' has no attribute {name!r}")
    from odradek.testing.embedded import Embedded

    return Embedded
