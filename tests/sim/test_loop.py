import asyncio
from random import Random

import pytest

from odradek.sim.loop import SECOND_NS, Host, PowerCut, SimLoop, SimulationFailed


@pytest.fixture
def loop():
    sim = SimLoop(Random(1))
    yield sim
    sim.close()


def test_time_is_virtual_and_exact(loop):
    async def nap():
        await asyncio.sleep(3600.5)
        return loop.now_ns

    assert loop.run_until_complete(nap()) == 3_600_500_000_000


def test_callbacks_of_one_host_keep_their_order(loop):
    seen = []

    async def schedule():
        for number in range(100):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(0)

    loop.run_until_complete(schedule())
    assert seen == list(range(100))


def _interleaving(seed):
    loop = SimLoop(Random(seed))
    seen = []
    for name in "ab":
        with loop.on(Host(name)):
            for _ in range(20):
                loop.call_soon(seen.append, name)
    loop.run_until_complete(asyncio.sleep(1))
    loop.close()
    return "".join(seen), loop.digest()


def test_the_seed_chooses_between_hosts():
    assert _interleaving(1) == _interleaving(1)
    assert len({_interleaving(seed)[0] for seed in range(20)}) > 15
    assert len({_interleaving(seed)[1] for seed in range(20)}) > 15


def test_a_cut_host_runs_no_finally_block(loop):
    said = []

    async def speaker():
        try:
            await asyncio.sleep(10)
        finally:
            said.append("goodbye")

    host = Host("node")
    with loop.on(host):
        loop.create_task(speaker())

    async def nemesis():
        await asyncio.sleep(5)
        loop.cut(host)
        await asyncio.sleep(20)

    loop.run_until_complete(nemesis())
    assert said == []


def test_a_cut_in_the_middle_of_a_callback_ends_only_that_host(loop):
    host = Host("node")

    def cut():
        loop.cut(host)
        raise PowerCut

    with loop.on(host):
        loop.call_soon(cut)
        loop.call_soon(pytest.fail, "ran after the cut")
    loop.run_until_complete(asyncio.sleep(1))


def test_an_exception_that_a_cut_host_would_have_handled_does_not_fail_the_run(loop):
    host = Host("node")

    def cut():
        outcome = loop.create_future()
        outcome.add_done_callback(asyncio.Future.exception)
        outcome.set_exception(ValueError("no host will handle it"))
        loop.cut(host)

    with loop.on(host):
        loop.call_soon(cut)
    loop.run_until_complete(asyncio.sleep(1))


def test_a_paused_host_runs_later(loop):
    host = Host("node")
    ran_at = []
    loop.pause(host)
    with loop.on(host):
        loop.call_soon(lambda: ran_at.append(loop.time()))
    loop.call_later(7, loop.resume, host)
    loop.run_until_complete(asyncio.sleep(10))
    assert ran_at == [7.0]


def test_an_unhandled_exception_fails_the_run(loop):
    loop.call_soon(lambda: 1 // 0)
    with pytest.raises(SimulationFailed, match="ZeroDivisionError"):
        loop.run_until_complete(asyncio.sleep(1))


def test_a_livelock_fails_the_run(loop):
    def again():
        loop.call_soon(again)

    loop.call_soon(again)
    with pytest.raises(SimulationFailed, match="livelock"):
        loop.run_until_complete(asyncio.sleep(1))


def test_a_deadlock_fails_the_run(loop):
    async def forever():
        await loop.create_future()

    with pytest.raises(SimulationFailed, match="deadlock"):
        loop.run_until_complete(forever())


def test_threads_are_not_supported(loop):
    async def escape():
        await asyncio.to_thread(int)

    with pytest.raises(NotImplementedError):
        loop.run_until_complete(escape())


def test_timeouts_and_task_groups_of_asyncio_work(loop):
    async def work():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await asyncio.sleep(5)
        async with asyncio.TaskGroup() as group:
            naps = [group.create_task(asyncio.sleep(delay, delay)) for delay in (3, 1, 2)]
        return loop.time(), [nap.result() for nap in naps]

    assert loop.run_until_complete(work()) == (5.0, [3, 1, 2])


def test_each_host_counts_time_by_its_own_clock(loop):
    counted = {}

    async def count(name):
        began = loop.time()
        await asyncio.sleep(10)
        counted[name] = (loop.now_ns / SECOND_NS, loop.time() - began)

    for name, tempo_ppm in (("slow", 900_000), ("exact", 1_000_000), ("quick", 1_100_000)):
        with loop.on(Host(name, tempo_ppm=tempo_ppm)):
            loop.create_task(count(name), name=name)
    loop.run_until_complete(asyncio.sleep(20))
    assert counted["exact"] == (10.0, 10.0)
    assert counted["slow"] == pytest.approx((10 / 0.9, 10.0))
    assert counted["quick"] == pytest.approx((10 / 1.1, 10.0))
