"""CRC-32C, the checksum of record batches."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from collections.abc import Callable

ByteSource = bytes | bytearray | memoryview


def _load() -> Callable[[ByteSource], int]:
    """Load only the C function: its package reads installation metadata, which would dominate our start-up time."""
    package = importlib.util.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        spec = importlib.machinery.PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            extension = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(extension)
            return extension.crc32c  # type: ignore[no-any-return]
    from crc32c import crc32c

    return crc32c


crc32c = _load()
