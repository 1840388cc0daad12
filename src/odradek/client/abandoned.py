"""Clients that nobody closed: a ResourceWarning, as for sockets and files, and an end all the same.

The collector may run on any thread, at any line: what takes time is done on another one. At the end of the interpreter
no thread can be started any more, and nobody is kept waiting.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import TypeAlias

Unclosed: TypeAlias = "weakref.finalize[..., object]"


def when_abandoned(client: object, end: Callable[[], None]) -> Unclosed:
    """To be detached by whoever closes the client. `end` must not keep the client alive."""
    return weakref.finalize(client, _end, type(client).__name__, end, os.getpid())


def _end(kind: str, end: Callable[[], None], pid: int) -> None:
    if pid != os.getpid():
        return  # a fork has the queues, and none of the threads that would empty them
    try:
        warnings.warn(f"unclosed {kind}: use it in a `with` block, or close it", ResourceWarning, stacklevel=2)
    finally:
        if threading.main_thread().is_alive():
            threading.Thread(target=end, name="odradek-end").start()
        else:
            end()
