"""When a machine may lose data that only others can restore, and which of its votes counts."""

from random import Random
from types import SimpleNamespace

import pytest

from odradek.metadata.bootstrap import METADATA_LOG_DIRECTORY
from odradek.metadata.metadata_log import write_election
from odradek.quorum.election import NEVER_ELECTED, QUORUM_STATE_FILE, ElectionState
from odradek.quorum.voters import VoterKey
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs
from odradek.sim.truth import Running, Truth

QUORUM_STATE = f"{METADATA_LOG_DIRECTORY}/{QUORUM_STATE_FILE}"


def image(*isr):
    partition = SimpleNamespace(isr=isr, replicas=(1, 2))
    return SimpleNamespace(offset=7, topics={"t": SimpleNamespace(partitions=(partition,))})


class OneNode:
    """Knows what is committed and what is decided, and leads a partition."""

    def __init__(self, *, committed, decided, proposal):
        self.quorum = SimpleNamespace(feed=SimpleNamespace(image=committed, ahead=decided))
        self._led = SimpleNamespace(leading=SimpleNamespace(proposal=proposal))

    def replicas(self):
        return [self._led, SimpleNamespace(leading=None)]


def truth_about(node):
    truth = Truth([SimpleNamespace()])
    truth.living = truth.members = truth.running = lambda: [node]
    return truth


def test_stays_whole_when_all_replicas_are_in_sync_and_no_change_is_pending():
    truth = truth_about(OneNode(committed=image(1, 2), decided=image(1, 2), proposal=None))
    assert truth.is_whole()
    assert truth.stays_whole()


@pytest.mark.parametrize(
    "under_way",
    [{"decided": image(1), "proposal": None}, {"decided": image(1, 2), "proposal": object()}],
    ids=["decided, not committed", "proposed"],
)
def test_does_not_stay_whole_while_an_isr_change_is_pending(under_way):
    truth = truth_about(OneNode(committed=image(1, 2), **under_way))
    assert truth.is_whole()
    assert not truth.stays_whole()


def test_is_not_whole_when_a_replica_has_left_the_isr():
    truth = truth_about(OneNode(committed=image(1), decided=image(1), proposal=None))
    assert not truth.is_whole()
    assert not truth.stays_whole()


def test_a_vote_whose_file_name_could_not_be_synced_does_not_count():
    disk = SimDisk(Random(7), DiskKnobs(survival=0.0))
    mounted = disk.mount()
    mounted.make_dir(METADATA_LOG_DIRECTORY)
    mounted.sync_dir("")
    running = Running(SimpleNamespace(disk=disk), None, None)
    first = ElectionState(leader_epoch=7, voted=VoterKey(1, bytes(16)))
    write_election(mounted, first)
    assert running.durable_election() == first
    disk.knobs = DiskKnobs(survival=0.0, sync_error=1.0)
    with pytest.raises(OSError, match="Input/output error"):
        mounted.sync_dir("")  # for another file: the vote is still there
    assert running.durable_election() == first
    disk.sync_failed = False
    disk.knobs = DiskKnobs(survival=0.0)
    mounted.rename(QUORUM_STATE, QUORUM_STATE + ".old")
    mounted.rename(QUORUM_STATE + ".old", QUORUM_STATE)
    assert running.durable_election() == first  # it counts without a sync, to detect a missing one
    disk.knobs = DiskKnobs(survival=0.0, sync_error=1.0)
    with pytest.raises(OSError, match="Input/output error"):
        mounted.sync_dir(METADATA_LOG_DIRECTORY)
    assert running.durable_election() == NEVER_ELECTED
