"""The exceptions for invalid input. A decoder raises no others."""

from __future__ import annotations


class MalformedMessage(Exception):
    """A request, response or stored record that does not follow its schema."""


class MalformedRecords(Exception):
    """A record batch, or the records inside it, that cannot be read."""


class DecompressedTooLarge(MalformedRecords):
    """Decompression stopped because the result exceeds `limits.decompressed_batch_bytes_max`."""
