from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p74_list_config_resources import ListConfigResourcesRequest
from odradek.protocol.metadata_records import ConfigRecord
from support.admin_broker import AdminBroker

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def listed(admin, *kinds, version=1):
    answer = admin.ask(74, ListConfigResourcesRequest(resource_types=list(kinds)), version)
    assert answer.error_code == 0
    return [(each.resource_type, each.resource_name) for each in answer.config_resources]


def test_topics_and_brokers_can_have_configurations():
    admin = AdminBroker(brokers=2)
    admin.create_topic("orders")
    loggers = [(LOGGER, "1"), (LOGGER, "2")]
    assert listed(admin) == [*loggers, (BROKER, "1"), (BROKER, "2"), (TOPIC, "orders")]
    assert listed(admin, TOPIC) == [(TOPIC, "orders")]
    assert listed(admin, GROUP, CLIENT_METRICS, LOGGER) == loggers


def test_version_0_asks_for_client_metrics():
    admin = AdminBroker()
    assert listed(admin, version=0) == []
    admin.commit([ConfigRecord(resource_type=CLIENT_METRICS, resource_name="slow", name="metrics", value="*")])
    assert listed(admin, version=0) == listed(admin, CLIENT_METRICS) == [(CLIENT_METRICS, "slow")]


def test_an_unknown_resource_type_is_unsupported_version():
    answer = AdminBroker().ask(74, ListConfigResourcesRequest(resource_types=[3]), 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
