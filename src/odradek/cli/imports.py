"""Imports of many modules without garbage collection in between.

Modules, classes and functions live as long as the process. The collector would look at all of them again and again: a
tenth of the CPU time of a broker's start.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Afterwards the collector ignores all objects that exist: the first collection would look at everything."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
