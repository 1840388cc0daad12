"""Fetches of the metadata log by followers and observers: answered at once when there is news, otherwise held back.

News is a record, a committed offset, or another leader. A fetch is held back for as long as it asks for.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode
from odradek.quorum.messages import Answer, Fetch, FetchAnswer

if TYPE_CHECKING:
    from odradek.server.quorum.metadata_quorum import MetadataQuorum

READ_BYTES_MAX = 1 << 20
# Replicas wait half a second for new records. A client that asks for a longer wait may disconnect long before.
WAIT_MS_MAX = 5_000


class _Held:
    __slots__ = ("fetch", "news")

    def __init__(self, fetch: Fetch) -> None:
        self.fetch = fetch
        self.news = asyncio.Event()


class MetadataFetches:
    def __init__(self, quorum: MetadataQuorum) -> None:
        self._quorum = quorum
        self._held: dict[_Held, None] = {}

    async def answer(self, fetch: Fetch, max_wait_ms: int) -> Answer:
        answer = self._with_records(fetch, await self._quorum.ask(fetch))
        if not _is_empty(fetch, answer) or max_wait_ms <= 0:
            return answer
        held = _Held(fetch)
        self._held[held] = None
        try:
            async with asyncio.timeout(min(max_wait_ms, WAIT_MS_MAX) / 1000):
                await held.news.wait()
        except TimeoutError:
            pass
        finally:
            del self._held[held]
        return self._with_records(fetch, self._quorum.core.fetch_answer(fetch))

    def look(self) -> None:
        """The log has grown or more of it is committed."""
        log, high_watermark = self._quorum.log, self._quorum.core.high_watermark
        for held in self._held:
            if log.log_end_offset > held.fetch.fetch_offset or high_watermark > held.fetch.high_watermark:
                held.news.set()

    def answer_all(self) -> None:
        """The leader changed, or this node stops."""
        for held in self._held:
            held.news.set()

    def _with_records(self, fetch: Fetch, answer: Answer) -> Answer:
        if not (isinstance(answer, FetchAnswer) and _may_have_records(answer)):
            return answer
        log = self._quorum.log
        region = log.read(fetch.fetch_offset, READ_BYTES_MAX, log.log_end_offset, whole_first_batch=True)
        if region is None:
            return answer
        try:
            return replace(answer, records=region.read())
        finally:
            region.release()


def _may_have_records(answer: FetchAnswer) -> bool:
    return answer.error is ErrorCode.NONE and answer.diverging is None and answer.snapshot is None


def _is_empty(fetch: Fetch, answer: Answer) -> bool:
    return (
        isinstance(answer, FetchAnswer)
        and _may_have_records(answer)
        and not answer.records
        and answer.high_watermark <= fetch.high_watermark
    )
