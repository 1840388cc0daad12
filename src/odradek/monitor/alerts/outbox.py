"""Messages that wait for delivery: in order for each receiver, repeated after failures, bounded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from odradek.base.limits import alert_messages_max
from odradek.monitor.alerts.alerts import Notice

RETRY_FIRST_MS = 1_000
RETRY_MAX_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    receiver: str
    notice: Notice
    failures: int = 0
    not_before_ms: int = 0


class Outbox:
    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._waiting = list(messages)

    @property
    def waiting(self) -> list[Message]:
        return list(self._waiting)

    def add(self, notices: Iterable[Notice]) -> int:
        """One message for each receiver. Returns how many of the oldest messages were dropped for want of space."""
        self._waiting += [
            Message(receiver=receiver, notice=notice) for notice in notices for receiver in notice.alert.send
        ]
        dropped = max(len(self._waiting) - alert_messages_max, 0)
        del self._waiting[:dropped]
        return dropped

    def due(self, now_ms: int) -> list[Message]:
        """The first message of each receiver, if it may be sent now. The next one waits for it."""
        first: dict[str, Message] = {}
        for message in self._waiting:
            first.setdefault(message.receiver, message)
        return [message for message in first.values() if message.not_before_ms <= now_ms]

    def delivered(self, message: Message) -> None:
        """It may have been dropped meanwhile."""
        if message in self._waiting:
            self._waiting.remove(message)

    def failed(self, message: Message, now_ms: int) -> None:
        if message not in self._waiting:
            return
        wait_ms = min(RETRY_FIRST_MS << min(message.failures, 16), RETRY_MAX_MS)
        later = replace(message, failures=message.failures + 1, not_before_ms=now_ms + wait_ms)
        self._waiting[self._waiting.index(message)] = later

    def forget(self, receivers: Iterable[str]) -> None:
        """Messages to receivers that the configuration no longer has."""
        gone = set(receivers)
        self._waiting = [message for message in self._waiting if message.receiver not in gone]
