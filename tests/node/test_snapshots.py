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
from odradek.node import snapshots as snapshots_module
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


@contextmanager
def stuck(loop):
    """The event loop does nothing in this block."""
    over, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        over.wait()

    loop.call_soon_threadsafe(wait)
    begun.wait()
    try:
        yield
    finally:
        over.set()


async def requested(snapshots):
    async with snapshots.for_request():
        pass


def pushed(snapshots):
    with snapshots.for_push():
        pass


def answered(loop):
    """Waits until the event loop has done everything that it was asked before."""
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()


def test_while_the_event_loop_is_stuck_there_is_no_snapshot_and_garbage_is_collected(monkeypatch):
    monkeypatch.setattr(snapshots_module, "REQUEST_WITHIN_S", 0.05)
    monkeypatch.setattr(snapshots_module, "ANSWERS_WITHIN_S", 0.05)
    read = []
    registry = Registry(lambda: 0)
    registry.gauges(SIZE, lambda: read.append(1) or [])
    paused = []
    monkeypatch.setattr(snapshots_module._pauses, "begin", lambda: paused.append(1))
    monkeypatch.setattr(snapshots_module._pauses, "end", lambda: None)

    async def requests(snapshots):
        """Three at once, of which two wait for their turn."""
        for failed in await asyncio.gather(*(requested(snapshots) for _ in range(3)), return_exceptions=True):
            assert isinstance(failed, TimeoutError)
            assert "the event loop of this node gave no metrics within" in str(failed)

    with node_loop() as loop:
        snapshots = Snapshots(registry, loop)
        with stuck(loop):
            asyncio.run(requests(snapshots))
            with pytest.raises(TimeoutError, match="the event loop of this node gave no metrics within"):
                pushed(snapshots)
        answered(loop)
        assert (read, paused) == ([], [])
        pushed(snapshots)
        assert (read, paused) == ([1], [1])


@pytest.mark.parametrize("ask", [lambda snapshots: asyncio.run(requested(snapshots)), pushed], ids=["request", "push"])
def test_a_snapshot_that_comes_too_late_is_not_finished(monkeypatch, ask):
    monkeypatch.setattr(snapshots_module, "REQUEST_WITHIN_S", 0.2)
    monkeypatch.setattr(snapshots_module, "ANSWERS_WITHIN_S", 0.2)
    over, closed = threading.Event(), threading.Event()
    read = []

    def sizes():
        try:
            for number in range(MANY):
                if number == MANY // 2:
                    over.wait()  # longer than the limit
                read.append(number)
                yield (str(number),), number
        finally:
            closed.set()

    registry = Registry(lambda: 0)
    registry.gauges(SIZE, sizes)
    with node_loop() as loop:
        try:
            while not read:  # on a busy machine the time may be up before the snapshot begins
                with pytest.raises(TimeoutError):
                    ask(Snapshots(registry, loop))
        finally:
            over.set()
        assert gc.isenabled()
        assert closed.wait(60)
    assert len(read) < MANY
