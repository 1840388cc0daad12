"""A quorum of one voter, step by step."""

from __future__ import annotations

import json

import pytest

from odradek.base.ids import BrokerId, DirectoryId, LeaderEpoch, Offset
from odradek.protocol.control_records import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from odradek.quorum.effects import AppendEpochStart, HighWatermarkAdvanced, LeaderChanged, PersistElection
from odradek.quorum.election import (
    NEVER_ELECTED,
    BrokenQuorumState,
    ElectionState,
    decode_configured_voters,
    decode_election,
)
from odradek.quorum.events import LogSynced, ShuttingDown, Started
from odradek.quorum.quorum import Quorum
from odradek.quorum.roles import Role
from odradek.quorum.timing import Now
from odradek.quorum.voters import Endpoint, Voter, VoterKey, VoterSet, voters_from_record

ME = VoterKey(BrokerId(1), DirectoryId(b"d" * 16))
ALONE = VoterSet((Voter(key=ME),))


NOW = Now(ms=0, chance=0.5)


class Log:
    log_start_offset = 0
    oldest_snapshot = newest_snapshot = None

    def __init__(self, end=0, end_epoch=0):
        self.log_end_offset = end
        self.synced_end_offset = 0
        self.last_epoch = end_epoch


def alone(end=0, end_epoch=0, voter=None) -> Quorum:
    log = Log(end, end_epoch)
    quorum = Quorum(voter or Voter(key=ME), log, cluster_id="c")
    quorum.log = log
    return quorum


def synced(quorum, end_offset):
    quorum.log.synced_end_offset = end_offset
    return quorum.step(LogSynced(), NOW)


def started(election=NEVER_ELECTED, voters=ALONE, in_log=True) -> Started:
    return Started(election=election, voters=voters, voters_in_log=in_log)


def test_single_voter_elects_itself_and_writes_the_voters_at_first_start():
    quorum = alone()
    vote, lead, told, append = quorum.step(started(in_log=False), NOW)
    assert told == LeaderChanged(BrokerId(1), LeaderEpoch(1))
    assert vote == PersistElection(ElectionState(leader_epoch=LeaderEpoch(1), voted=ME))
    assert lead == PersistElection(ElectionState(leader_epoch=LeaderEpoch(1), leader_id=BrokerId(1)))
    assert isinstance(append, AppendEpochStart)
    assert append.leader_epoch == 1
    assert [type(r) for r in append.records] == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
    assert quorum.role is Role.LEADER


def test_a_restarted_leader_leads_the_next_epoch():
    was_leading = ElectionState(leader_epoch=LeaderEpoch(4), leader_id=BrokerId(1))
    quorum = alone(end=10, end_epoch=4)
    effects = quorum.step(started(was_leading), NOW)
    assert quorum.leader_epoch == 5
    assert [type(r) for r in effects[-1].records] == [LeaderChangeMessage]


def test_log_epoch_is_used_when_quorum_state_is_older():
    quorum = alone(end=10, end_epoch=7)
    quorum.step(started(), NOW)
    assert quorum.leader_epoch == 8


def test_new_endpoints_are_written_to_the_log():
    moved = Voter(key=ME, endpoints=(Endpoint("CONTROLLER", "localhost", 9093),))
    quorum = alone(voter=moved)
    effects = quorum.step(started(), NOW)
    assert voters_from_record(effects[-1].records[2]) == VoterSet((moved,))


def test_nothing_is_committed_before_the_first_record_of_the_epoch_is():
    quorum = alone(end=10, end_epoch=3)
    quorum.step(started(), NOW)
    assert synced(quorum, 10) == []
    assert quorum.high_watermark == -1
    assert synced(quorum, 11) == [HighWatermarkAdvanced(Offset(11))]


def test_quorum_high_watermark_never_decreases():
    quorum = alone()
    quorum.step(started(), NOW)
    synced(quorum, 5)
    assert synced(quorum, 4) == []
    assert quorum.high_watermark == 5


def test_a_resigned_leader_commits_nothing():
    quorum = alone()
    quorum.step(started(), NOW)
    quorum.step(ShuttingDown(), NOW)
    assert synced(quorum, 5) == []


def test_quorum_state_has_kafkas_json_format():
    election = ElectionState(leader_epoch=LeaderEpoch(2), voted=ME)
    fields = json.loads(election.encode())
    assert fields == {
        "leaderId": -1,
        "leaderEpoch": 2,
        "votedId": 1,
        "votedDirectoryId": "ZGRkZGRkZGRkZGRkZGRkZA",
        "data_version": 1,
    }
    assert decode_election(election.encode()) == election
    leading = ElectionState(leader_epoch=LeaderEpoch(2), leader_id=BrokerId(1))
    assert decode_election(leading.encode()) == leading


def test_kafkas_quorum_state_with_configured_voters_is_read():
    data = (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert decode_election(data) == ElectionState(leader_epoch=LeaderEpoch(4), leader_id=BrokerId(1))
    assert decode_configured_voters(data) == (1, 2)
    assert decode_configured_voters(NEVER_ELECTED.encode()) == ()


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"data_version":0}', b"\xff", b'{"data_version":1}'])
def test_broken_quorum_state_is_an_error(data):
    with pytest.raises(BrokenQuorumState):
        decode_election(data)
