"""A record as filters see it, decoded as the console does by default."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from odradek.console.filters import UNREADABLE


@dataclass
class Seen:
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    offset: int = 0
    timestamp: int = 0

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"")

    def document(self, part: str) -> Any:
        raw = self.key if part == "key" else self.value
        if raw is None:
            return None
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return UNREADABLE
        try:
            return json.loads(text) if text[:1] in '{["' else text
        except ValueError:
            return text

    def text(self, part: str) -> str | None:
        raw = self.key if part == "key" else self.value
        return None if raw is None else raw.decode(errors="replace")
