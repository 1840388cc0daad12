"""Turns a callback of a partition into a future."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.base.errors import ErrorCode
from odradek.replication.partition import Partition
from odradek.replication.waiting import Callback


def outcome(partition: Partition, when: Callable[[int, Callback], None], offset: int) -> asyncio.Future[ErrorCode]:
    """A future for one of the partition's `when_…`. The partition forgets a waiter that gave up."""
    told: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def tell(code: ErrorCode) -> None:
        if not told.done():
            told.set_result(code)

    when(offset, tell)
    told.add_done_callback(lambda _: partition.forget(tell))
    return told
