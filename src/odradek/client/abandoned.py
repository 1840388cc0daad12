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

_SENTENCE = "unclosed {}: use it in a `with` block, or close it"

Unclosed: TypeAlias = "weakref.finalize[..., object]"


# Of clients that are open, by the cluster they talk to.
_open: dict[str, list[Unclosed]] = {}
_lock = threading.Lock()


def when_abandoned(client: object, bootstrap: str, end: Callable[[], None]) -> Unclosed:
    """To be detached by whoever closes the client. `end` must not keep the client alive."""
    unclosed = weakref.finalize(client, _end, type(client).__name__, end, os.getpid())
    with _lock:
        for known, others in list(_open.items()):
            _open[known] = [other for other in others if other.alive]
            if not _open[known]:
                del _open[known]
        _open.setdefault(bootstrap, []).append(unclosed)
    return unclosed


def end_all(bootstrap: str) -> None:
    """Ends what is still open to a cluster that will not come back, as the broker of a test, with the same warning.

    Every client is ended; then an ExceptionGroup has the errors of those that could not be.
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
        return  # a fork has the queues, and none of the threads that would empty them
    try:
        warnings.warn(_SENTENCE.format(kind), ResourceWarning, stacklevel=2)
    finally:
        if threading.main_thread().is_alive():
            threading.Thread(target=end, name="odradek-end").start()
        else:
            end()
