"""Levels of loggers through the configuration APIs (32, 44): only those of the broker that is asked."""

from __future__ import annotations

import logging

import pytest

from odradek.base.errors import ErrorCode
from odradek.metadata.configs.definition import ConfigSource
from odradek.protocol.messages import p33_alter_configs as p33
from odradek.protocol.messages import p44_incremental_alter_configs as p44
from odradek.protocol.messages.p32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.server.loggers import Loggers
from support.admin_broker import AdminBroker, Denying

TOPIC, LOGGER = 2, 8
SET, DELETE = range(2)


@pytest.fixture
def admin():
    return with_own_loggers(AdminBroker())


def with_own_loggers(admin):
    root = logging.RootLogger(logging.WARNING)
    root.manager = logging.Manager(root)
    root.manager.getLogger("odradek.server")
    admin.broker.loggers = Loggers(root)
    return admin


def resource(kind, name, *changes):
    return p44.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[p44.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes],
    )


def change(admin, *resources, validate_only=False):
    request = p44.IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return [(each.resource_type, each.error_code) for each in admin.ask(44, request, 1).responses]


def described(admin, name="1", keys=None):
    asked = DescribeConfigsResource(resource_type=LOGGER, resource_name=name, configuration_keys=keys)
    (result,) = admin.ask(32, DescribeConfigsRequest(resources=[asked]), 4).results
    return result


def test_levels_are_described_and_changed(admin):
    assert change(admin, resource(LOGGER, "1", ("odradek.server", SET, "DEBUG"))) == [(LOGGER, 0)]
    rows = {row.name: row for row in described(admin).configs}
    assert {name: row.value for name, row in rows.items()} == {
        "root": "WARN",
        "odradek": "WARN",
        "odradek.server": "DEBUG",
    }
    assert rows["root"].config_source == ConfigSource.DYNAMIC_BROKER_LOGGER
    assert not rows["root"].read_only
    assert [row.name for row in described(admin, keys=["root", "nonsense"]).configs] == ["root"]


def test_levels_are_not_stored_in_the_metadata_log(admin):
    before = admin.broker.image.offset
    change(admin, resource(LOGGER, "1", ("root", SET, "DEBUG")))
    assert admin.broker.image.offset == before


def test_loggers_and_topics_in_one_request_are_both_changed(admin):
    admin.create_topic("orders")
    both = [resource(TOPIC, "orders", ("retention.ms", SET, "5")), resource(LOGGER, "1", ("root", SET, "ERROR"))]
    assert sorted(change(admin, *both)) == [(TOPIC, 0), (LOGGER, 0)]
    assert admin.broker.image.config(TOPIC, "orders") == {"retention.ms": "5"}
    assert described(admin).configs[0].value == "ERROR"


@pytest.mark.parametrize("name", ["", "2", "one"])
def test_loggers_of_another_node_are_refused(admin, name):
    assert change(admin, resource(LOGGER, name, ("root", SET, "INFO"))) == [(LOGGER, ErrorCode.INVALID_REQUEST)]
    assert described(admin, name).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("root", SET, "INFO"), ("root", SET, "DEBUG")], ErrorCode.INVALID_REQUEST),
        ([("root", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("root", SET, "INFO"), ("no.such", SET, "INFO")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_wrong_changes_are_refused_and_none_is_made(admin, changes, code):
    assert change(admin, resource(LOGGER, "1", *changes)) == [(LOGGER, code)]
    assert described(admin).configs[0].value == "WARN"


def test_a_broker_that_is_named_twice_is_refused(admin):
    twice = [resource(LOGGER, "1", ("root", SET, level)) for level in ("INFO", "DEBUG")]
    assert change(admin, *twice) == [(LOGGER, ErrorCode.INVALID_REQUEST)] * 2
    assert described(admin).configs[0].value == "WARN"


def test_validation_alone_changes_nothing(admin):
    assert change(admin, resource(LOGGER, "1", ("root", SET, "INFO")), validate_only=True) == [(LOGGER, 0)]
    assert described(admin).configs[0].value == "WARN"


def test_alter_configs_does_not_know_loggers(admin):
    """As in Kafka: it replaces whole sets."""
    wanted = p33.AlterConfigsResource(resource_type=LOGGER, resource_name="1", configs=[])
    (response,) = admin.ask(33, p33.AlterConfigsRequest(resources=[wanted]), 2).responses
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown resource type 8")


def test_permissions_are_those_of_the_cluster():
    admin = with_own_loggers(AdminBroker(authorizer=Denying(lambda *_: True)))
    refused = [(LOGGER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    assert change(admin, resource(LOGGER, "1", ("root", SET, "INFO"))) == refused
    assert described(admin).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert admin.broker.loggers.levels()["root"] == "WARN"
