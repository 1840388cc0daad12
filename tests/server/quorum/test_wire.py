"""Messages between quorum members survive encoding and decoding, in the newest version of each."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import BrokerId, DirectoryId, LeaderEpoch, Offset
from odradek.protocol.messages.p52_vote import VoteRequest
from odradek.protocol.messages.p82_update_raft_voter import CurrentLeader, UpdateRaftVoterResponse
from odradek.quorum.log_facts import EpochEnd, SnapshotId
from odradek.quorum.messages import Answer, BeginEpoch, EndEpoch, Fetch, FetchAnswer, UpdateVoter, Vote, VoteAnswer
from odradek.quorum.voters import Endpoint, Voter, VoterKey
from odradek.server.quorum import answers, wire

ANN = VoterKey(BrokerId(1), DirectoryId(b"a" * 16))
BEN = VoterKey(BrokerId(2), DirectoryId(b"b" * 16))
HERE = Endpoint("CONTROLLER", "host", 9093)
EPOCH = LeaderEpoch(7)
ENDPOINTS = [(BrokerId(2), HERE)]


def over_the_wire(message):
    newest = type(message).VERSIONS[1]
    return type(message).decode(message.encode(newest), newest)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (
            Vote(
                candidate=ANN,
                voter=BEN,
                cluster_id="c",
                leader_epoch=EPOCH,
                last_epoch=LeaderEpoch(6),
                log_end_offset=Offset(42),
                pre_vote=True,
            ),
            wire.vote_from_wire,
        ),
        (
            BeginEpoch(leader_id=BrokerId(1), leader_epoch=EPOCH, voter=BEN, cluster_id="c"),
            wire.begin_from_wire,
        ),
        (
            EndEpoch(leader_id=BrokerId(1), leader_epoch=EPOCH, cluster_id=None, successors=(BEN, ANN)),
            wire.end_from_wire,
        ),
        (
            Fetch(
                replica=BEN,
                cluster_id="c",
                leader_epoch=EPOCH,
                fetch_offset=Offset(9),
                last_fetched_epoch=LeaderEpoch(5),
                high_watermark=Offset(8),
            ),
            wire.fetch_from_wire,
        ),
        (
            UpdateVoter(voter=Voter(key=BEN, endpoints=(HERE,)), cluster_id="c", leader_epoch=EPOCH),
            wire.update_from_wire,
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "cluster_id") else "",
)
def test_requests(said, read):
    assert read(over_the_wire(wire.request_to_wire(said, 500, (HERE,)))) == said


@pytest.mark.parametrize(
    ("said", "written"),
    [
        (VoteAnswer(leader_id=BrokerId(2), leader_epoch=EPOCH, granted=True), answers.vote_answer_to_wire),
        (
            Answer(leader_id=BrokerId(2), leader_epoch=EPOCH, error=ErrorCode.INVALID_VOTER_KEY),
            answers.begin_answer_to_wire,
        ),
        (Answer(leader_id=BrokerId(2), leader_epoch=EPOCH), answers.end_answer_to_wire),
    ],
)
def test_answers(said, written):
    response = over_the_wire(written(said, ENDPOINTS))
    assert answers.answer_from_wire(response) == said
    assert answers.endpoints_from_wire(response)[BrokerId(2)][1:] == ("host", 9093)


@pytest.mark.parametrize(
    "said",
    [
        FetchAnswer(leader_id=BrokerId(2), leader_epoch=EPOCH, high_watermark=Offset(3), records=b"batches"),
        FetchAnswer(
            leader_id=BrokerId(2),
            leader_epoch=EPOCH,
            high_watermark=Offset(3),
            diverging=EpochEnd(LeaderEpoch(4), Offset(11)),
        ),
        FetchAnswer(
            leader_id=BrokerId(2),
            leader_epoch=EPOCH,
            high_watermark=Offset(3),
            snapshot=SnapshotId(Offset(100), LeaderEpoch(6)),
        ),
        Answer(leader_id=BrokerId(2), leader_epoch=EPOCH, error=ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_answers_to_fetches(said):
    assert answers.answer_from_wire(over_the_wire(answers.fetch_answer_to_wire(said, 0, ENDPOINTS))) == said


def test_the_answer_to_a_voter_update_names_the_leader():
    leader = CurrentLeader(leader_id=2, leader_epoch=7, host="host", port=9093)
    response = over_the_wire(UpdateRaftVoterResponse(error_code=0, current_leader=leader))
    assert answers.answer_from_wire(response) == Answer(leader_id=BrokerId(2), leader_epoch=EPOCH)
    assert answers.endpoints_from_wire(response) == {BrokerId(2): Endpoint("", "host", 9093)}


def test_requests_for_other_topics_than_the_metadata_log_are_refused():
    request = wire.request_to_wire(
        Vote(
            candidate=ANN,
            voter=BEN,
            cluster_id="c",
            leader_epoch=EPOCH,
            last_epoch=EPOCH,
            log_end_offset=Offset(0),
            pre_vote=False,
        ),
        0,
        (),
    )
    assert isinstance(request, VoteRequest)
    request.topics[0].topic_name = "orders"
    with pytest.raises(wire.NotTheMetadataLog):
        wire.vote_from_wire(request)
    request.topics = []
    with pytest.raises(wire.NotTheMetadataLog):
        wire.vote_from_wire(request)
