"""ApiVersions 0-5: what this broker speaks.

0-2 name the APIs. 3 adds the client's software name and version, which must be well formed, and the features. 4 adds
features whose range starts at 0, which older clients cannot read (KAFKA-17011). 5 lets a client name the node that it
expects to reach (KIP-1242). The reply's header is always version 0, and a version above ours is answered in version 0.
The dispatcher does both, since the body of such a request cannot be read.

Only the APIs in the table are advertised: clients switch to newer protocols as soon as they see them offered. Every
client based on librdkafka prints a line to stderr when it is offered telemetry (and 2.5.0 may abort), so such a client
is offered it only if there is a subscription. Java is offered it always: its clients look only once. No permission is
needed: a client must know the supported versions before it can authenticate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from odradek.base import limits
from odradek.base.errors import ErrorCode
from odradek.metadata.features import OFFERED_FEATURES
from odradek.protocol.messages.p18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from odradek.server.network.request import Api, BrokerContext, ClientSoftware, FrameApi, RequestContext

# Not a metadata record: it is a property of the log itself, and the same since the log began.
QUORUM_FEATURES = {"kraft.version": 1}
TELEMETRY = (71, 72)
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    refusal = _refusal(ctx, request)
    if refusal:
        return ApiVersionsResponse(error_code=refusal)
    if ctx.version >= 3:
        most = limits.client_software_chars_max
        ctx.connection.software = ClientSoftware(
            request.client_software_name[:most], request.client_software_version[:most]
        )
    image = ctx.host.image
    return ApiVersionsResponse(
        api_keys=[row for row in advertised(ctx.host.apis) if row.api_key not in _withheld(ctx)],
        supported_features=_supported_features(from_level_0=ctx.version >= 4),
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted({**image.features, **QUORUM_FEATURES}.items())
            if name in OFFERED_FEATURES and level > 0
        ],
    )


def _withheld(ctx: RequestContext) -> tuple[int, ...]:
    """APIs that this client should not see."""
    if not isinstance(ctx, BrokerContext) or ctx.broker.telemetry.has_subscriptions:
        return ()
    return TELEMETRY if any("rdkafka" in text for text in ctx.connection.software) else ()


def unsupported_version(apis: Mapping[int, Api | FrameApi]) -> ApiVersionsResponse:
    """To be encoded in version 0, whatever was asked."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=advertised({18: apis[18]}))


def advertised(apis: Mapping[int, Api | FrameApi]) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=api.advertised[0], max_version=api.advertised[1])
        for key, api in sorted(apis.items())
    ]


def _refusal(ctx: RequestContext, request: ApiVersionsRequest) -> ErrorCode:
    if ctx.version >= 5 and (request.cluster_id is None) != (request.node_id == -1):
        return ErrorCode.INVALID_REQUEST
    if ctx.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ErrorCode.INVALID_REQUEST
    if request.cluster_id is not None and (request.cluster_id, request.node_id) != (
        ctx.host.cluster_id,
        ctx.host.node_id,
    ):
        return ErrorCode.REBOOTSTRAP_REQUIRED
    return ErrorCode.NONE


def _supported_features(*, from_level_0: bool) -> list[SupportedFeatureKey]:
    return [
        SupportedFeatureKey(name=name, min_version=levels.min_level, max_version=levels.max_level)
        for name, levels in sorted(OFFERED_FEATURES.items())
        if from_level_0 or levels.min_level > 0
    ]


API = Api(key=18, versions=(0, 5), request=ApiVersionsRequest, handle=handle)
