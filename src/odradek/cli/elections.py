"""Requests leader elections. Not through librdkafka: its call, in the versions tested, takes no timeout."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.errors import ErrorCode
from odradek.cli.asking import ask
from odradek.cli.remote import fail
from odradek.client.wire import name_of
from odradek.protocol.messages.p43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

PREFERRED, UNCLEAN = 0, 1
ELECTED, NOT_NEEDED = "has a new leader", "needs no election"


def elect(bootstrap: str, kind: int, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """The outcome for each partition. Without `partitions`: for all partitions that had an election."""
    topics: dict[str, TopicPartitions] = {}
    for topic, index in partitions:
        topics.setdefault(topic, TopicPartitions(topic=topic)).partitions.append(index)
    request = ElectLeadersRequest(election_type=kind, topic_partitions=list(topics.values()) or None)
    response = ask(bootstrap, request, 2, ElectLeadersResponse)
    if response.error_code != ErrorCode.NONE and not response.replica_election_results:
        fail(name_of(response.error_code))
    return {
        (topic.topic, result.partition_id): _said(result.error_code, result.error_message)
        for topic in response.replica_election_results
        for result in topic.partition_result
    }


def _said(code: int, message: str | None) -> str:
    if code == ErrorCode.NONE:
        return ELECTED
    if code == ErrorCode.ELECTION_NOT_NEEDED:
        return NOT_NEEDED
    return f"{message} ({name_of(code)})" if message else name_of(code)
