"""Records of the metadata log. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, uint16, uuid


class BrokerEndpoint(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)
    security_protocol: int = int16("0+", default=0)


class BrokerFeature(Struct):
    name: str = string("0+", default="")
    min_supported_version: int = int16("0+", default=0)
    max_supported_version: int = int16("0+", default=0)


class RegisterBrokerRecord(Message, key=0, versions="0-4", flexible="0+"):
    broker_id: int = int32("0+", default=0)
    is_migrating_zk_broker: bool = boolean("2+", default=False)
    incarnation_id: bytes = uuid("0+", default=ZERO_UUID)
    broker_epoch: int = int64("0+", default=0)
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint, "0+", factory=list)
    features: list[BrokerFeature] = array(BrokerFeature, "0+", factory=list)
    rack: str | None = string("0+", nullable="0+", default="")
    fenced: bool = boolean("0+", default=True)
    in_controlled_shutdown: bool = boolean("1+", default=False)
    log_dirs: list[bytes] = array(uuid, "3+", tag=0, factory=list)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "4+", nullable="4+", tag=1, default=None)


class UnregisterBrokerRecord(Message, key=1, versions="0", flexible="0+"):
    broker_id: int = int32("0+", default=0)
    broker_epoch: int = int64("0+", default=0)


class TopicRecord(Message, key=2, versions="0", flexible="0+"):
    name: str = string("0+", default="")
    topic_id: bytes = uuid("0+", default=ZERO_UUID)


class PartitionRecord(Message, key=3, versions="0-2", flexible="0+"):
    partition_id: int = int32("0+", default=-1)
    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    replicas: list[int] = array(int32, "0+", factory=list)
    isr: list[int] = array(int32, "0+", factory=list)
    removing_replicas: list[int] = array(int32, "0+", factory=list)
    adding_replicas: list[int] = array(int32, "0+", factory=list)
    leader: int = int32("0+", default=-1)
    leader_recovery_state: int = int8("0+", tag=0, default=0)
    leader_epoch: int = int32("0+", default=-1)
    partition_epoch: int = int32("0+", default=-1)
    directories: list[bytes] = array(uuid, "1+", factory=list)
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", tag=1, default=None)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", tag=2, default=None)


class ConfigRecord(Message, key=4, versions="0", flexible="0+"):
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")
    name: str = string("0+", default="")
    value: str | None = string("0+", nullable="0+", default="")


class PartitionChangeRecord(Message, key=5, versions="0-2", flexible="0+"):
    partition_id: int = int32("0+", default=-1)
    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    isr: list[int] | None = array(int32, "0+", nullable="0+", tag=0, default=None)
    leader: int = int32("0+", tag=1, default=-2)
    replicas: list[int] | None = array(int32, "0+", nullable="0+", tag=2, default=None)
    removing_replicas: list[int] | None = array(int32, "0+", nullable="0+", tag=3, default=None)
    adding_replicas: list[int] | None = array(int32, "0+", nullable="0+", tag=4, default=None)
    leader_recovery_state: int = int8("0+", tag=5, default=-1)
    directories: list[bytes] | None = array(uuid, "1+", nullable="1+", tag=8, default=None)
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", tag=6, default=None)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", tag=7, default=None)


class FenceBrokerRecord(Message, key=7, versions="0", flexible="0+"):
    id: int = int32("0+", default=0)
    epoch: int = int64("0+", default=0)


class UnfenceBrokerRecord(Message, key=8, versions="0", flexible="0+"):
    id: int = int32("0+", default=0)
    epoch: int = int64("0+", default=0)


class RemoveTopicRecord(Message, key=9, versions="0", flexible="0+"):
    topic_id: bytes = uuid("0+", default=ZERO_UUID)


class FeatureLevelRecord(Message, key=12, versions="0", flexible="0+"):
    name: str = string("0+", default="")
    feature_level: int = int16("0+", default=0)


class ProducerIdsRecord(Message, key=15, versions="0", flexible="0+"):
    broker_id: int = int32("0+", default=0)
    broker_epoch: int = int64("0+", default=-1)
    next_producer_id: int = int64("0+", default=0)


class BrokerRegistrationChangeRecord(Message, key=17, versions="0-3", flexible="0+"):
    broker_id: int = int32("0+", default=0)
    broker_epoch: int = int64("0+", default=0)
    fenced: int = int8("0+", tag=0, default=0)
    in_controlled_shutdown: int = int8("1+", tag=1, default=0)
    log_dirs: list[bytes] = array(uuid, "2+", tag=2, factory=list)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "3+", nullable="3+", tag=3, default=None)


class NoOpRecord(Message, key=20, versions="0", flexible="0+"):
    pass


class BeginTransactionRecord(Message, key=23, versions="0", flexible="0+"):
    name: str | None = string("0+", nullable="0+", tag=0, default=None)


class EndTransactionRecord(Message, key=24, versions="0", flexible="0+"):
    pass


class AbortTransactionRecord(Message, key=25, versions="0", flexible="0+"):
    reason: str | None = string("0+", nullable="0+", tag=0, default=None)


class ControllerEndpoint(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)
    security_protocol: int = int16("0+", default=0)


class ControllerFeature(Struct):
    name: str = string("0+", default="")
    min_supported_version: int = int16("0+", default=0)
    max_supported_version: int = int16("0+", default=0)


class RegisterControllerRecord(Message, key=27, versions="0", flexible="0+"):
    controller_id: int = int32("0+", default=0)
    incarnation_id: bytes = uuid("0+", default=ZERO_UUID)
    zk_migration_ready: bool = boolean("0+", default=False)
    end_points: list[ControllerEndpoint] = array(ControllerEndpoint, "0+", factory=list)
    features: list[ControllerFeature] = array(ControllerFeature, "0+", factory=list)


class ClearElrRecord(Message, key=28, versions="0", flexible="0+"):
    topic_name: str = string("0+", default="")
