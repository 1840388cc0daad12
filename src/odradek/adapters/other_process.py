"""One call in a process of its own, which does not outlive this one.

The other end runs this module: the call comes on its standard input, which then stays open; the result goes to its
standard output. When the input ends, nobody waits for the result any more.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

NICE = 10


class OtherProcess(Generic[T]):
    def __init__(self, call: Callable[..., T], args: tuple[object, ...]) -> None:
        self._request = pickle.dumps((call, args))
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._lock = threading.Lock()

    def run(self) -> T:
        """Slow. Raises what the call raises, and ChildProcessError when the process ends without a word."""
        with self._lock:
            if self._killed:
                raise ChildProcessError("killed before it began")
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # whoever interrupts this process by hand does not mean that one
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        with self._process as process:
            if process.stdin is None or process.stdout is None:
                raise ChildProcessError("it has no pipes")
            try:
                process.stdin.write(len(self._request).to_bytes(8, "big") + self._request)
                process.stdin.flush()
                reply = process.stdout.read()
            except BrokenPipeError:
                reply = b""
        if not reply:
            raise ChildProcessError(f"process {process.pid} ended with {process.returncode}, and without a result")
        succeeded, outcome = pickle.loads(reply)  # noqa: S301 - from our own process
        if not succeeded:
            raise outcome
        result: T = outcome
        return result

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()


def _serve() -> None:
    os.nice(NICE)
    size = int.from_bytes(_read(8), "big")
    call, args = pickle.loads(_read(size))  # noqa: S301 - from whoever started this process
    threading.Thread(target=_end_with_input, daemon=True).start()
    outcome: tuple[bool, Any]
    try:
        outcome = (True, call(*args))
    except Exception as failure:  # noqa: BLE001 - whatever the call raises belongs to whoever asked for it
        outcome = (False, failure)
    sys.stdout.buffer.write(pickle.dumps(outcome))
    sys.stdout.buffer.flush()
    os._exit(0)


def _read(size: int) -> bytes:
    """Straight from the descriptor: a buffer would be locked by the thread that waits for the end."""
    content = b""
    while len(content) < size:
        part = os.read(0, size - len(content))
        if not part:
            os._exit(1)
        content += part
    return content


def _end_with_input() -> None:
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    _serve()
