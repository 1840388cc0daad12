"""Brokers and controllers entering the cluster (KIP-631): registered fenced, then unfenced once they have caught up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, BrokerId, DirectoryId
from odradek.controller.decision import Decision
from odradek.controller.elections import with_broker, without_broker
from odradek.metadata.features import SUPPORTED_FEATURES
from odradek.metadata.image import BrokerRegistration, ClusterImage, FeatureRange, Listener
from odradek.protocol.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)

_UNFENCED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a node says about itself. A new process is a new incarnation."""

    broker_id: BrokerId
    cluster_id: str
    incarnation_id: bytes
    listeners: tuple[Listener, ...]
    directories: tuple[DirectoryId, ...]
    features: Mapping[str, FeatureRange] = field(default_factory=lambda: SUPPORTED_FEATURES)
    rack: str | None = None


def register_broker(image: ClusterImage, wanted: Registration) -> Decision[int]:
    """The broker epoch: the offset at which this incarnation was registered. The same incarnation keeps its epoch."""
    _check_registration(image, wanted)
    known = image.brokers.get(wanted.broker_id)
    if known is not None and known.incarnation_id == wanted.incarnation_id:
        record = _broker_record(wanted, known.broker_epoch)
        record.fenced = known.fenced
        record.in_controlled_shutdown = known.in_controlled_shutdown
        sentence = f"amended the registration of broker {wanted.broker_id}"
        return Decision(records=(record,), response=known.broker_epoch, sentence=sentence)
    broker_epoch = image.offset + 1
    changes = without_broker(image, wanted.broker_id)
    # The registration comes last: if a crash keeps only some of the changes, the broker registers again.
    return Decision(
        records=(*changes, _broker_record(wanted, broker_epoch)),
        response=broker_epoch,
        sentence=f"registered broker {wanted.broker_id} with epoch {broker_epoch}, fenced; "
        f"{len(changes)} partition(s) lost it as leader or in-sync replica",
        atomic=False,
    )


def unfence_broker(image: ClusterImage, broker_id: BrokerId, broker_epoch: int) -> Decision[None]:
    broker = check_broker_epoch(image, broker_id, broker_epoch)
    if not broker.fenced:
        return Decision(response=None)
    elections = with_broker(image, broker_id)
    unfencing = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=_UNFENCED)
    return Decision(
        records=(unfencing, *elections),
        response=None,
        sentence=f"unfenced broker {broker_id}; it now leads {len(elections)} partition(s) that had no leader",
        atomic=False,
    )


def register_controller(
    image: ClusterImage, wanted: Registration, listeners: tuple[Listener, ...] = ()
) -> Decision[None]:
    """The node as a controller; `listeners` are where it hears other controllers and brokers."""
    _check_features(image, wanted)
    record = RegisterControllerRecord(
        controller_id=wanted.broker_id,
        incarnation_id=wanted.incarnation_id,
        end_points=[
            ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in listeners
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level)
            for name, levels in wanted.features.items()
        ],
    )
    return Decision(records=(record,), response=None, sentence=f"registered controller {wanted.broker_id}")


def check_broker_epoch(image: ClusterImage, broker_id: BrokerId, broker_epoch: int) -> BrokerRegistration:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.broker_epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.broker_epoch}, but got {broker_epoch}"
        )
    return broker


def _check_registration(image: ClusterImage, wanted: Registration) -> None:
    if wanted.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {wanted.cluster_id}",
        )
    if not wanted.directories or len(dict.fromkeys(wanted.directories)) != len(wanted.directories):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "The log directories are missing or named twice")
    for other in image.brokers.values():
        for directory in wanted.directories:
            if other.broker_id != wanted.broker_id and directory in other.directories:
                raise KafkaError(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Broker {other.broker_id} is already registered with directory {directory.hex()}",
                )
    if ZERO_UUID in wanted.directories:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    _check_features(image, wanted)


def _check_features(image: ClusterImage, wanted: Registration) -> None:
    for name, level in image.features.items():
        supported = wanted.features.get(name, FeatureRange(0, 0))
        if not supported.min_level <= level <= supported.max_level:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because node {wanted.broker_id} does not support finalized version {level} of "
                f"{name}. It supports {supported.min_level} to {supported.max_level}.",
            )


def _broker_record(wanted: Registration, broker_epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=wanted.broker_id,
        incarnation_id=wanted.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in wanted.listeners
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level)
            for name, levels in wanted.features.items()
        ],
        rack=wanted.rack,
        fenced=True,
        log_dirs=list(wanted.directories),
    )
