"""Open alerts and undelivered messages on disk, so that a restart neither repeats nor loses them.

The file is replaced as a whole: a crash leaves the old one or the new one.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from odradek.monitor.alerts.alerts import Change, Key, Notice, Opened
from odradek.monitor.alerts.outbox import Message

VERSION = 1


class BadState(Exception):
    """The file is not one of ours. Deleting it forgets open alerts."""


class _Opened(msgspec.Struct, frozen=True):
    rule: str
    source: str
    labels: list[tuple[str, str]]
    opened_ms: int
    condition: str
    send: list[str]
    value: float


class _Message(msgspec.Struct, frozen=True):
    receiver: str
    change: str
    alert: _Opened
    at_ms: int
    value: float | None
    failures: int


class _State(msgspec.Struct, frozen=True):
    version: int
    opened: list[_Opened]
    messages: list[_Message]


def read_state(path: Path) -> tuple[list[Opened], list[Message]]:
    """Nothing if there is no file."""
    try:
        state = msgspec.json.decode(path.read_bytes(), type=_State)
        messages = [_message(each) for each in state.messages]
    except FileNotFoundError:
        return [], []
    except (msgspec.DecodeError, ValueError) as broken:
        raise BadState(f"{path} is not a state of alerts: {broken}. Delete it to forget all open alerts") from broken
    if state.version != VERSION:
        raise BadState(f"{path} has version {state.version}, but this is version {VERSION}")
    return [_opened(each) for each in state.opened], messages


def write_state(path: Path, opened: list[Opened], messages: list[Message]) -> None:
    state = _State(
        version=VERSION, opened=[_stored(each) for each in opened], messages=[_sent(each) for each in messages]
    )
    beside = path.with_name(f"{path.name}.new")
    with beside.open("wb") as file:
        file.write(msgspec.json.encode(state))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _stored(alert: Opened) -> _Opened:
    return _Opened(
        rule=alert.key.rule,
        source=alert.key.source,
        labels=list(alert.key.labels),
        opened_ms=alert.opened_ms,
        condition=alert.condition,
        send=list(alert.send),
        value=alert.value,
    )


def _opened(stored: _Opened) -> Opened:
    return Opened(
        key=Key(stored.rule, stored.source, tuple(stored.labels)),
        opened_ms=stored.opened_ms,
        condition=stored.condition,
        send=tuple(stored.send),
        value=stored.value,
    )


def _sent(message: Message) -> _Message:
    notice = message.notice
    return _Message(
        receiver=message.receiver,
        change=notice.change.value,
        alert=_stored(notice.alert),
        at_ms=notice.at_ms,
        value=notice.value,
        failures=message.failures,
    )


def _message(stored: _Message) -> Message:
    notice = Notice(change=Change(stored.change), alert=_opened(stored.alert), at_ms=stored.at_ms, value=stored.value)
    return Message(receiver=stored.receiver, notice=notice, failures=stored.failures)
