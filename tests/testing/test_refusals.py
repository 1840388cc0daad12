"""A refusal repeats the requested items, in every served API and version."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.p01_fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.p09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.server.api import table
from odradek.testing.refusals import refusal, request_classes
from support.messages import Instances

CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("module", table.MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_api_can_be_refused(module) -> None:
    kind = request_classes()[module.API.key]
    first, last = module.API.versions
    for version in range(max(first, kind.VERSIONS[0]), last + 1):
        answers = [refusal(Instances(seed, tame=True).make(kind, version), CODE) for seed in range(8)]
        assert any(f"error_code={int(CODE)}" in repr(answer) for answer in answers), answers
        for answer in answers:
            answer.encode(version)


def test_a_fetch_is_refused_partition_by_partition() -> None:
    asked = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=2)])])
    answer = refusal(asked, CODE)
    [topic] = answer.responses
    assert (answer.error_code, topic.topic) == (0, "t")
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [(2, CODE)]


def test_a_produce_is_refused_partition_by_partition() -> None:
    asked = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1)])])
    [topic] = refusal(asked, CODE).responses
    assert (topic.name, [(part.index, part.error_code) for part in topic.partition_responses]) == ("t", [(1, CODE)])


def test_refusal_repeats_lists_of_plain_values() -> None:
    [found] = refusal(FindCoordinatorRequest(coordinator_keys=["g"]), CODE).coordinators
    assert (found.key, found.error_code) == ("g", CODE)
    wanted = [OffsetFetchRequestTopics(name="t", partition_indexes=[3])]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted)])
    [group] = refusal(asked, CODE).groups
    assert (group.group_id, group.topics[0].partitions[0].partition_index) == ("g", 3)
