"""Runs work step by step in a child process, which does not outlive this one.

The child runs this module. It reads the work from its standard input, and then a byte for each further step. It writes
the amount of work of each step, and finally the result, to its standard output. At the end of the input it exits.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, Generic, TypeVar

from odradek.base.steps import Finished, Steps, advance

T = TypeVar("T")

NICE = 10
GO_ON = b"."


class OtherProcess(Generic[T]):
    def __init__(self, work: Callable[..., Steps[T]], args: tuple[object, ...]) -> None:
        self._request = _framed((work, args))
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._lock = threading.Lock()

    def step(self) -> int | Finished[T]:
        """Slow. Raises the exceptions of the work, and ChildProcessError when the process ends without a result."""
        with self._lock:
            if self._killed:
                raise ChildProcessError("killed before it began")
            goes_on = self._process is not None
            process = self._process = self._process or _started()
        try:
            outcome = _asked(process, GO_ON if goes_on else self._request)
        except (BrokenPipeError, EOFError):
            self.close()
            raise ChildProcessError(
                f"process {process.pid} ended with {process.returncode} and without a result"
            ) from None
        if isinstance(outcome, int):
            return outcome
        self.close()
        if isinstance(outcome, Finished):
            return outcome
        raise outcome

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Slow. Call it after the last step or after `kill`."""
        if self._process is not None:
            self._process.communicate()


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C must not reach the child process
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )


def _asked(process: subprocess.Popen[bytes], words: bytes) -> Any:  # noqa: ANN401 what the other end pickled
    if process.stdin is None or process.stdout is None:
        raise ChildProcessError("it has no pipes")
    process.stdin.write(words)
    process.stdin.flush()
    size = int.from_bytes(_exactly(process.stdout, 8), "big")
    return pickle.loads(_exactly(process.stdout, size))  # noqa: S301 - from our own process


def _exactly(source: IO[bytes], size: int) -> bytes:
    content = source.read(size)
    if len(content) < size:
        raise EOFError
    return content


def _framed(message: object) -> bytes:
    content = pickle.dumps(message)
    return len(content).to_bytes(8, "big") + content


def _serve() -> None:
    os.nice(NICE)
    size = int.from_bytes(_read(8), "big")
    work, args = pickle.loads(_read(size))  # noqa: S301 - from whoever started this process
    may_go_on = threading.Semaphore(0)
    threading.Thread(target=_end_with_input, args=(may_go_on,), daemon=True).start()
    try:
        steps = work(*args)
        while isinstance(step := advance(steps), int):
            _tell(step)
            may_go_on.acquire()
        _tell(step)
    except Exception as failure:  # noqa: BLE001 - whatever the work raises belongs to whoever asked for it
        _tell(failure)
    os._exit(0)


def _tell(outcome: object) -> None:
    sys.stdout.buffer.write(_framed(outcome))
    sys.stdout.buffer.flush()


def _read(size: int) -> bytes:
    """Reads from the descriptor itself: the thread that waits for the end would hold the lock of a buffer."""
    content = b""
    while len(content) < size:
        part = os.read(0, size - len(content))
        if not part:
            os._exit(1)
        content += part
    return content


def _end_with_input(may_go_on: threading.Semaphore) -> None:
    while os.read(0, 1):
        may_go_on.release()
    os._exit(1)


if __name__ == "__main__":
    _serve()
