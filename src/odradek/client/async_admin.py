"""AsyncAdmin: the calls of Admin for asyncio. Each runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import ParamSpec, TypeVar

from odradek.client.admin import NOTHING, REQUEST_TIMEOUT_S, Admin

P = ParamSpec("P")
R = TypeVar("R")


class AsyncAdmin:
    def __init__(
        self, bootstrap: str | None = None, config: Mapping[str, str] = NOTHING, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        self._admin = Admin(bootstrap, config, timeout_s=timeout_s)

    async def topics(self, include_internal: bool = False) -> list[str]:
        return await _aside(self._admin.topics, include_internal)

    async def partitions(self, topic: str) -> list[int]:
        return await _aside(self._admin.partitions, topic)

    async def topic_id(self, topic: str) -> str | None:
        return await _aside(self._admin.topic_id, topic)

    async def create_topic(
        self, name: str, partitions: int = -1, config: Mapping[str, str] = NOTHING, *, if_missing: bool = True
    ) -> bool:
        return await _aside(self._admin.create_topic, name, partitions, config, if_missing=if_missing)

    async def delete_topics(self, names: Iterable[str]) -> None:
        await _aside(self._admin.delete_topics, names)

    async def add_partitions(self, topic: str, total: int) -> None:
        await _aside(self._admin.add_partitions, topic, total)

    async def topic_config(self, topic: str) -> dict[str, str]:
        return await _aside(self._admin.topic_config, topic)

    async def set_topic_config(self, topic: str, **changes: str | None) -> None:
        await _aside(self._admin.set_topic_config, topic, **changes)

    async def delete_records(self, before: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        return await _aside(self._admin.delete_records, before)

    async def start_offsets(self, topic: str) -> dict[int, int]:
        return await _aside(self._admin.start_offsets, topic)

    async def end_offsets(self, topic: str, *, committed: bool = False) -> dict[int, int]:
        return await _aside(partial(self._admin.end_offsets, committed=committed), topic)

    async def groups(self, prefix: str = "") -> list[str]:
        return await _aside(self._admin.groups, prefix)

    async def committed(self, group: str) -> dict[tuple[str, int], int]:
        return await _aside(self._admin.committed, group)

    async def set_committed(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        await _aside(self._admin.set_committed, group, offsets)

    async def lag(self, group: str) -> dict[tuple[str, int], int]:
        return await _aside(self._admin.lag, group)

    async def delete_group(self, group: str) -> None:
        await _aside(self._admin.delete_group, group)


async def _aside(call: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    return await asyncio.to_thread(call, *args, **options)
