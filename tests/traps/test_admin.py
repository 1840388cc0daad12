"""Topics and configurations, as admin tools use them."""

from __future__ import annotations

import pytest

from odradek.base import limits
from odradek.protocol.messages.p19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.p32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.p33_alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from odradek.protocol.messages.p37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.p44_incremental_alter_configs import (
    AlterableConfig as Change,
)
from odradek.protocol.messages.p44_incremental_alter_configs import (
    AlterConfigsResource as ChangedResource,
)
from odradek.protocol.messages.p44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from traps.wire import Wire

UNKNOWN_TOPIC, INVALID_TOPIC, TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_CONFIG = 3, 17, 36, 37, 40
TRANSACTIONAL_ID_REFUSED = 53
TOPIC, BROKER = 2, 4
TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

# The configs that tools and consoles show for a topic, without those for compaction.
EXPECTED_KEYS = {
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "index.interval.bytes",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
}


def created(
    wire: Wire, name: str, version: int = 7, *, partitions: int = 1, validate_only: bool = False, **configs: str
):
    wanted = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, configs=wanted)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000, validate_only=validate_only)
    return wire.ask(request, version).topics[0]


def described(wire: Wire, kind: int, name: str, version: int = 4):
    """The described configs by key."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    (result,) = wire.ask(request, version).results
    assert result.error_code == 0
    return {config.name: config for config in result.configs}


def change(wire: Wire, topic: str, key: str, operation: int, value: str | None) -> int:
    resource = ChangedResource(resource_type=TOPIC, resource_name=topic)
    resource.configs = [Change(name=key, config_operation=operation, value=value)]
    return wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code


@pytest.mark.parametrize("version", [1, 3, 4])
def test_describe_configs_returns_all_topic_configs_with_their_source(wire, name, version):
    """T60. Tools write back what they read: a config that is not returned would be lost."""
    created(wire, name, retention_ms="1234")
    configs = described(wire, TOPIC, name, version)
    assert set(configs) >= EXPECTED_KEYS
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1234", TOPIC_CONFIG)
    assert configs["segment.bytes"].config_source == DEFAULT_CONFIG
    assert next(synonym.name for synonym in configs["retention.ms"].synonyms) == "retention.ms"
    assert not any(config.is_sensitive or config.read_only for config in configs.values())
    if version >= 3:
        assert all(config.config_type and config.documentation for config in configs.values())


def test_described_configs_can_be_written_back_with_alter_configs(wire, name):
    """T60. AlterConfigs replaces all configs at once."""
    created(wire, name, retention_ms="1234", cleanup_policy="compact")
    before = described(wire, TOPIC, name)
    own = [
        AlterableConfig(name=config.name, value=config.value)
        for config in before.values()
        if config.config_source == TOPIC_CONFIG
    ]
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=own)
    assert wire.ask(AlterConfigsRequest(resources=[resource]), 2).responses[0].error_code == 0
    assert described(wire, TOPIC, name) == before


def test_describe_configs_returns_broker_configs_by_broker_id(wire):
    """T60. Consoles show them first."""
    configs = described(wire, BROKER, "1")
    assert {"log.retention.ms", "num.partitions", "auto.create.topics.enable", "log.segment.bytes"} <= set(configs)


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topic_with_minus_one_uses_the_broker_defaults(wire, name, version):
    """T61."""
    answer = created(wire, name, version, partitions=-1)
    assert answer.error_code == 0
    assert len(wire.metadata(name, 4).topics[0].partitions) == 1
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (1, 1)
        assert {config.name for config in answer.configs} >= EXPECTED_KEYS
    if version >= 7:
        assert answer.topic_id == wire.topic_id(name) != bytes(16)


def test_validate_only_checks_and_creates_nothing(wire, name):
    """T61."""
    assert created(wire, name, validate_only=True).error_code == 0
    assert created(wire, name, validate_only=True, retention_ms="soon").error_code == INVALID_CONFIG
    assert wire.metadata(name, 4, allow_auto_topic_creation=False).topics[0].error_code == UNKNOWN_TOPIC


def test_topic_name_that_collides_in_metrics_is_refused(wire, name):
    """T61. Metrics replace a dot with an underscore."""
    assert created(wire, f"{name}.a_b").error_code == 0
    assert created(wire, f"{name}_a.b").error_code == INVALID_TOPIC
    assert created(wire, f"{name}.a_b").error_code == TOPIC_EXISTS


def test_create_partitions_answers_each_topic_separately(wire, name):
    """T61. An error for one topic of the request does not stop the others."""
    wire.create_topic(name, 2)
    wanted = {name: 3, f"{name}-unknown": 3, wire.create_topic(f"{name}-large", 5): 5}
    topics = [CreatePartitionsTopic(name=topic, count=count, assignments=None) for topic, count in wanted.items()]
    answers = wire.ask(CreatePartitionsRequest(topics=topics, timeout_ms=5000), 3).results
    assert {answer.name: answer.error_code for answer in answers} == {
        name: 0,
        f"{name}-unknown": UNKNOWN_TOPIC,
        f"{name}-large": INVALID_PARTITIONS,
    }
    assert len(wire.metadata(name, 4).topics[0].partitions) == 3


def test_lists_are_appended_to_and_subtracted_from(wire, topic):
    """T61. Tools change single keys and single list items."""
    assert change(wire, topic, "cleanup.policy", APPEND, "compact") == 0
    assert described(wire, TOPIC, topic)["cleanup.policy"].value == "delete,compact"
    assert change(wire, topic, "cleanup.policy", SUBTRACT, "delete") == 0
    assert described(wire, TOPIC, topic)["cleanup.policy"].value == "compact"
    assert change(wire, topic, "cleanup.policy", DELETE, None) == 0
    assert described(wire, TOPIC, topic)["cleanup.policy"].config_source == DEFAULT_CONFIG
    assert change(wire, topic, "retention.ms", APPEND, "1") == INVALID_CONFIG
    assert change(wire, topic, "retention.ms", SET, "5000") == 0
    assert described(wire, TOPIC, topic)["retention.ms"].value == "5000"


def test_error_message_fits_into_the_reply_string(wire):
    """Before the flexible versions a string has at most 32767 bytes, and the name in the request has that many."""
    answer = created(wire, "L" * 32_767, 4)
    assert answer.error_code == INVALID_TOPIC
    assert len(answer.error_message) <= limits.error_message_chars_max
