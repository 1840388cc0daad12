"""Ends clients that the program did not close, with a ResourceWarning as for sockets and files.

The garbage collector may run on any thread, at any line: the end, which takes time, runs on a new thread. When the
interpreter exits, no thread can be started any more: then it runs at once.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import TypeAlias

_SENTENCE = "unclosed {}: use it in a `with` block, or close it"

Unclosed: TypeAlias = "weakref.finalize[..., object]"


# Finalizers of open clients, by bootstrap address.
_open: dict[str, list[Unclosed]] = {}
_lock = threading.Lock()


def when_abandoned(client: object, bootstrap: str, end: Callable[[], None]) -> Unclosed:
    """The caller detaches the result when it closes the client. `end` must not reference the client."""
    unclosed = weakref.finalize(client, _end, type(client).__name__, end, os.getpid())
    with _lock:
        for known, others in list(_open.items()):
            _open[known] = [other for other in others if other.alive]
            if not _open[known]:
                del _open[known]
        _open.setdefault(bootstrap, []).append(unclosed)
    return unclosed


def end_all(bootstrap: str) -> None:
    """Ends the open clients of a cluster that is gone for ever, such as a test's broker, with the same warning.

    Ends every client, then raises the errors of all that failed as an ExceptionGroup.
    """
    with _lock:
        left = [abandoned for unclosed in _open.pop(bootstrap, []) if (abandoned := unclosed.detach())]
    ours = [(kind, end) for _, _, (kind, end, pid), _ in left if pid == os.getpid()]
    errors = []
    for _, end in ours:
        try:
            end()
        except Exception as error:  # noqa: BLE001, raised below
            errors.append(error)
    try:
        for kind, _ in ours:
            warnings.warn(_SENTENCE.format(kind), ResourceWarning, stacklevel=2)
    finally:  # a warning may be an error
        if errors:
            clients = "1 client" if len(errors) == 1 else f"{len(errors)} clients"
            raise ExceptionGroup(f"{clients} of {bootstrap} could not be ended", errors)


def _end(kind: str, end: Callable[[], None], pid: int) -> None:
    if pid != os.getpid():
        return  # a forked process has the queues, but none of the threads that would send them
    try:
        warnings.warn(_SENTENCE.format(kind), ResourceWarning, stacklevel=2)
    finally:
        if threading.main_thread().is_alive():
            threading.Thread(target=end, name="odradek-end").start()
        else:
            end()
