import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.features import ELIGIBLE_LEADERS, METADATA_VERSION
from odradek.protocol.messages.p57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.protocol.metadata_records import FeatureLevelRecord
from support.admin_broker import AdminBroker


@pytest.fixture
def admin():
    broker = AdminBroker(features={METADATA_VERSION: (25, 30), ELIGIBLE_LEADERS: (0, 1), "kraft.version": (1, 1)})
    broker.commit([FeatureLevelRecord(name=METADATA_VERSION, feature_level=25)])
    return broker


def ask(admin, *updates, version=2, **fields):
    keys = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates]
    return admin.ask(57, UpdateFeaturesRequest(feature_updates=keys, **fields), version)


def test_a_feature_level_can_be_raised(admin):
    assert ask(admin, (METADATA_VERSION, 27, 1)).error_code == 0
    assert admin.broker.image.features[METADATA_VERSION] == 27


def test_validate_only_does_not_change_the_feature_level(admin):
    assert ask(admin, (METADATA_VERSION, 27, 1), validate_only=True).error_code == 0
    assert admin.broker.image.features[METADATA_VERSION] == 25


def test_one_invalid_feature_refuses_all_updates(admin):
    answer = ask(admin, (METADATA_VERSION, 27, 1), ("no.such.feature", 1, 1))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "no.such.feature" in answer.error_message
    assert admin.broker.image.features[METADATA_VERSION] == 25


def test_up_to_version_1_each_feature_has_a_result(admin):
    answer = ask(admin, (METADATA_VERSION, 26, 1), version=1)
    assert [(result.feature, result.error_code) for result in answer.results] == [(METADATA_VERSION, 0)]


def test_in_version_0_a_flag_allows_a_downgrade(admin):
    assert ask(admin, (METADATA_VERSION, 27, 1)).error_code == 0
    falling = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=26)
    request = UpdateFeaturesRequest(feature_updates=[falling])
    assert admin.ask(57, request, 0).error_code == ErrorCode.INVALID_UPDATE_VERSION
    falling.allow_downgrade = True
    assert admin.ask(57, request, 0).error_code == 0
    assert admin.broker.image.features[METADATA_VERSION] == 26


def test_an_inactive_controller_returns_not_controller(admin):
    admin.controller.refuses = KafkaError(ErrorCode.NOT_CONTROLLER)
    assert ask(admin, (METADATA_VERSION, 26, 1)).error_code == ErrorCode.NOT_CONTROLLER
