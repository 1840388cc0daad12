"""Long answers, made in pieces of bounded work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


async def in_pieces(pieces: Iterable[str], pause_s: float) -> bytes:
    """The whole text, made with a pause after each piece."""
    made = []
    for piece in pieces:
        made.append(piece.encode())
        await asyncio.sleep(pause_s)
    return b"".join(made)
