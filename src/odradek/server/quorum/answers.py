"""What members of the metadata quorum answer each other, as Kafka's messages and back. Requests: `wire`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from odradek.base.errors import error_code
from odradek.base.ids import BrokerId, LeaderEpoch, Offset
from odradek.base.invariants import InvariantBroken
from odradek.metadata.metadata_log import METADATA_TOPIC_ID
from odradek.protocol.messages import (
    p01_fetch,
    p52_vote,
    p53_begin_quorum_epoch,
    p54_end_quorum_epoch,
    p80_add_raft_voter,
    p81_remove_raft_voter,
    p82_update_raft_voter,
)
from odradek.protocol.schema import Message
from odradek.quorum.log_facts import EpochEnd, SnapshotId
from odradek.quorum.messages import Answer, FetchAnswer, VoteAnswer
from odradek.quorum.voters import Endpoint
from odradek.server.quorum.wire import TOPIC, only_partition

UNKNOWN_HIGH_WATERMARK = Offset(-1)
# They name no leader.
_VOTERS_CHANGED = p80_add_raft_voter.AddRaftVoterResponse | p81_remove_raft_voter.RemoveRaftVoterResponse
T = TypeVar("T")


# On their way out


def vote_answer_to_wire(answer: Answer, endpoints: Iterable[tuple[BrokerId, Endpoint]]) -> p52_vote.VoteResponse:
    partition = p52_vote.VoteResponsePartitionData(
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.leader_epoch,
        vote_granted=isinstance(answer, VoteAnswer) and answer.granted,
    )
    return p52_vote.VoteResponse(
        topics=[p52_vote.VoteResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_nodes(p52_vote.NodeEndpoint, endpoints),
    )


def begin_answer_to_wire(
    answer: Answer, endpoints: Iterable[tuple[BrokerId, Endpoint]]
) -> p53_begin_quorum_epoch.BeginQuorumEpochResponse:
    partition = p53_begin_quorum_epoch.BeginQuorumEpochResponsePartitionData(
        error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.leader_epoch
    )
    return p53_begin_quorum_epoch.BeginQuorumEpochResponse(
        topics=[p53_begin_quorum_epoch.BeginQuorumEpochResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_nodes(p53_begin_quorum_epoch.NodeEndpoint, endpoints),
    )


def end_answer_to_wire(
    answer: Answer, endpoints: Iterable[tuple[BrokerId, Endpoint]]
) -> p54_end_quorum_epoch.EndQuorumEpochResponse:
    partition = p54_end_quorum_epoch.EndQuorumEpochResponsePartitionData(
        error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.leader_epoch
    )
    return p54_end_quorum_epoch.EndQuorumEpochResponse(
        topics=[p54_end_quorum_epoch.EndQuorumEpochResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_nodes(p54_end_quorum_epoch.NodeEndpoint, endpoints),
    )


def fetch_answer_to_wire(
    answer: Answer, log_start_offset: int, endpoints: Iterable[tuple[BrokerId, Endpoint]]
) -> p01_fetch.FetchResponse:
    partition = p01_fetch.PartitionData(
        error_code=answer.error,
        high_watermark=UNKNOWN_HIGH_WATERMARK,
        log_start_offset=log_start_offset,
        current_leader=p01_fetch.LeaderIdAndEpoch(leader_id=answer.leader_id, leader_epoch=answer.leader_epoch),
        records=b"",
    )
    if isinstance(answer, FetchAnswer):
        partition.high_watermark = answer.high_watermark
        if answer.diverging is not None:
            partition.diverging_epoch = p01_fetch.EpochEndOffset(
                epoch=answer.diverging.leader_epoch, end_offset=answer.diverging.end_offset
            )
        if answer.snapshot is not None:
            partition.snapshot_id = p01_fetch.SnapshotId(
                end_offset=answer.snapshot.end_offset, epoch=answer.snapshot.epoch
            )
        partition.records = bytes(answer.records)
    return p01_fetch.FetchResponse(
        responses=[p01_fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        node_endpoints=_nodes(p01_fetch.NodeEndpoint, endpoints),
    )


# As they come in


def answer_from_wire(response: Message) -> Answer:
    """A top-level error counts as an error of the only partition."""
    if isinstance(response, p82_update_raft_voter.UpdateRaftVoterResponse):
        told = response.current_leader
        return Answer(
            error=error_code(response.error_code),
            leader_id=BrokerId(told.leader_id),
            leader_epoch=LeaderEpoch(told.leader_epoch),
        )
    refused: int = getattr(response, "error_code", 0)
    if refused or isinstance(response, _VOTERS_CHANGED):
        return Answer(error=error_code(refused), leader_epoch=LeaderEpoch(-1))
    match response:
        case p52_vote.VoteResponse():
            partition = only_partition(response.topics, lambda topic: topic.topic_name == TOPIC)
            return VoteAnswer(**_common(partition), granted=partition.vote_granted)
        case p53_begin_quorum_epoch.BeginQuorumEpochResponse() | p54_end_quorum_epoch.EndQuorumEpochResponse():
            return Answer(**_common(only_partition(response.topics, lambda topic: topic.topic_name == TOPIC)))
        case p01_fetch.FetchResponse():
            return _fetch_answer(response)
        case _:
            raise InvariantBroken(f"{type(response).__name__} is no answer of the quorum")


def endpoints_from_wire(response: Any) -> dict[BrokerId, Endpoint]:  # noqa: ANN401 any answer of the quorum
    """Where its sender says that the leader is reached."""
    if isinstance(response, p82_update_raft_voter.UpdateRaftVoterResponse):
        leader = response.current_leader
        return {BrokerId(leader.leader_id): Endpoint("", leader.host, leader.port)} if leader.port else {}
    if isinstance(response, _VOTERS_CHANGED):
        return {}
    return {BrokerId(each.node_id): Endpoint("", each.host, each.port) for each in response.node_endpoints}


def _fetch_answer(response: p01_fetch.FetchResponse) -> Answer:
    partition = only_partition(
        response.responses, lambda topic: topic.topic_id == METADATA_TOPIC_ID, lambda each: each.partition_index
    )
    leader = partition.current_leader
    common: dict[str, Any] = {
        "error": error_code(partition.error_code),
        "leader_id": BrokerId(leader.leader_id),
        "leader_epoch": LeaderEpoch(leader.leader_epoch),
    }
    if partition.error_code:
        return Answer(**common)
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return FetchAnswer(
        **common,
        high_watermark=Offset(partition.high_watermark),
        diverging=EpochEnd(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset))
        if diverging.epoch >= 0
        else None,
        snapshot=SnapshotId(Offset(snapshot.end_offset), LeaderEpoch(snapshot.epoch)) if snapshot.epoch >= 0 else None,
        records=partition.records or b"",
    )


def _common(partition: Any) -> dict[str, Any]:  # noqa: ANN401 of any of the answers
    return {
        "error": error_code(partition.error_code),
        "leader_id": BrokerId(partition.leader_id),
        "leader_epoch": LeaderEpoch(partition.leader_epoch),
    }


def _nodes(kind: Callable[..., T], endpoints: Iterable[tuple[BrokerId, Endpoint]]) -> list[T]:
    return [kind(node_id=node_id, host=each.host, port=each.port) for node_id, each in endpoints]
