"""The latest offset of each key, for as many keys as fit into a given amount of memory."""

from __future__ import annotations

from hashlib import blake2b

# A longer key is replaced by its digest. The digest is longer than any key that is stored as it is.
PLAIN_KEY_BYTES_MAX = 32
DIGEST_BYTES = 33
# Measured: 130 bytes in addition to the key, and more while the table is resized.
ENTRY_BYTES = 160


class KeyOffsets:
    __slots__ = ("_bytes_left", "_latest")

    def __init__(self, bytes_max: int) -> None:
        self._latest: dict[bytes, int] = {}
        self._bytes_left = bytes_max

    def __len__(self) -> int:
        return len(self._latest)

    @property
    def full(self) -> bool:
        """The limit is not exact: the caller finishes the current batch first, so that every run makes progress."""
        return self._bytes_left <= 0

    def note(self, key: bytes, offset: int) -> None:
        """Must be called in log order."""
        if len(key) > PLAIN_KEY_BYTES_MAX:
            key = blake2b(key, digest_size=DIGEST_BYTES).digest()
        latest = self._latest
        before = len(latest)
        latest[key] = offset
        if len(latest) != before:
            self._bytes_left -= ENTRY_BYTES + len(key)

    def latest(self, key: bytes) -> int:
        """The latest offset of the key, -1 when it is unknown."""
        if len(key) > PLAIN_KEY_BYTES_MAX:
            key = blake2b(key, digest_size=DIGEST_BYTES).digest()
        return self._latest.get(key, -1)
