"""What is raised when bytes from outside do not say what they should. Nothing else escapes a decoder."""

from __future__ import annotations


class MalformedMessage(Exception):
    """A request, response or stored record that does not follow its schema."""


class MalformedRecords(Exception):
    """A record batch, or the records inside it, that cannot be read."""


class DecompressedTooLarge(MalformedRecords):
    """Unpacking would exceed `limits.decompressed_batch_bytes_max`; the attempt stopped there."""
