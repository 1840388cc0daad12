"""Where a turn leaves the reply to a request."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.base.errors import KafkaError


class Answer:
    """There at once, or awaited. A `KafkaError` is raised, anything else returned."""

    __slots__ = ("_future", "_given", "_response")

    def __init__(self) -> None:
        self._given = False
        self._response: Any = None
        self._future: asyncio.Future[Any] | None = None

    def give(self, response: object) -> None:
        self._given = True
        self._response = response
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    @property
    def is_given(self) -> bool:
        return self._given

    def take(self) -> Any:  # noqa: ANN401, as various as the requests
        if isinstance(self._response, KafkaError):
            raise self._response
        return self._response

    async def wait(self) -> Any:  # noqa: ANN401
        if not self._given:
            self._future = asyncio.get_running_loop().create_future()
            await self._future
        return self.take()
