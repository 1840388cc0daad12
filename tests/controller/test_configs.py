from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.controller.configs import Operation, alter_configs, incremental_alter_configs
from odradek.controller.topics import TopicDefaults, create_topics
from odradek.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from odradek.protocol.messages import p33_alter_configs as p33
from odradek.protocol.messages import p44_incremental_alter_configs as p44
from odradek.protocol.messages.p19_create_topics import CreatableTopic


@pytest.fixture
def orders(cluster):
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    cluster.take(create_topics(cluster.image, [topic], defaults=TopicDefaults(), rng=cluster.rng))
    return cluster


def single(*changes, resource_type=TOPIC_RESOURCE, name="orders") -> p44.AlterConfigsResource:
    return p44.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[p44.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes],
    )


def whole(values, resource_type=TOPIC_RESOURCE, name="orders") -> p33.AlterConfigsResource:
    return p33.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[p33.AlterableConfig(name=key, value=value) for key, value in values.items()],
    )


def incremental(cluster, *resources) -> list[int]:
    return [r.error_code for r in cluster.take(incremental_alter_configs(cluster.image, resources))]


def test_single_keys_are_set_and_deleted(orders):
    assert incremental(orders, single(("retention.ms", Operation.SET, "5"), ("segment.ms", Operation.SET, "6"))) == [0]
    assert orders.image.config(TOPIC_RESOURCE, "orders") == {"retention.ms": "5", "segment.ms": "6"}
    assert incremental(orders, single(("retention.ms", Operation.DELETE, None))) == [0]
    assert orders.image.config(TOPIC_RESOURCE, "orders") == {"segment.ms": "6"}


def test_lists_are_appended_to_and_subtracted_from(orders):
    assert incremental(orders, single(("cleanup.policy", Operation.APPEND, "compact"))) == [0]
    assert orders.image.config(TOPIC_RESOURCE, "orders") == {"cleanup.policy": "delete,compact"}
    assert incremental(orders, single(("cleanup.policy", Operation.APPEND, "compact"))) == [0]
    assert incremental(orders, single(("cleanup.policy", Operation.SUBTRACT, "delete"))) == [0]
    assert orders.image.config(TOPIC_RESOURCE, "orders") == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (single(("retention.ms", Operation.APPEND, "5")), ErrorCode.INVALID_CONFIG),
        (single(("no.such", Operation.SET, "5")), ErrorCode.INVALID_CONFIG),
        (single(("retention.ms", Operation.SET, "x")), ErrorCode.INVALID_CONFIG),
        (single(("retention.ms", Operation.SET, None)), ErrorCode.INVALID_REQUEST),
        (single(("retention.ms", 9, "5")), ErrorCode.INVALID_REQUEST),
        (single(("retention.ms", 0, "5"), ("retention.ms", 0, "6")), ErrorCode.INVALID_REQUEST),
        (single(("retention.ms", 0, "5"), name="gone"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (single(("retention.ms", 0, "5"), name=""), ErrorCode.INVALID_REQUEST),
        (single(("retention.ms", 0, "5"), name="a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (single(("log.level", 0, "5"), resource_type=8, name="1"), ErrorCode.INVALID_REQUEST),
        (single(("node.id", 0, "5"), resource_type=BROKER_RESOURCE, name="1"), ErrorCode.INVALID_REQUEST),
        (single(("log.retention.ms", 0, "5"), resource_type=BROKER_RESOURCE, name="x"), ErrorCode.INVALID_REQUEST),
        (
            single(("log.retention.ms", 0, "5"), resource_type=BROKER_RESOURCE, name="7"),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
    ],
)
def test_what_is_refused(orders, resource, code):
    before = len(orders.records)
    assert incremental(orders, resource) == [code]
    assert len(orders.records) == before


def test_brokers_and_the_default_of_all_brokers(orders):
    for name in ("1", ""):
        changed = single(("log.retention.ms", Operation.SET, "7"), resource_type=BROKER_RESOURCE, name=name)
        assert incremental(orders, changed) == [0]
        assert orders.image.config(BROKER_RESOURCE, name) == {"log.retention.ms": "7"}


def test_a_resource_changes_atomically_and_independently_of_others(orders):
    half_wrong = single(("retention.ms", Operation.SET, "5"), ("segment.ms", Operation.SET, "x"))
    other = single(("log.retention.ms", Operation.SET, "7"), resource_type=BROKER_RESOURCE, name="")
    assert incremental(orders, half_wrong, other) == [ErrorCode.INVALID_CONFIG, 0]
    assert orders.image.config(TOPIC_RESOURCE, "orders") == {}
    assert orders.image.config(BROKER_RESOURCE, "") == {"log.retention.ms": "7"}


def test_a_resource_named_twice_is_refused(orders):
    change = single(("retention.ms", Operation.SET, "5"))
    assert incremental(orders, change, change) == [ErrorCode.INVALID_REQUEST] * 2


def test_alter_configs_removes_keys_that_it_does_not_name(orders):
    incremental(orders, single(("retention.ms", Operation.SET, "5"), ("segment.ms", Operation.SET, "6")))
    results = orders.take(alter_configs(orders.image, [whole({"retention.ms": "8"})]))
    assert [r.error_code for r in results] == [0]
    assert orders.image.config(TOPIC_RESOURCE, "orders") == {"retention.ms": "8"}
    results = orders.take(alter_configs(orders.image, [whole({"retention.ms": None})]))
    assert [r.error_code for r in results] == [ErrorCode.INVALID_REQUEST]


def test_validate_only_and_unchanged_values_write_nothing(orders):
    change = single(("retention.ms", Operation.SET, "5"))
    validated = incremental_alter_configs(orders.image, [change], validate_only=True)
    assert validated.records == ()
    assert validated.sentence.startswith("only validated: ")
    incremental(orders, change)
    assert incremental_alter_configs(orders.image, [change]).records == ()


def test_contradicting_values_are_refused(orders):
    assert incremental(orders, single(("max.compaction.lag.ms", Operation.SET, "5"))) == [0]
    assert incremental(orders, single(("min.compaction.lag.ms", Operation.SET, "6"))) == [ErrorCode.INVALID_CONFIG]
    assert incremental(orders, single(("min.compaction.lag.ms", Operation.SET, "5"))) == [0]
