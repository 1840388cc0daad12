"""Client metrics subscriptions through the configuration APIs (32, 33, 44, 74)."""

from __future__ import annotations

import pytest

from odradek.base import limits
from odradek.base.errors import ErrorCode
from odradek.base.ids import LeaderEpoch, Offset
from odradek.metadata.configs.definition import ConfigSource, ConfigType
from odradek.metadata.image import ClusterImage
from odradek.metadata.image_records import records_of
from odradek.protocol.messages import p33_alter_configs as p33
from odradek.protocol.messages import p44_incremental_alter_configs as p44
from odradek.protocol.messages.p32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.p74_list_config_resources import ListConfigResourcesRequest
from odradek.security.authorizer import Operation, ResourceType
from support.admin_broker import AdminBroker, Denying

CLIENT_METRICS = 16
SET, DELETE, APPEND = range(3)


def resource(name, *changes):
    return p44.AlterConfigsResource(
        resource_type=CLIENT_METRICS,
        resource_name=name,
        configs=[p44.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes],
    )


def change(admin, *resources, validate_only=False):
    request = p44.IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return [(each.error_code, each.error_message) for each in admin.ask(44, request, 1).responses]


def described(admin, name, version=4):
    asked = DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=None)
    (result,) = admin.ask(32, DescribeConfigsRequest(resources=[asked], include_synonyms=True), version).results
    return result


def listed(admin):
    response = admin.ask(74, ListConfigResourcesRequest(), 0)
    return [each.resource_name for each in response.config_resources]


def test_a_subscription_is_set_described_listed_and_deleted():
    admin = AdminBroker()
    assert change(admin, resource("slow", ("metrics", SET, "a,b"), ("interval.ms", SET, "5000"))) == [(0, None)]
    assert listed(admin) == ["slow"]
    rows = {row.name: row for row in described(admin, "slow").configs}
    assert {name: (row.value, row.config_source, row.config_type) for name, row in rows.items()} == {
        "metrics": ("a,b", ConfigSource.CLIENT_METRICS, ConfigType.LIST),
        "interval.ms": ("5000", ConfigSource.CLIENT_METRICS, ConfigType.INT),
        "match": ("", ConfigSource.DEFAULT, ConfigType.LIST),
    }
    assert [(s.name, s.value, s.source) for s in rows["metrics"].synonyms] == [
        ("metrics", "a,b", ConfigSource.CLIENT_METRICS)
    ]
    assert rows["match"].synonyms == []
    assert change(admin, resource("slow", ("metrics", DELETE, None), ("interval.ms", DELETE, None))) == [(0, None)]
    assert listed(admin) == []


def test_an_unknown_subscription_is_described_with_its_defaults_as_in_kafka():
    assert {row.name: row.value for row in described(AdminBroker(), "nowhere").configs} == {
        "metrics": "",
        "interval.ms": "300000",
        "match": "",
    }
    assert described(AdminBroker(), "").error_code == ErrorCode.INVALID_REQUEST


def test_alter_configs_replaces_the_whole_subscription():
    admin = AdminBroker()
    change(admin, resource("slow", ("metrics", SET, "a"), ("interval.ms", SET, "5000")))
    wanted = p33.AlterConfigsResource(
        resource_type=CLIENT_METRICS,
        resource_name="slow",
        configs=[p33.AlterableConfig(name="metrics", value="b")],
    )
    (response,) = admin.ask(33, p33.AlterConfigsRequest(resources=[wanted]), 2).responses
    assert response.error_code == 0
    assert admin.broker.image.client_metrics() == {"slow": {"metrics": "b"}}


@pytest.mark.parametrize(
    ("name", "wrong", "code"),
    [
        ("slow", ("interval.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        ("slow", ("no.such", SET, "1"), ErrorCode.INVALID_REQUEST),
        ("slow", ("match", SET, "client_id=("), ErrorCode.INVALID_CONFIG),
        ("slow", ("metrics", APPEND, "b"), ErrorCode.INVALID_CONFIG),
        ("slow", ("metrics", SET, None), ErrorCode.INVALID_REQUEST),
        ("slow", ("metrics", SET, "m" * (limits.config_value_chars_max + 1)), ErrorCode.INVALID_CONFIG),
        ("", ("metrics", SET, "b"), ErrorCode.INVALID_REQUEST),
        ("n" * (limits.client_metrics_name_chars_max + 1), ("metrics", SET, "b"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_wrong_value_is_refused_and_changes_nothing(name, wrong, code):
    admin = AdminBroker()
    change(admin, resource("slow", ("metrics", SET, "a")))
    ((error, _message),) = change(admin, resource(name, ("interval.ms", SET, "1000"), wrong))
    assert error == code
    assert admin.broker.image.client_metrics() == {"slow": {"metrics": "a"}}


def test_validation_alone_changes_nothing():
    admin = AdminBroker()
    assert change(admin, resource("slow", ("metrics", SET, "a")), validate_only=True) == [(0, None)]
    assert listed(admin) == []


def test_subscriptions_are_bounded_also_within_one_request():
    admin = AdminBroker()
    one_too_many = [
        resource(f"s{number}", ("metrics", SET, "a")) for number in range(limits.client_metrics_subscriptions_max + 1)
    ]
    *accepted, (last, why) = change(admin, *one_too_many)
    assert {code for code, _ in accepted} == {0}
    assert last == ErrorCode.POLICY_VIOLATION
    assert "Delete one first" in why
    assert change(admin, resource("s0", ("metrics", SET, "b"))) == [(0, None)]
    assert change(admin, resource("new", ("metrics", SET, "b")))[0][0] == ErrorCode.POLICY_VIOLATION
    assert change(admin, resource("never", ("metrics", DELETE, None))) == [(0, None)]


def test_a_subscription_is_in_snapshots():
    admin = AdminBroker()
    change(admin, resource("slow", ("metrics", SET, "a"), ("match", SET, "client_id=x.*")))
    records = list(records_of(admin.broker.image))
    again, _ = ClusterImage(cluster_id="c").replay(records, Offset(len(records)), LeaderEpoch(1))
    assert again.client_metrics() == {"slow": {"metrics": "a", "match": "client_id=x.*"}}


def test_permissions_are_those_of_the_cluster():
    admin = AdminBroker(authorizer=Denying(lambda *_: True))
    assert change(admin, resource("slow", ("metrics", SET, "a")))[0][0] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert described(admin, "slow").error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    asked = [(operation, kind) for _principal, operation, kind, _name in admin.broker.authorizer.asked]
    assert asked == [
        (Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
        (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
    ]
