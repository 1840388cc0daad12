"""Fetch 4-18: whole batches from some partitions, at once or as soon as there are enough of them.

4-6 have no fetch sessions. 5 sends log start offsets. 9 sends the leader epoch the client knows. 10 brings zstd,
which an older client cannot read. 12 is flexible. 13 names topics by id.

11 says where the client is, and may read from followers (KIP-392). 12 lets followers say what they fetched last, so
that they hear where their history parts from the leader's. 15 brings the epoch of the follower's broker. 16 tells who
leads instead.

The limits are KIP-74's: a partition gives at most its own limit, all together at most the request's, but the first
partition that has anything gives one batch whatever its size. A replica id of 0 and up is a follower: it sees up to the
log's end, and its asking for an offset says that it has everything before.
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
    found = fetch.read(arrived_ms=ctx.broker.clock.monotonic_ms() if fetch.replica is not None else None)
    if fetch.enough(found) or request.max_wait_ms <= 0 or not plan.wanted:
        return fetch.reply(found)
    found.release()
    ParkedFetch(fetch, found, request.max_wait_ms)
    return None


API = FrameApi(key=1, versions=(4, 18), advertised=(4, 18), handle=handle)
