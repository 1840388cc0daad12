"""Produce over real sockets: what a client of each version is told, and when."""

from __future__ import annotations

import pytest
from support.data_broker import DataBroker, batch

from odradek.base.errors import ErrorCode


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_answers(run, version):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2)
            client = await broker.connect()
            await client.produce("t", batch("x"), version=version)
            one, two = await client.produce("t", batch("a", "b"), batch("c"), version=version)
            assert (one.index, one.error_code, one.base_offset) == (0, 0, 1)
            assert (two.index, two.error_code, two.base_offset) == (1, 0, 0)
            assert one.log_append_time_ms == -1
            assert one.log_start_offset == (0 if version >= 5 else -1)
            assert broker.partition("t", 0).high_watermark == 3

    run(scenario())
