"""ListTransactions 0-2: the transactional ids that this broker coordinates.

1: only transactions that are open for longer than a duration. 2: only ids that a regular expression matches.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Sequence

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.steps import Steps
from odradek.coordinator.transaction.states import State
from odradek.coordinator.transaction.transaction import Transaction
from odradek.protocol.messages.p66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext


def handle(
    ctx: BrokerContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:
    names = {state.value for state in State}
    unknown = [name for name in request.state_filters if name not in names]
    try:
        found = _found(ctx, request)
    except KafkaError as refusal:
        return ListTransactionsResponse(error_code=refusal.code)
    response = ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)
    pattern = request.transactional_id_pattern
    return _matching(ctx, response, pattern) if pattern else response


def _found(ctx: BrokerContext, request: ListTransactionsRequest) -> list[TransactionState]:
    states, producer_ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
    began_before_ms = ctx.broker.clock.wall_ms() - request.duration_filter

    def is_wanted(transaction: Transaction) -> bool:
        return (
            (not states or transaction.state.value in states)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (request.duration_filter < 0 or transaction.started_ms < began_before_ms)
            and ctx.authorize(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id)
        )

    return [
        TransactionState(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            transaction_state=each.state.value,
        )
        for shard in ctx.broker.transactions.shards()
        for each in shard.transactions.committed().values()
        if is_wanted(each)
    ]


async def _matching(ctx: BrokerContext, response: ListTransactionsResponse, pattern: str) -> ListTransactionsResponse:
    """In another process: a regular expression can take any time, and would stop all of this broker."""
    names = [each.transactional_id for each in response.transaction_states]
    try:
        async with asyncio.timeout(limits.pattern_ms_max / 1000):
            matching = await ctx.broker.spawner.apart(_matches, pattern, names, rest=_no_rest)
    except (re.error, RecursionError, OverflowError, TimeoutError):
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    wanted = frozenset(matching)
    response.transaction_states = [each for each in response.transaction_states if each.transactional_id in wanted]
    return response


def _matches(pattern: str, names: Sequence[str]) -> Steps[list[str]]:
    yield 0
    compiled = re.compile(pattern)
    return [name for name in names if compiled.fullmatch(name)]


async def _no_rest(_amount: int) -> None: ...


API = Api(key=66, versions=(0, 2), request=ListTransactionsRequest, handle=handle)
