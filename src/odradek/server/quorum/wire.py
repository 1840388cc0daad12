"""What members of the metadata quorum ask each other, as Kafka's messages and back.

All of these messages could name many topics; there is one, `__cluster_metadata`, with one partition. A message that
names anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, BrokerId, DirectoryId, LeaderEpoch, Offset
from odradek.base.invariants import InvariantBroken
from odradek.metadata.metadata_log import METADATA_PARTITION, METADATA_TOPIC_ID
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
from odradek.quorum import messages
from odradek.quorum.messages import (
    AddVoter,
    BeginEpoch,
    EndEpoch,
    Fetch,
    RemoveVoter,
    UpdateVoter,
    Vote,
)
from odradek.quorum.voters import Endpoint, Voter, VoterKey

TOPIC = METADATA_PARTITION.topic
UNKNOWN_HIGH_WATERMARK = Offset(-1)
FETCH_BYTES_MAX = 8 * 1024 * 1024
ADD_TIMEOUT_MS = 2_000
T = TypeVar("T")


class NotTheMetadataLog(KafkaError):
    def __init__(self) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, f"The metadata quorum has only partition 0 of {TOPIC}.")


# On their way out


def request_to_wire(request: messages.Request, max_wait_ms: int, endpoints: Sequence[Endpoint]) -> Message:
    """`endpoints`: this node's addresses, sent when it is the leader."""
    match request:
        case Vote():
            return _vote(request)
        case BeginEpoch():
            return _begin(request, endpoints)
        case EndEpoch():
            return _end(request, endpoints)
        case Fetch():
            return _fetch(request, max_wait_ms)
        case UpdateVoter():
            return _update(request)
        case AddVoter():
            return _add(request)
        case RemoveVoter():
            return p81_remove_raft_voter.RemoveRaftVoterRequest(
                cluster_id=request.cluster_id,
                voter_id=request.voter.voter_id,
                voter_directory_id=request.voter.directory_id,
            )
        case _:
            raise InvariantBroken(f"a member of the quorum does not send {type(request).__name__}")


def _vote(request: Vote) -> p52_vote.VoteRequest:
    partition = p52_vote.VoteRequestPartitionData(
        replica_epoch=request.leader_epoch,
        replica_id=request.candidate.voter_id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.log_end_offset,
        pre_vote=request.pre_vote,
    )
    return p52_vote.VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.voter_id,
        topics=[p52_vote.VoteRequestTopicData(topic_name=TOPIC, partitions=[partition])],
    )


def _begin(request: BeginEpoch, endpoints: Sequence[Endpoint]) -> p53_begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = p53_begin_quorum_epoch.BeginQuorumEpochRequestPartitionData(
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
    )
    return p53_begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.voter_id,
        topics=[p53_begin_quorum_epoch.BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=_named(p53_begin_quorum_epoch.LeaderEndpoint, endpoints),
    )


def _end(request: EndEpoch, endpoints: Sequence[Endpoint]) -> p54_end_quorum_epoch.EndQuorumEpochRequest:
    partition = p54_end_quorum_epoch.EndQuorumEpochRequestPartitionData(
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
        preferred_candidates=[
            p54_end_quorum_epoch.ReplicaInfo(candidate_id=key.voter_id, candidate_directory_id=key.directory_id)
            for key in request.successors
        ],
    )
    return p54_end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[p54_end_quorum_epoch.EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=_named(p54_end_quorum_epoch.LeaderEndpoint, endpoints),
    )


def _fetch(request: Fetch, max_wait_ms: int) -> p01_fetch.FetchRequest:
    partition = p01_fetch.FetchPartition(
        current_leader_epoch=request.leader_epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=FETCH_BYTES_MAX,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return p01_fetch.FetchRequest(
        cluster_id=request.cluster_id,
        replica_state=p01_fetch.ReplicaState(replica_id=request.replica.voter_id),
        max_wait_ms=max_wait_ms,
        min_bytes=0,
        max_bytes=FETCH_BYTES_MAX,
        topics=[p01_fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _update(request: UpdateVoter) -> p82_update_raft_voter.UpdateRaftVoterRequest:
    voter = request.voter
    return p82_update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.leader_epoch,
        voter_id=voter.key.voter_id,
        voter_directory_id=voter.key.directory_id,
        listeners=_named(p82_update_raft_voter.Listener, voter.endpoints),
        kraft_version_feature=p82_update_raft_voter.KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
        ),
    )


def _add(request: AddVoter) -> p80_add_raft_voter.AddRaftVoterRequest:
    voter = request.voter
    return p80_add_raft_voter.AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=ADD_TIMEOUT_MS,
        voter_id=voter.key.voter_id,
        voter_directory_id=voter.key.directory_id,
        listeners=_named(p80_add_raft_voter.Listener, voter.endpoints),
        ack_when_committed=request.ack_when_committed,
    )


# As they come in


def vote_from_wire(request: p52_vote.VoteRequest) -> Vote:
    partition = only_partition(request.topics, lambda topic: topic.topic_name == TOPIC)
    return Vote(
        candidate=_key(partition.replica_id, partition.replica_directory_id),
        voter=_key(request.voter_id, partition.voter_directory_id),
        cluster_id=request.cluster_id,
        leader_epoch=LeaderEpoch(partition.replica_epoch),
        last_epoch=LeaderEpoch(partition.last_offset_epoch),
        log_end_offset=Offset(partition.last_offset),
        pre_vote=partition.pre_vote,
    )


def begin_from_wire(request: p53_begin_quorum_epoch.BeginQuorumEpochRequest) -> BeginEpoch:
    partition = only_partition(request.topics, lambda topic: topic.topic_name == TOPIC)
    return BeginEpoch(
        leader_id=BrokerId(partition.leader_id),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        voter=_key(request.voter_id, partition.voter_directory_id),
        cluster_id=request.cluster_id,
    )


def end_from_wire(request: p54_end_quorum_epoch.EndQuorumEpochRequest) -> EndEpoch:
    partition = only_partition(request.topics, lambda topic: topic.topic_name == TOPIC)
    return EndEpoch(
        leader_id=BrokerId(partition.leader_id),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        cluster_id=request.cluster_id,
        successors=tuple(
            _key(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates
        ),
    )


def fetch_from_wire(request: p01_fetch.FetchRequest) -> Fetch:
    partition = only_partition(
        request.topics, lambda topic: topic.topic_id == METADATA_TOPIC_ID, lambda each: each.partition
    )
    return Fetch(
        replica=_key(request.replica_state.replica_id, partition.replica_directory_id),
        cluster_id=request.cluster_id,
        leader_epoch=LeaderEpoch(partition.current_leader_epoch),
        fetch_offset=Offset(partition.fetch_offset),
        last_fetched_epoch=LeaderEpoch(partition.last_fetched_epoch),
        high_watermark=Offset(partition.high_watermark),
    )


def add_from_wire(request: p80_add_raft_voter.AddRaftVoterRequest) -> AddVoter:
    voter = Voter(
        key=_key(request.voter_id, request.voter_directory_id),
        endpoints=_endpoints(request.listeners),
    )
    return AddVoter(voter=voter, cluster_id=request.cluster_id, ack_when_committed=request.ack_when_committed)


def remove_from_wire(request: p81_remove_raft_voter.RemoveRaftVoterRequest) -> RemoveVoter:
    return RemoveVoter(voter=_key(request.voter_id, request.voter_directory_id), cluster_id=request.cluster_id)


def update_from_wire(request: p82_update_raft_voter.UpdateRaftVoterRequest) -> UpdateVoter:
    voter = Voter(
        key=_key(request.voter_id, request.voter_directory_id),
        endpoints=_endpoints(request.listeners),
        min_kraft_version=request.kraft_version_feature.min_supported_version,
        max_kraft_version=request.kraft_version_feature.max_supported_version,
    )
    return UpdateVoter(
        voter=voter, cluster_id=request.cluster_id, leader_epoch=LeaderEpoch(request.current_leader_epoch)
    )


def only_partition(
    topics: Sequence[Any],
    is_metadata: Callable[[Any], bool],
    index: Callable[[Any], int] = lambda partition: partition.partition_index,
) -> Any:  # noqa: ANN401 the partition of any of the messages
    if len(topics) != 1 or not is_metadata(topics[0]) or len(topics[0].partitions) != 1:
        raise NotTheMetadataLog
    partition = topics[0].partitions[0]
    if index(partition) != 0:
        raise NotTheMetadataLog
    return partition


def _endpoints(listeners: Iterable[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(each.name, each.host, each.port) for each in listeners)


def _named(kind: Callable[..., T], endpoints: Iterable[Endpoint]) -> list[T]:
    """Each message has a class of its own for the same three things."""
    return [kind(name=each.name, host=each.host, port=each.port) for each in endpoints]


def _key(node_id: int, directory_id: bytes) -> VoterKey:
    return VoterKey(BrokerId(node_id), DirectoryId(directory_id or ZERO_UUID))
