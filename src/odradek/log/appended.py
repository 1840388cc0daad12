"""The result of an append."""

from __future__ import annotations

from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    append_time_ms: int  # -1 unless the topic stamps LogAppendTime
    log_start_offset: int
    duplicate: bool  # nothing was written: the offsets are those of the first append
    needs_sync: bool  # flush.messages is reached: acknowledge after a sync


class RecordsRefused(KafkaError):
    """Some records of a batch are invalid; `records` lists their index in the batch and the reason."""

    def __init__(self, code: ErrorCode, message: str, records: tuple[tuple[int, str], ...]) -> None:
        super().__init__(code, message)
        self.records = records
