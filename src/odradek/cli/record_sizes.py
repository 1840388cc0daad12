"""Records that are too large: which limit they exceed, and how to raise it."""

from __future__ import annotations

from typing import NoReturn

from odradek.cli.config_requests import described
from odradek.cli.remote import fail

LIMIT = "max.message.bytes"
# What a batch of one record needs besides key and value, headers apart.
OVERHEAD_BYTES = 100


def too_large_for_topic(bootstrap: str, topic: str, size: int) -> NoReturn:
    limit = int(described(bootstrap, "topic", topic)[LIMIT].value or 0)
    what = f"a record of {size} bytes is" if size + OVERHEAD_BYTES > limit else "a batch of records is"
    fail(
        f"{what} too large: topic {topic!r} takes at most {limit} bytes ({LIMIT}).\n"
        f"Raise it with: odradek config set topic {topic} {LIMIT}={_enough(max(size, limit))}"
    )


def too_large_for_client(size: int, limit: int) -> NoReturn:
    fail(
        f"a record of {size} bytes is too large: this command sends at most {limit} bytes (message.max.bytes).\n"
        f"Raise it with: -X message.max.bytes={_enough(size)}"
    )


def _enough(size: int) -> int:
    """The next power of two: a number that people recognise."""
    return 1 << (size + OVERHEAD_BYTES).bit_length()
