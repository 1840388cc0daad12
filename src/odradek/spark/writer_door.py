"""Passes the records of a task to the process of this host that has the producer of its transactional id.

The door is a Unix socket in a directory that only this user can open. A request has all records of a task, so the
process that sends it can write them itself if the owner dies.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from struct import Struct
from typing import cast

from odradek.client.transactions_offered import NoTransactions
from odradek.spark.errors import CheckpointMismatch
from odradek.spark.ownership import Claim, private_folder
from odradek.spark.task_producer import Record
from odradek.spark.transactional_writer import Attempt, WriterLost

LENGTH = Struct(">q")
ANSWER_WITHIN_S = 300.0
WAITING_MAX = 16
RETRY_S = 0.1


class WriteRefused(RuntimeError):
    """The owner could not write the records, for a reason that is theirs."""


@dataclass(frozen=True, slots=True)
class Request:
    key: str
    token: str  # of the claim
    attempt: Attempt
    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class Answer:
    error: type[Exception] | None = None
    message: str = ""


def ask(claim: Claim, key: str, attempt: Attempt, records: Sequence[Record]) -> None:
    """Returns when the owner has written the records, or knows that they were. WriterLost if there is no owner."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_WITHIN_S)
            connection.connect(claim.door)
            _send(connection, Request(key, claim.token, attempt, records))
            answer = cast("Answer", _receive(connection))
    except (OSError, EOFError, pickle.UnpicklingError) as gone:
        raise WriterLost(f"the owner of {attempt.transactional_id} is gone: {gone}") from None
    if answer.error is not None:
        raise answer.error(answer.message)


class Door:
    """The socket of this process, served by a thread for each request."""

    def __init__(self, serve: Callable[[Request], None]) -> None:
        self._serve = serve
        folder = private_folder()
        _remove_doors_of_dead_processes(folder)
        self.path = str(folder / f"{os.getpid()}-{token_hex(4)}.sock")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self.path)
        self._socket.listen(WAITING_MAX)
        self._is_closed = False
        self._listening = threading.Thread(target=self._listen, name="odradek-sink-door", daemon=True)
        self._listening.start()

    @property
    def is_open(self) -> bool:
        """False if no process can connect, as when a cleaner of temporary files removed the socket."""
        return not self._is_closed and self._listening.is_alive() and Path(self.path).exists()

    def close(self) -> None:
        self._is_closed = True
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            Path(self.path).unlink()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._is_closed or self._socket.fileno() < 0:
                    return
                time.sleep(RETRY_S)  # too many open files, for example
                continue
            threading.Thread(target=self._talk, args=[connection], name="odradek-sink-request", daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            request = cast("Request", _receive(connection))
            _send(connection, self._answered(request))

    def _answered(self, request: Request) -> Answer:
        try:
            self._serve(request)
        except WriterLost as lost:
            return Answer(WriterLost, str(lost))
        except (CheckpointMismatch, NoTransactions) as expected:
            return Answer(type(expected), str(expected))
        except Exception as refused:  # noqa: BLE001 the process that asked raises it
            return Answer(WriteRefused, str(refused))
        return Answer()


def _remove_doors_of_dead_processes(folder: Path) -> None:
    for path in folder.glob("*.sock"):
        pid = path.name.partition("-")[0]
        if pid.isdigit() and not _is_alive(int(pid)):
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _send(connection: socket.socket, message: Request | Answer) -> None:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    connection.sendall(LENGTH.pack(len(body)))
    connection.sendall(body)


def _receive(connection: socket.socket) -> Request | Answer:
    (size,) = LENGTH.unpack(_exactly(connection, LENGTH.size))
    message: Request | Answer = pickle.loads(_exactly(connection, size))  # noqa: S301 only this user opens the socket
    return message


def _exactly(connection: socket.socket, size: int) -> bytearray:
    body = bytearray(size)
    view, filled = memoryview(body), 0
    while filled < size:
        count = connection.recv_into(view[filled:])
        if count == 0:
            raise EOFError("the connection was closed")
        filled += count
    return body
