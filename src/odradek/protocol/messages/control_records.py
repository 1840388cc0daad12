"""Values of control records. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string, struct, uint16, uuid


class EndTxnMarker(Message, versions="0"):
    coordinator_epoch: int = int32("0+", default=0)


class LeaderChangeMessageVoter(Struct):
    voter_id: int = int32("0+", default=0)
    voter_directory_id: bytes = uuid("1+", default=ZERO_UUID)


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    version: int = int16("0+", default=0)
    leader_id: int = int32("0+", default=0)
    voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter, "0+", factory=list)
    granting_voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter, "0+", factory=list)


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+", default=0)
    last_contained_log_timestamp: int = int64("0+", default=0)


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+", default=0)


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+", default=0)
    kraft_version: int = int16("0+", default=0)


class Endpoint(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16("0+", default=0)
    max_supported_version: int = int16("0+", default=0)


class VotersRecordVoter(Struct):
    voter_id: int = int32("0+", default=0)
    voter_directory_id: bytes = uuid("0+", default=ZERO_UUID)
    endpoints: list[Endpoint] = array(Endpoint, "0+", factory=list)
    kraft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature, "0+", factory=KRaftVersionFeature)


class VotersRecord(Message, versions="0", flexible="0+"):
    version: int = int16("0+", default=0)
    voters: list[VotersRecordVoter] = array(VotersRecordVoter, "0+", factory=list)
