"""Errors for records that are too large: the limit, and how to raise it."""

from __future__ import annotations

from typing import NoReturn

from odradek.cli.config_requests import described
from odradek.cli.remote import fail

LIMIT = "max.message.bytes"
# Bytes that a batch of one record needs besides its key, value and headers.
OVERHEAD_BYTES = 100


def too_large_for_topic(bootstrap: str, topic: str, size: int) -> NoReturn:
    limit = int(described(bootstrap, "topic", topic)[LIMIT].value or 0)
    if size + OVERHEAD_BYTES > limit:
        problem = f'the record has {size} bytes; topic "{topic}" takes {limit} ({LIMIT})'
    else:
        problem = f'a batch of records has more than the {limit} bytes that topic "{topic}" takes ({LIMIT})'
    fail(f"{problem}.\nRaise it with: odradek config set topic {topic} {LIMIT}={_enough(max(size, limit))}")


def too_large_for_client(size: int, limit: int) -> NoReturn:
    fail(
        f"the record has {size} bytes; this command sends at most {limit} (message.max.bytes).\n"
        f"Raise it with: -X message.max.bytes={_enough(size)}"
    )


def _enough(size: int) -> int:
    """The next power of two: a number that people recognise."""
    return 1 << (size + OVERHEAD_BYTES).bit_length()
