import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p60_describe_cluster import DescribeClusterRequest
from odradek.security.authorizer import Operation
from support.admin_broker import CLUSTER_ID, AdminBroker, Denying


@pytest.mark.parametrize("version", [0, 1, 2])
def test_brokers_controller_and_cluster_id(version):
    broker = AdminBroker(brokers=2)
    response = broker.ask(60, DescribeClusterRequest(), version)
    assert (response.error_code, response.cluster_id) == (0, CLUSTER_ID)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, "host1", 9093, "rack1"),
        (2, "host2", 9094, "rack2"),
    ]
    assert response.controller_id in (1, 2)
    assert response.cluster_authorized_operations == -(2**31)


def test_fenced_brokers_are_shown_on_request():
    broker = AdminBroker()
    broker.register(2, unfenced=False)
    assert [b.broker_id for b in broker.ask(60, DescribeClusterRequest(), 2).brokers] == [1]
    shown = broker.ask(60, DescribeClusterRequest(include_fenced_brokers=True), 2).brokers
    assert [(b.broker_id, b.is_fenced) for b in shown] == [(1, False), (2, True)]


@pytest.mark.parametrize(
    ("endpoint_type", "error"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_controllers_are_not_described_by_a_broker(endpoint_type, error):
    response = AdminBroker().ask(60, DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert response.error_code == error
    assert response.brokers == []


def test_authorized_operations_are_none_without_permission_to_describe():
    wanted = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert AdminBroker().ask(60, wanted, 0).cluster_authorized_operations > 0
    hidden = Denying(lambda operation, _type, _name: operation is Operation.DESCRIBE)
    assert AdminBroker(authorizer=hidden).ask(60, wanted, 0).cluster_authorized_operations == 0
