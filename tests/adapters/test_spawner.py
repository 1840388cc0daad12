"""Work in a child process: it returns a result, raises like a call, and ends with its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from odradek.adapters.disk import OsDisk
from odradek.adapters.spawner import AsyncioSpawner
from odradek.base.errors import ErrorCode, KafkaError
from support.processes import runs
from support.waiting import until, wait_until


def within(scenario):
    async def with_spawner():
        spawner = AsyncioSpawner(lambda _, problem: pytest.fail(str(problem)))
        try:
            return await scenario(spawner)
        finally:
            await spawner.close()

    return asyncio.run(with_spawner())


async def apart(spawner, call, *args, steps=(), rest=None):
    async def no_rest(_step):
        pass

    return await spawner.apart(work, call, args, steps, rest=rest or no_rest)


def work(call, args, steps):
    yield from steps
    return call(*args)


def test_work_runs_in_another_process_with_the_same_files(tmp_path):
    disk = OsDisk(str(tmp_path))
    disk.replace("file", b"content")
    assert within(lambda spawner: apart(spawner, OsDisk.read, disk, "file")) == b"content"
    assert within(lambda spawner: apart(spawner, os.getpid)) != os.getpid()


def test_exceptions_of_the_work_are_raised_here(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        within(lambda spawner: apart(spawner, OsDisk.read, OsDisk(str(tmp_path)), "nowhere"))


def test_a_kafka_error_keeps_its_code_between_processes():
    with pytest.raises(KafkaError, match="batch 7 is broken") as refused:
        within(lambda spawner: apart(spawner, refuse))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_killed_process_raises_an_error():
    with pytest.raises(ChildProcessError, match="ended with -9"):
        within(lambda spawner: apart(spawner, commit_suicide))


def test_cancelling_the_caller_ends_the_process(tmp_path):
    note = tmp_path / "pid"

    async def scenario(spawner):
        task = asyncio.ensure_future(apart(spawner, wait_for_ever, str(note)))
        await until(lambda: note.exists() and note.read_text(), "the process runs")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    within(scenario)
    until_gone(int(note.read_text()))


def test_each_step_waits_for_rest(tmp_path):
    note = tmp_path / "rested"
    heard = []

    async def rest(step):
        heard.append(step)
        if step:
            note.unlink()
        else:
            note.touch()

    assert within(lambda spawner: spawner.apart(looks_for, note, 100, rest=rest)) == "done"
    assert heard == [0, 1] * 50


def says_who_it_is():
    yield os.getpid()


def test_cancelling_the_caller_during_rest_ends_the_process():
    async def scenario(spawner):
        resting: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def rest(pid):
            resting.set_result(pid)
            await asyncio.get_running_loop().create_future()

        task = asyncio.ensure_future(spawner.apart(says_who_it_is, rest=rest))
        pid = await resting
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pid

    pid = within(scenario)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def test_the_process_does_not_outlive_its_parent(tmp_path):
    note = tmp_path / "pid"
    program = textwrap.dedent(
        f"""
        import sys
        sys.path[:0] = {sys.path!r}
        from adapters.test_spawner import apart, wait_for_ever, within
        within(lambda spawner: apart(spawner, wait_for_ever, {str(note)!r}))
        """
    )
    asking = subprocess.Popen([sys.executable, "-c", program])
    wait_until(lambda: note.exists() and note.read_text(), lambda: f"the process runs (exit code {asking.poll()})")
    asking.kill()
    asking.wait()
    until_gone(int(note.read_text()))


def until_gone(pid):
    wait_until(lambda: not runs(pid), f"the end of process {pid}")


def commit_suicide():
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_ever(note):
    Path(note).write_text(str(os.getpid()))
    signal.pause()


def looks_for(note, times):
    for _ in range(times):
        yield int(note.exists())
    return "done"


def refuse():
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "batch 7 is broken")
