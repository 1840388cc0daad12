"""Fetch 4-18: whole batches from some partitions, at once or as soon as there are enough of them.

4-6 have no fetch sessions. 5 sends log start offsets. 9 sends the leader epoch the client knows. 10 brings zstd,
which an older client cannot read. 12 is flexible. 13 names topics by id.

The limits are KIP-74's: a partition gives at most its own limit, all together at most the request's, but the first
partition that has anything gives one batch whatever its size. A replica id is not looked at: there are no followers,
so it makes a consumer like any other.
"""

from __future__ import annotations

from odradek.base.errors import KafkaError
from odradek.protocol.fetch import FIRST_WITH_TOPIC_IDS, decode_fetch_request
from odradek.protocol.fetch_response import encode_fetch_response
from odradek.server.long_poll import Fetch, ParkedFetch
from odradek.server.request import FrameApi, Parts, RequestContext


def handle(ctx: RequestContext, frame: memoryview, position: int, end: int) -> Parts | None:
    request = decode_fetch_request(frame, ctx.version, position, end)
    try:
        plan = ctx.broker.fetch_sessions.plan(request, by_topic_id=ctx.version >= FIRST_WITH_TOPIC_IDS)
    except KafkaError as refusal:
        return encode_fetch_response(ctx.version, ctx.correlation_id, (), error_code=refusal.code)
    fetch = Fetch(ctx, request, plan)
    found = fetch.read()
    if fetch.enough(found) or request.max_wait_ms <= 0 or not plan.wanted:
        return fetch.reply(found)
    found.release()
    ParkedFetch(fetch, found, request.max_wait_ms)
    return None


API = FrameApi(key=1, versions=(4, 18), advertised=(4, 18), handle=handle)
