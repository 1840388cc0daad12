"""API 82, UpdateRaftVoter, versions 0. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, int16, int32, string, struct, uint16, uuid


class Listener(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16("0+", default=0)
    max_supported_version: int = int16("0+", default=0)


class UpdateRaftVoterRequest(Message, key=82, versions="0", flexible="0+"):
    cluster_id: str | None = string("0+", nullable="0+", default="")
    current_leader_epoch: int = int32("0+", default=0)
    voter_id: int = int32("0+", default=0)
    voter_directory_id: bytes = uuid("0+", default=ZERO_UUID)
    listeners: list[Listener] = array(Listener, "0+", factory=list)
    kraft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature, "0+", factory=KRaftVersionFeature)


class CurrentLeader(Struct):
    leader_id: int = int32("0+", default=-1)
    leader_epoch: int = int32("0+", default=-1)
    host: str = string("0+", default="")
    port: int = int32("0+", default=0)


class UpdateRaftVoterResponse(Message, key=82, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    current_leader: CurrentLeader = struct(CurrentLeader, "0+", tag=0, factory=CurrentLeader)
