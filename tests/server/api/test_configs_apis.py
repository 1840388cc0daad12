"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

import asyncio

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.configs.broker import BROKER_CONFIGS
from odradek.metadata.configs.definition import ConfigSource, ConfigType
from odradek.metadata.configs.in_force import effective_topic_config
from odradek.metadata.configs.topic import TOPIC_CONFIGS
from odradek.protocol.messages import p33_alter_configs, p44_incremental_alter_configs
from odradek.protocol.messages.p32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.server.api.table import load_apis
from odradek.server.network.request import ControllerContext, RequestContext
from support.admin_broker import AdminBroker, Denying, OneConnection

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(kind, name, keys=None, **more):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return DescribeConfigsRequest(resources=[resource], **more)


def alter(kind, name, configs, *, validate_only=False):
    return p33_alter_configs.AlterConfigsRequest(
        resources=[
            p33_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[p33_alter_configs.AlterableConfig(name=key, value=value) for key, value in configs.items()],
            )
        ],
        validate_only=validate_only,
    )


def change(kind, name, *operations, validate_only=False):
    return p44_incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            p44_incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    p44_incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in operations
                ],
            )
        ],
        validate_only=validate_only,
    )


def rows(response):
    (result,) = response.results
    assert result.error_code == 0, result.error_message
    return {row.name: row for row in result.configs}


@pytest.mark.parametrize("version", range(1, 5))
def test_t60_all_keys_of_a_topic_are_shown(version):
    broker = AdminBroker(settings={"log.retention.hours": "1"})
    broker.create_topic("orders", configs={"segment.bytes": "1048576"})
    shown = rows(broker.ask(32, describe(TOPIC, "orders", include_synonyms=True, include_documentation=True), version))
    assert set(shown) == set(TOPIC_CONFIGS) - {"internal.segment.bytes"}
    row = shown["segment.bytes"]
    assert (row.value, row.config_source, row.read_only, row.is_sensitive) == (
        "1048576",
        ConfigSource.TOPIC,
        False,
        False,
    )
    assert [(s.name, s.value, s.source) for s in row.synonyms] == [
        ("segment.bytes", "1048576", ConfigSource.TOPIC),
        ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    ]
    assert (shown["retention.ms"].value, shown["retention.ms"].config_source) == (
        "3600000",
        ConfigSource.DEFAULT,
    )
    assert row.config_type == (ConfigType.INT if version >= 3 else 0)
    assert bool(row.documentation) == (version >= 3)


def test_t60_described_configs_can_be_written_back():
    broker = AdminBroker()
    broker.create_topic("orders", configs={"retention.ms": "5", "internal.segment.bytes": "1000"})
    shown = rows(broker.ask(32, describe(TOPIC, "orders"), 4))
    (response,) = broker.ask(33, alter(TOPIC, "orders", {row.name: row.value for row in shown.values()}), 2).responses
    assert (response.error_code, response.error_message) == (0, None)
    again = rows(broker.ask(32, describe(TOPIC, "orders"), 4))
    assert {name: row.value for name, row in again.items()} == {name: row.value for name, row in shown.items()}


def test_t60_synonyms_and_documentation_come_only_when_asked_for():
    broker = AdminBroker()
    broker.create_topic("orders")
    row = rows(broker.ask(32, describe(TOPIC, "orders"), 4))["retention.ms"]
    assert (row.synonyms, row.documentation) == ([], None)


def test_t60_only_the_keys_asked_for():
    broker = AdminBroker()
    broker.create_topic("orders")
    assert set(rows(broker.ask(32, describe(TOPIC, "orders", ["retention.ms", "nonsense"]), 4))) == {"retention.ms"}


def test_t60_all_keys_of_this_broker_are_shown():
    broker = AdminBroker(settings={"num.partitions": "7"})
    shown = rows(broker.ask(32, describe(BROKER, "1"), 4))
    assert set(shown) == set(BROKER_CONFIGS) - {"internal.metadata.log.segment.bytes"}
    assert (shown["num.partitions"].value, shown["num.partitions"].read_only) == ("7", True)
    assert shown["num.partitions"].config_source == ConfigSource.STATIC_BROKER
    assert not shown["log.retention.ms"].read_only


def test_configs_set_for_all_brokers_belong_to_the_nameless_broker():
    broker = AdminBroker()
    assert rows(broker.ask(32, describe(BROKER, ""), 4)) == {}
    broker.ask(44, change(BROKER, "", ("log.retention.ms", SET, "9")), 1)
    row = rows(broker.ask(32, describe(BROKER, ""), 4))["log.retention.ms"]
    assert (row.value, row.config_source) == ("9", ConfigSource.DYNAMIC_DEFAULT_BROKER)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "b ad", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (8, "2", ErrorCode.INVALID_REQUEST),
        (32, "group", ErrorCode.INVALID_REQUEST),
        (99, "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_describing_an_unknown_or_foreign_resource_is_refused(kind, name, error):
    (result,) = AdminBroker().ask(32, describe(kind, name), 4).results
    assert (result.error_code, result.resource_type, result.resource_name) == (error, kind, name)


@pytest.mark.parametrize("version", range(3))
def test_altering_replaces_all_that_was_set(version):
    broker = AdminBroker()
    broker.create_topic("orders", configs={"retention.ms": "5", "segment.ms": "6"})
    (response,) = broker.ask(33, alter(TOPIC, "orders", {"retention.ms": "7"}), version).responses
    assert (response.error_code, response.resource_name) == (0, "orders")
    assert dict(broker.broker.image.config(TOPIC, "orders")) == {"retention.ms": "7"}


@pytest.mark.parametrize("version", range(2))
def test_t61_single_keys_are_set_deleted_appended_to_and_subtracted_from(version):
    broker = AdminBroker()
    broker.create_topic("orders", configs={"retention.ms": "5"})

    def told(*operations):
        return broker.ask(44, change(TOPIC, "orders", *operations), version).responses[0].error_code

    assert told(("segment.ms", SET, "6"), ("retention.ms", DELETE, None), ("cleanup.policy", APPEND, "compact")) == 0
    assert dict(broker.broker.image.config(TOPIC, "orders")) == {
        "segment.ms": "6",
        "cleanup.policy": "delete,compact",
    }
    assert told(("cleanup.policy", SUBTRACT, "delete")) == 0
    assert broker.broker.image.config(TOPIC, "orders")["cleanup.policy"] == "compact"
    assert told(("retention.ms", APPEND, "1")) == ErrorCode.INVALID_CONFIG
    assert told(("retention.ms", 9, "1")) == ErrorCode.INVALID_REQUEST


def test_validate_only_accepts_the_request_and_changes_nothing():
    broker = AdminBroker()
    broker.create_topic("orders")
    for key, request in (
        (33, alter(TOPIC, "orders", {"retention.ms": "7"}, validate_only=True)),
        (44, change(TOPIC, "orders", ("retention.ms", SET, "7"), validate_only=True)),
    ):
        assert broker.ask(key, request, 0).responses[0].error_code == 0
        assert not broker.broker.image.config(TOPIC, "orders")


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "error"),
    [
        (TOPIC, "orders", "retention.ms", "soon", ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", "remote.storage.enable", "true", ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", "compression.type", "brotli", ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", "nonsense", "1", ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", "retention.ms", None, ErrorCode.INVALID_REQUEST),
        (TOPIC, "missing", "retention.ms", "1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", "retention.ms", "1", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", "num.partitions", "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", "nonsense", "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "2", "log.retention.ms", "2", ErrorCode.INVALID_REQUEST),
        (99, "1", "log.retention.ms", "2", ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_config_changes_are_refused(kind, name, key, value, error):
    broker = AdminBroker()
    broker.create_topic("orders")
    for api, request in ((33, alter(kind, name, {key: value})), (44, change(kind, name, (key, SET, value)))):
        (response,) = broker.ask(api, request, 1).responses
        assert response.error_code == error
        assert response.error_message
    assert not list(broker.broker.image.configs)


def test_a_change_of_the_brokers_default_reaches_every_topic_that_does_not_set_it():
    broker = AdminBroker()
    broker.create_topic("follows")
    broker.create_topic("decides", configs={"max.message.bytes": "1"})
    broker.ask(44, change(BROKER, "", ("message.max.bytes", SET, "3")), 1)
    image, config = broker.broker.image, broker.broker.config
    assert effective_topic_config(image, "follows", config).max_message_bytes == 3
    assert effective_topic_config(image, "decides", config).max_message_bytes == 1
    broker.ask(44, change(BROKER, "1", ("message.max.bytes", SET, "2")), 1)
    assert effective_topic_config(broker.broker.image, "follows", config).max_message_bytes == 2


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "orders", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (BROKER, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (BROKER, "", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_configurations_need_permission(kind, name, error):
    broker = AdminBroker(authorizer=Denying(lambda *_: True))
    broker.create_topic("orders")
    assert broker.ask(32, describe(kind, name), 4).results[0].error_code == error
    assert broker.ask(33, alter(kind, name, {}), 2).responses[0].error_code == error
    assert broker.ask(44, change(kind, name), 1).responses[0].error_code == error


def test_without_an_active_controller_each_resource_gets_not_controller():
    broker = AdminBroker()
    broker.create_topic("orders")
    broker.controller.refuses = KafkaError(ErrorCode.NOT_CONTROLLER)
    assert broker.ask(33, alter(TOPIC, "orders", {}), 2).responses[0].error_code == ErrorCode.NOT_CONTROLLER
    assert broker.ask(44, change(TOPIC, "orders"), 1).responses[0].error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(("context", "code"), [(RequestContext, ErrorCode.INVALID_REQUEST), (ControllerContext, 0)])
def test_a_broker_changes_only_its_own_configs_and_the_controller_those_of_any_broker(context, code):
    """kafka-reassign-partitions clears throttles of every broker: it asks each broker, which forwards the request."""
    admin = AdminBroker(brokers=2)
    request = p44_incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            p44_incremental_alter_configs.AlterConfigsResource(
                resource_type=BROKER,
                resource_name="2",
                configs=[
                    p44_incremental_alter_configs.AlterableConfig(
                        name="leader.replication.throttled.rate", config_operation=DELETE, value=None
                    )
                ],
            )
        ]
    )

    async def answered():
        return await load_apis()[44].handle(context(admin.broker, OneConnection(), 1, 7, "test"), request)

    assert [each.error_code for each in asyncio.run(answered()).responses] == [code]
