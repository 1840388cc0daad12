"""Describes the metadata quorum."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.cli.asking import answer, no_answer_told, unreachable
from odradek.cli.health import QuorumState, VoterState, no_majority
from odradek.cli.remote import fail
from odradek.client.wire import NoAnswer, name_of
from odradek.protocol.messages.p55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    ReplicaState,
)

METADATA_TOPIC = "__cluster_metadata"
# A broker that finds no leader says so after two seconds.
ANSWER_S = 3.0


def described(bootstrap: str) -> QuorumState:
    """Ends the command when there is no answer."""
    with no_answer_told(bootstrap):
        return state(bootstrap)


def state(bootstrap: str) -> QuorumState:
    """The quorum as its leader reports it. Without a leader: which voters accept connections."""
    response = _ask(bootstrap)
    partition = _partition(response)
    if partition is None or partition.error_code != ErrorCode.NONE:
        if not response.nodes:
            raise NoAnswer(f"{bootstrap} does not describe its metadata quorum: {name_of(response.error_code)}")
        return _by_knocking(response)
    return QuorumState(
        leader=partition.leader_id,
        voters=tuple(
            VoterState(node_id=voter.replica_id, silent_ms=silent_ms(voter, partition))
            for voter in partition.current_voters
        ),
    )


def _by_knocking(response: DescribeQuorumResponse) -> QuorumState:
    doors = {
        node.node_id: (node.listeners[0].host, node.listeners[0].port) for node in response.nodes if node.listeners
    }
    silent = unreachable(doors)
    voters = (VoterState(node_id=each, silent_ms=None if each in silent else 0) for each in sorted(doors))
    return QuorumState(leader=None, voters=tuple(voters))


def of_leader(bootstrap: str) -> DescribeQuorumResponsePartitionData:
    """Ends the command when the metadata log has no leader."""
    with no_answer_told(bootstrap):
        return _led(_ask(bootstrap))


def with_listener(bootstrap: str) -> tuple[DescribeQuorumResponsePartitionData, str]:
    """Also the name of the voters' listener. Ends the command when the metadata log has no leader."""
    with no_answer_told(bootstrap):
        response = _ask(bootstrap)
    names = [listener.name for node in response.nodes for listener in node.listeners]
    if not names:
        fail("this node runs alone, without a controller listener. docs/cluster.md describes how to form a cluster")
    return _led(response), names[0]


def _led(response: DescribeQuorumResponse) -> DescribeQuorumResponsePartitionData:
    partition = _partition(response)
    if partition is None or partition.error_code != ErrorCode.NONE:
        if (sentence := no_majority(_by_knocking(response))) is not None:
            fail(sentence)
        code = partition.error_code if partition is not None and partition.error_code else response.error_code
        said = (partition and partition.error_message) or response.error_message or name_of(code)
        fail(f"the metadata log has no leader: {said}. Find the cause with: odradek cluster health")
    return partition


def leader_of(partition: DescribeQuorumResponsePartitionData) -> ReplicaState:
    """Not always a voter: a removed leader leads until its removal is committed."""
    everybody = [*partition.current_voters, *partition.observers]
    return next(each for each in everybody if each.replica_id == partition.leader_id)


def silent_ms(replica: ReplicaState, partition: DescribeQuorumResponsePartitionData) -> int | None:
    """Time since the replica's last fetch, by the leader's clock; None if it never fetched."""
    if replica.replica_id == partition.leader_id:
        return 0
    if replica.last_fetch_timestamp < 0:
        return None
    everybody = [*partition.current_voters, *partition.observers]
    now_ms = max(each.last_fetch_timestamp for each in everybody)
    return now_ms - replica.last_fetch_timestamp


def _ask(bootstrap: str) -> DescribeQuorumResponse:
    topic = DescribeQuorumRequestTopicData(
        topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
    )
    return answer(bootstrap, DescribeQuorumRequest(topics=[topic]), 2, DescribeQuorumResponse, within_s=ANSWER_S)


def _partition(response: DescribeQuorumResponse) -> DescribeQuorumResponsePartitionData | None:
    return next((partition for topic in response.topics for partition in topic.partitions), None)
