"""The states of a registered broker (KIP-631): fenced, unfenced, in controlled shutdown, unregistered.

A broker that is fenced or shutting down leads nothing and joins no ISR.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId, DirectoryId
from odradek.controller.brokers import check_broker_epoch
from odradek.controller.decision import Decision
from odradek.controller.elections import DEFAULTS, partition_changes, with_broker, without_broker
from odradek.controller.electorate import Electorate, directory_of
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import ClusterImage, PartitionImage
from odradek.protocol.metadata_records import BrokerRegistrationChangeRecord, UnregisterBrokerRecord

_FENCED = 1
_UNFENCED = -1
_IN_CONTROLLED_SHUTDOWN = 1


def unfence_broker(
    image: ClusterImage, broker_id: BrokerId, broker_epoch: int, config: BrokerConfig = DEFAULTS
) -> Decision[None]:
    broker = check_broker_epoch(image, broker_id, broker_epoch)
    if not broker.fenced:
        return Decision(response=None)
    elections = with_broker(image, broker_id, config)
    unfencing = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=_UNFENCED)
    return Decision(
        records=(unfencing, *elections),
        response=None,
        sentence=f"unfenced broker {broker_id}; it now leads {len(elections)} partition(s) that had no leader",
        atomic=False,
    )


def fence_broker(
    image: ClusterImage, broker_id: BrokerId, broker_epoch: int, why: str, config: BrokerConfig = DEFAULTS
) -> Decision[None]:
    """Does nothing if this incarnation is fenced already or was replaced by another."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch or broker.fenced:
        return Decision(response=None)
    changes = without_broker(image, broker_id, config)
    fencing = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=_FENCED)
    # The fencing record comes last: a controller that takes over before it repeats the whole decision.
    return Decision(
        records=(*changes, fencing),
        response=None,
        sentence=f"fenced broker {broker_id}: {why}; {len(changes)} partition(s) changed",
        atomic=False,
    )


def begin_controlled_shutdown(
    image: ClusterImage, broker_id: BrokerId, broker_epoch: int, config: BrokerConfig = DEFAULTS
) -> Decision[None]:
    """Moves its leaderships while it still serves. It may stop once it has none."""
    broker = check_broker_epoch(image, broker_id, broker_epoch)
    changes = without_broker(image, broker_id, config)
    if broker.in_controlled_shutdown and not changes:
        return Decision(response=None)
    marked = () if broker.in_controlled_shutdown else (_shutting_down(broker_id, broker_epoch),)
    return Decision(
        records=(*marked, *changes),
        response=None,
        sentence=f"broker {broker_id} shuts down; {len(changes)} partition(s) changed",
        atomic=False,
    )


def _shutting_down(broker_id: BrokerId, broker_epoch: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN
    )


def unregister_broker(image: ClusterImage, broker_id: BrokerId, config: BrokerConfig = DEFAULTS) -> Decision[None]:
    """For a broker that will not return. Its replicas stay assigned: reassign them first.

    Kafka unregisters a live broker, which then fails. Here it is refused as a probable typing error.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    if not broker.fenced:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is alive: stop it before unregistering it.")
    changes = without_broker(image, broker_id, config)
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch)
    return Decision(
        records=(*changes, gone),
        response=None,
        sentence=f"unregistered broker {broker_id}; {len(changes)} partition(s) changed",
        atomic=False,
    )


def lose_directories(
    image: ClusterImage, broker_id: BrokerId, offline: Sequence[DirectoryId], config: BrokerConfig = DEFAULTS
) -> Decision[None]:
    """Removes the replicas on failed disks from ISRs and leadership. The broker continues with its other disks."""
    broker = image.brokers[broker_id]
    failed = [directory for directory in broker.directories if directory in offline]
    if not failed:
        return Decision(response=None)
    if len(failed) == len(broker.directories):
        return fence_broker(image, broker_id, broker.broker_epoch, "it has no directory left", config)

    def concerns(partition: PartitionImage) -> bool:
        held = broker_id in partition.isr or partition.leader == broker_id
        return held and directory_of(partition, broker_id) in failed

    changes = partition_changes(
        image, Electorate(image, config, leaving=broker_id), concerns, lambda change: change.remove(broker_id)
    )
    left = [directory for directory in broker.directories if directory not in offline]
    narrowed = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.broker_epoch, log_dirs=list(left)
    )
    return Decision(
        records=(*changes, narrowed),
        response=None,
        sentence=f"broker {broker_id} lost {len(failed)} directories; {len(changes)} partition(s) changed",
        atomic=False,
    )


def leads_anything(image: ClusterImage, broker_id: BrokerId) -> bool:
    return any(partition.leader == broker_id for topic in image.topics.values() for partition in topic.partitions)
