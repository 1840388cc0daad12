"""Which offset of a key is the latest: as many keys as fit into a given memory."""

from __future__ import annotations

from hashlib import blake2b

# A longer key is known by its digest, which is longer than any key that is kept as it is.
PLAIN_KEY_BYTES_MAX = 32
DIGEST_BYTES = 33
# Measured: 130 bytes besides the key's own, more for the moment in which the table grows.
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
        """Not exactly: whoever fills it finishes the batch first, so that there is always some progress."""
        return self._bytes_left <= 0

    def note(self, key: bytes, offset: int) -> None:
        """In the order of the log."""
        if len(key) > PLAIN_KEY_BYTES_MAX:
            key = blake2b(key, digest_size=DIGEST_BYTES).digest()
        latest = self._latest
        before = len(latest)
        latest[key] = offset
        if len(latest) != before:
            self._bytes_left -= ENTRY_BYTES + len(key)

    def latest(self, key: bytes) -> int:
        """-1 when the key is not known."""
        if len(key) > PLAIN_KEY_BYTES_MAX:
            key = blake2b(key, digest_size=DIGEST_BYTES).digest()
        return self._latest.get(key, -1)
