"""Starts, cancels and lists partition reassignments."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.base.errors import ErrorCode
from odradek.cli.asking import ask
from odradek.cli.remote import fail
from odradek.client.wire import name_of
from odradek.protocol.messages.p45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.p46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def ask_for(bootstrap: str, wanted: Mapping[tuple[str, int], list[int] | None]) -> dict[tuple[str, int], str]:
    """Returns the refusals by partition. None as replicas cancels the partition's reassignment."""
    topics: dict[str, ReassignableTopic] = {}
    for (topic, index), replicas in wanted.items():
        entry = topics.setdefault(topic, ReassignableTopic(name=topic))
        entry.partitions.append(ReassignablePartition(partition_index=index, replicas=replicas))
    request = AlterPartitionReassignmentsRequest(topics=list(topics.values()))
    response = ask(bootstrap, request, 1, AlterPartitionReassignmentsResponse)
    if response.error_code != ErrorCode.NONE:
        fail(response.error_message or name_of(response.error_code))
    return {
        (topic.name, partition.partition_index): _said(partition.error_code, partition.error_message)
        for topic in response.responses
        for partition in topic.partitions
        if partition.error_code != ErrorCode.NONE
    }


def under_way(bootstrap: str) -> list[dict[str, object]]:
    response = ask(bootstrap, ListPartitionReassignmentsRequest(), 0, ListPartitionReassignmentsResponse)
    if response.error_code != ErrorCode.NONE:
        fail(response.error_message or name_of(response.error_code))
    return [
        {
            "topic": topic.name,
            "partition": partition.partition_index,
            "replicas": partition.replicas,
            "adding": partition.adding_replicas,
            "removing": partition.removing_replicas,
        }
        for topic in response.topics
        for partition in topic.partitions
    ]


def _said(code: int, message: str | None) -> str:
    return f"{message} ({name_of(code)})" if message else name_of(code)
