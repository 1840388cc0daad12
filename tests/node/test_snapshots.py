"""Snapshots of a node are read on other threads, and no garbage is collected while there is one."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import contextmanager

import pytest

from odradek.export.pushing import PushFailed
from odradek.monitor.metric import Kind, Metric
from odradek.monitor.registry import Registry
from odradek.node.snapshots import Snapshots

SIZE = Metric(name="size", mbean="a:type=B", kind=Kind.GAUGE, unit="bytes", help="Size.", labels=("partition",))
MANY = 20_000


@contextmanager
def node_loop():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def snapshots():
    registry = Registry(lambda: 0)
    registry.gauges(SIZE, lambda: (((str(number),), number) for number in range(MANY)))
    with node_loop() as loop:
        yield Snapshots(registry, loop)


@pytest.fixture
def collections():
    counted = []
    gc.callbacks.append(lambda phase, _: counted.append(phase))
    yield counted
    gc.callbacks.pop()


def test_nothing_is_collected_while_requests_and_pushes_hold_snapshots(snapshots, collections):
    async def requests():
        async with snapshots.for_request() as snapshot:
            with snapshots.for_push() as pushed:
                assert len(pushed) == len(snapshot) > MANY
            assert not pushed, "freed"
            assert not gc.isenabled()
            assert not collections
        return snapshot

    gc.collect()
    collections.clear()
    assert asyncio.run(requests()) == []
    assert gc.isenabled()


def test_one_request_at_a_time_holds_a_snapshot(snapshots):
    held = []

    async def one():
        async with snapshots.for_request():
            held.append(1)
            await asyncio.sleep(0)
            assert len(held) == 1
            held.pop()

    async def several():
        await asyncio.gather(one(), one(), one())

    asyncio.run(several())


def test_garbage_is_collected_again_after_a_failure(snapshots):
    with pytest.raises(PushFailed), snapshots.for_push():
        raise PushFailed
    assert gc.isenabled()
