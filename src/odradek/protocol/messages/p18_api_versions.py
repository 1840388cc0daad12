"""API 18, ApiVersions, versions 0-5. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Message, key=18, versions="0-5", flexible="3+"):
    client_software_name: str = string("3+", default="")
    client_software_version: str = string("3+", default="")
    cluster_id: str | None = string("5+", nullable="5+", default=None)
    node_id: int = int32("5+", default=-1)


class ApiVersion(Struct):
    api_key: int = int16("0+", default=0)
    min_version: int = int16("0+", default=0)
    max_version: int = int16("0+", default=0)


class SupportedFeatureKey(Struct):
    name: str = string("3+", default="")
    min_version: int = int16("3+", default=0)
    max_version: int = int16("3+", default=0)


class FinalizedFeatureKey(Struct):
    name: str = string("3+", default="")
    max_version_level: int = int16("3+", default=0)
    min_version_level: int = int16("3+", default=0)


class ApiVersionsResponse(Message, key=18, versions="0-5", flexible="3+"):
    error_code: int = int16("0+", default=0)
    api_keys: list[ApiVersion] = array(ApiVersion, "0+", factory=list)
    throttle_time_ms: int = int32("1+", default=0)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0, factory=list)
    finalized_features_epoch: int = int64("3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2, factory=list)
    zk_migration_ready: bool = boolean("3+", tag=3, default=False)
