"""Events are handled one at a time; when one cannot be carried out, waiters are released."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from odradek.adapters.clock import SystemClock
from odradek.adapters.memory_disk import MemoryDisk
from odradek.adapters.spawner import AsyncioSpawner
from odradek.base.ids import LeaderEpoch
from odradek.metadata.metadata_log import METADATA_LOG_DIRECTORY
from odradek.quorum.effects import PersistElection
from odradek.quorum.election import ElectionState
from odradek.quorum.events import LogSynced
from odradek.server.quorum.steps import QuorumSteps
from support.loops import run_within_limit as run
from support.seeded_rng import SeededRng


class BrokenDisk(MemoryDisk):
    def replace(self, path, data):
        raise OSError("no space left")


class Votes:
    """The quorum's core as far as it matters here."""

    deadline_ms = None

    def step(self, event, now):
        return [PersistElection(ElectionState(leader_epoch=LeaderEpoch(1)))]


@pytest.mark.parametrize("disk", [MemoryDisk, BrokenDisk])
def test_a_vote_that_cannot_be_written_ends_the_wait_for_quiet(disk):
    async def scenario():
        broken, escaped = [], []
        spawner = AsyncioSpawner(lambda _, problem: escaped.append(problem))
        ports = SimpleNamespace(clock=SystemClock(), rng=SeededRng(), disk=disk(), spawner=spawner)
        ports.disk.make_dir(METADATA_LOG_DIRECTORY)
        steps = QuorumSteps(ports, carry_out=lambda _: None, on_broken=broken.append)
        steps.core = Votes()
        steps.tell(LogSynced())
        async with asyncio.timeout(60):
            await steps.quiet()
        assert [str(each) for each in broken] == ([] if disk is MemoryDisk else ["no space left"])
        assert escaped == []
        await spawner.close()

    run(scenario())
