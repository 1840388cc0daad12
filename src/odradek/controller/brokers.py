"""Registers brokers and controllers (KIP-631). A broker is registered as fenced; see `fencing` for the next states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.hosts import require_hosts
from odradek.base.ids import BrokerId, DirectoryId
from odradek.controller.decision import Decision
from odradek.controller.elections import DEFAULTS, after_restart
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.features import SUPPORTED_FEATURES
from odradek.metadata.image import BrokerRegistration, ClusterImage, FeatureRange, Listener
from odradek.metadata.registrations import read_features, read_listeners, written_features, written_listeners
from odradek.protocol.messages.p62_broker_registration import BrokerRegistrationRequest
from odradek.protocol.messages.p70_controller_registration import ControllerRegistrationRequest
from odradek.protocol.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)

_RESERVED_DIRECTORIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A node's registration request. A new process is a new incarnation."""

    broker_id: BrokerId
    cluster_id: str
    incarnation_id: bytes
    listeners: tuple[Listener, ...]
    directories: tuple[DirectoryId, ...]
    features: Mapping[str, FeatureRange] = field(default_factory=lambda: SUPPORTED_FEATURES)
    rack: str | None = None
    # The broker epoch of the previous process if it stopped cleanly, otherwise -1.
    previous_broker_epoch: int = -1


def registration_of(request: BrokerRegistrationRequest) -> Registration:
    return Registration(
        broker_id=BrokerId(request.broker_id),
        cluster_id=request.cluster_id,
        incarnation_id=request.incarnation_id,
        listeners=read_listeners(request.listeners),
        directories=tuple(map(DirectoryId, request.log_dirs)),
        features=read_features(request.features),
        rack=request.rack,
        previous_broker_epoch=request.previous_broker_epoch,
    )


def register_broker(
    image: ClusterImage,
    wanted: Registration,
    *,
    has_session: bool = False,
    is_heard: bool = False,
    config: BrokerConfig = DEFAULTS,
) -> Decision[int]:
    """The broker epoch: the offset at which this incarnation was registered. The same incarnation keeps its epoch.

    `has_session`: the registered broker with this id has a live session. `is_heard`: and no connection to it broke.
    """
    _check_registration(image, wanted)
    known = image.brokers.get(wanted.broker_id)
    if has_session:
        _check_successor(known, wanted, is_heard)
    if known is not None and known.incarnation_id == wanted.incarnation_id:
        record = _broker_record(wanted, known.broker_epoch)
        record.fenced = known.fenced
        record.in_controlled_shutdown = known.in_controlled_shutdown
        sentence = f"amended the registration of broker {wanted.broker_id}"
        return Decision(records=(record,), response=known.broker_epoch, sentence=sentence)
    clean = known is not None and known.broker_epoch == wanted.previous_broker_epoch
    changes = after_restart(image, wanted.broker_id, wanted.directories, clean=clean, config=config)
    broker_epoch = image.offset + len(changes) + 1
    # The registration comes last: if a crash keeps only some of the changes, the broker registers again.
    return Decision(
        records=(*changes, _broker_record(wanted, broker_epoch)),
        response=broker_epoch,
        sentence=f"registered broker {wanted.broker_id} with epoch {broker_epoch}, fenced, after "
        f"{'a clean' if clean else 'no clean'} stop; {len(changes)} partition(s) changed",
        atomic=False,
    )


def register_controller(image: ClusterImage, request: ControllerRegistrationRequest) -> Decision[None]:
    """Registers a controller's endpoints and supported features."""
    require_hosts(request.listeners)
    node_id, features = BrokerId(request.controller_id), read_features(request.features)
    _check_features(image, node_id, features)
    record = RegisterControllerRecord(
        controller_id=node_id,
        incarnation_id=request.incarnation_id,
        end_points=written_listeners(ControllerEndpoint, read_listeners(request.listeners)),
        features=written_features(ControllerFeature, features),
    )
    return Decision(records=(record,), response=None, sentence=f"registered controller {node_id}")


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
    if any(int.from_bytes(directory, "big") < _RESERVED_DIRECTORIES for directory in wanted.directories):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    require_hosts(wanted.listeners, ErrorCode.INVALID_REGISTRATION)
    _check_features(image, wanted.broker_id, wanted.features)


def _check_successor(known: BrokerRegistration | None, wanted: Registration, is_heard: bool) -> None:
    if known is None or known.incarnation_id == wanted.incarnation_id:
        return
    # A process locks its directory. A registration with the same directory comes from a successor of a dead process, or
    # is an old, delayed message. Only in the first case did the connection to the registered process break.
    if not is_heard and any(directory in known.directories for directory in wanted.directories):
        return
    raise KafkaError(
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        f"Another broker with id {wanted.broker_id} was heard within its session timeout.",
    )


def _check_features(image: ClusterImage, node_id: BrokerId, features: Mapping[str, FeatureRange]) -> None:
    for name, level in image.features.items():
        supported = features.get(name, FeatureRange(0, 0))
        if not supported.min_level <= level <= supported.max_level:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because node {node_id} does not support finalized version {level} of "
                f"{name}. It supports {supported.min_level} to {supported.max_level}.",
            )


def _broker_record(wanted: Registration, broker_epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=wanted.broker_id,
        incarnation_id=wanted.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=written_listeners(BrokerEndpoint, wanted.listeners),
        features=written_features(BrokerFeature, wanted.features),
        rack=wanted.rack,
        fenced=True,
        log_dirs=list(wanted.directories),
    )
