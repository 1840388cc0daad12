"""UpdateFeatures 0-2: which formats and rules the whole cluster keeps to from now on.

Either all updates of a request are made or none. In version 0 a flag allows a downgrade. Version 1 has an upgrade type
in its place, and a dry run. The response of version 2 has no result for each feature.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.features import FeatureUpdate, UpgradeType, update_features
from odradek.protocol.messages.p57_update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, RequestContext


async def handle(ctx: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    if not ctx.authorize(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return UpdateFeaturesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None)
    updates = [_update(ctx.version, wanted) for wanted in request.feature_updates]
    await ctx.host.controller.submit(
        lambda image: update_features(image, updates, ctx.host.config, validate_only=request.validate_only)
    )
    results = [UpdatableFeatureResult(feature=update.feature, error_message=None) for update in updates]
    return UpdateFeaturesResponse(error_message=None, results=results)


def refuse(_ctx: RequestContext, _request: UpdateFeaturesRequest, refused: KafkaError) -> UpdateFeaturesResponse:
    why = f"The update failed for all features since the following feature had an error: {refused.message}"
    return UpdateFeaturesResponse(error_code=refused.code, error_message=why)


def _update(version: int, wanted: FeatureUpdateKey) -> FeatureUpdate:
    upgrade_type = wanted.upgrade_type
    if version == 0 and wanted.allow_downgrade:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE
    return FeatureUpdate(wanted.feature, wanted.max_version_level, upgrade_type)


API = Api(key=57, versions=(0, 2), request=UpdateFeaturesRequest, handle=handle, refuse=refuse)
