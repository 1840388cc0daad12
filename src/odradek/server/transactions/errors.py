"""Error codes of transactions as clients of a version know them."""

from __future__ import annotations

from odradek.base.errors import ErrorCode


def for_version(code: ErrorCode, version: int, fenced_since: int) -> ErrorCode:
    """Clients before PRODUCER_FENCED (KIP-588) know a replaced producer as INVALID_PRODUCER_EPOCH."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
