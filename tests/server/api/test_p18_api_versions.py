import pytest

from odradek.base.errors import ErrorCode
from odradek.metadata.features import OFFERED_FEATURES
from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.metadata_records import FeatureLevelRecord
from odradek.server.api.p18_api_versions import advertised, unsupported_version
from odradek.server.network.request import FrameApi
from support.admin_broker import APIS, CLUSTER_ID, AdminBroker


def request(name="odradek-test", software_version="1.0", **more):
    return ApiVersionsRequest(client_software_name=name, client_software_version=software_version, **more)


@pytest.mark.parametrize("version", range(6))
def test_t3_every_version_from_0_on_gets_the_rows_of_the_table(version):
    response = AdminBroker().ask(18, request(), version)
    assert response.error_code == 0
    assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == [
        (key, *api.versions) for key, api in sorted(APIS.items())
    ]


def test_t5_a_row_has_the_advertised_versions_even_if_fewer_are_served():
    produce = FrameApi(key=0, versions=(3, 13), advertised=(0, 13), handle=lambda *_: None)
    (row,) = advertised({0: produce})
    assert (row.min_version, row.max_version) == (0, 13)


def test_t14_an_api_that_is_not_in_the_table_is_not_advertised():
    keys = [row.api_key for row in AdminBroker().ask(18, request(), 4).api_keys]
    assert 68 not in keys  # ConsumerGroupHeartbeat
    assert 76 not in keys  # ShareGroupHeartbeat


def test_t2_a_version_above_ours_is_refused_in_the_layout_of_version_0_with_our_own_range():
    body = unsupported_version(APIS).encode(0)
    assert body == bytes.fromhex("0023 00000001 0012 0000 0005")
    assert ApiVersionsResponse.decode(body, 0).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("name", ["", "-java", "java-", "ja va", "jävä", "a_b", "java\n"])
def test_t4_a_malformed_software_name_is_refused_from_version_3_on(name):
    broker = AdminBroker()
    assert broker.ask(18, request(name=name), 3).error_code == ErrorCode.INVALID_REQUEST
    assert broker.ask(18, request(software_version=name), 4).error_code == ErrorCode.INVALID_REQUEST
    assert broker.ask(18, request(name=name), 2).error_code == 0


@pytest.mark.parametrize("name", ["a", "apache-kafka-java", "librdkafka", "a.b-c.1", "4.4.0"])
def test_t4_a_well_formed_software_name_is_accepted(name):
    assert AdminBroker().ask(18, request(name=name), 3).error_code == 0


def test_t4_features_that_start_at_level_0_are_hidden_before_version_4():
    broker = AdminBroker()
    hidden = ["eligible.leader.replicas.version", "transaction.version"]
    assert [f.name for f in broker.ask(18, request(), 3).supported_features] == ["kraft.version", "metadata.version"]
    shown = broker.ask(18, request(), 4).supported_features
    assert [f.name for f in shown] == [hidden[0], "kraft.version", "metadata.version", hidden[1]]
    assert {(f.name, f.min_version, f.max_version) for f in shown} == {
        (name, levels.min_level, levels.max_level) for name, levels in OFFERED_FEATURES.items()
    }


def test_finalized_features_are_those_of_the_image():
    broker = AdminBroker()
    broker.commit([FeatureLevelRecord(name="metadata.version", feature_level=29)])
    response = broker.ask(18, request(), 4)
    assert [(f.name, f.min_version_level, f.max_version_level) for f in response.finalized_features] == [
        ("kraft.version", 1, 1),
        ("metadata.version", 29, 29),
    ]
    assert response.finalized_features_epoch == broker.broker.image.offset


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        (CLUSTER_ID, 1, ErrorCode.NONE),
        (CLUSTER_ID, 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("BBBBBBBBBBBBBBBBBBBBBQ", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_t4_version_5_checks_the_cluster_and_node_that_the_client_expects(cluster_id, node_id, error):
    assert AdminBroker().ask(18, request(cluster_id=cluster_id, node_id=node_id), 5).error_code == error
